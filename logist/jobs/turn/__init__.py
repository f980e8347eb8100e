"""One turn of an agent: plan it, ask, record the answer, observe and check the work."""
