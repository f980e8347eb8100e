"""Finds secrets in text and replaces them."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
