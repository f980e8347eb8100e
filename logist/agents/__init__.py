"""The agents that do the work: a model behind litellm, agent programs, archived answers, Python functions.

`protocol.py` defines the request that all of them get.
"""
