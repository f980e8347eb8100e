"""The pure heart: values in, values out; no file, clock, id, environment or network."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
