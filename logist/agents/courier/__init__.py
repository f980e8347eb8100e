"""The courier: the process that makes paid calls, and the meaning of its files."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
