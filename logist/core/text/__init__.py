"""Text and names: paths into data, patterns, prompt layers, fences, ids, and problems with a position."""
