"""Money in microcents, as integers: prices, costs, totals, and their format for people."""
