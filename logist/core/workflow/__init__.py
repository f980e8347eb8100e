"""Workflows: from a diagram or a list of steps to a graph that a job can follow."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
