"""Money in whole microcents: prices, costs, totals, and their format for people."""
