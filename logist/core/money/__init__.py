"""Money in whole microcents: prices, costs, totals, and how people read them."""
