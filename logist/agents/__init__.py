"""The agents that do the work: a model behind litellm, agent programs,
archived answers; all use the same protocol.
"""
