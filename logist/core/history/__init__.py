"""What is computed from a history: the state, the agent runs, the statistics."""
