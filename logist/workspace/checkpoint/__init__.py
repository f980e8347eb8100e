"""Checkpoints of a workspace: its content, written to git and restored."""
