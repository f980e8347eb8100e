"""One step: the request, and the meaning of the answer."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
