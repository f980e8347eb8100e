"""The agents that do the work: a model behind litellm, agent programs,
archived answers; one protocol for all.
"""
