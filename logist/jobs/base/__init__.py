"""The base of every use case on a job: the project, the locked job, its spec, its readers."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
