"""The agent's answer: its exit command, the schema of its output, its evidence."""
