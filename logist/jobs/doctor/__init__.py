"""Finds and repairs problems in the files of a job."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
