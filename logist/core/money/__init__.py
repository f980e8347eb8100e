"""Money in microcents, as integers: prices, costs, totals, and their format for people."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
