"""The prompt: its parts, its context, and its budget."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
