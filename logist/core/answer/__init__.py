"""An agent's answer: the exit command in it, the schema of its output, its evidence."""
