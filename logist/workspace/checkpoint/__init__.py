"""Checkpoints of a workspace: its content, written to git and restored."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
