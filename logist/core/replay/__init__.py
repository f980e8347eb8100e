"""Judges recorded interactions by the current rules, and compares recorded prompts with current ones."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
