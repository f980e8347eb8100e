"""Steps that child jobs do: create the jobs, share limits with them, gather their results."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
