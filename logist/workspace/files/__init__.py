"""Files that an agent may have made: opened, read, named and removed safely."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
