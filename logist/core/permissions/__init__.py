"""The permissions of roles, and the tools that require them."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
