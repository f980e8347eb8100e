"""One turn of an agent: plan it, call the agent, record the answer, observe and check the work."""
