"""The agents that do the work: a model behind litellm, agent programs, archived answers, Python functions.

`protocol.py` defines the request that all of them get.
"""

from logist.lazy_modules import load_on_use

load_on_use(globals())
