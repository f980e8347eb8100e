"""Judges recorded interactions by the current rules, and compares recorded prompts with current ones."""
