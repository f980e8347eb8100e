"""Commands that run in a workspace, and the setup that makes it ready for them."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
