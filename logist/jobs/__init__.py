"""The use cases: the only place where the pure core meets files, agents and people."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
