"""The checks of `logist doctor`: the machine, the project and each job; and the repairs of --fix."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
