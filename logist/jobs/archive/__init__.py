"""Recorded jobs: find, replay, compare, count, import, export and fork them."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
