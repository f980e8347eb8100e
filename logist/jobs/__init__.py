"""The use cases: the only place where the pure core meets files, agents and people."""
