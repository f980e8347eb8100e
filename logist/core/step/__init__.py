"""One step: what to ask, and what the answer means."""
