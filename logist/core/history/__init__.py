"""What is computed from a history: the state, the agent runs, the statistics."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
