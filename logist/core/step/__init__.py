"""One step: the request, and the meaning of the answer."""
