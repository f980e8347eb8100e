"""Text and names: paths into data, patterns, layers, fences, ids, problems with a place."""
