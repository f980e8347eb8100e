"""The prompt: its parts, its context, and its budget."""
