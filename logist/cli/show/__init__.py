"""What people see: tables, bars, drawings, and the one module that prints."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
