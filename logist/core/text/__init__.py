"""Text and names: paths into data, patterns, prompt layers, fences, ids, and problems with a position."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
