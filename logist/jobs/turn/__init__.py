"""One turn of an agent: plan it, call the agent, record the answer, observe and check the work."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
