"""Checkpoints of a workspace: what lies in it, written to git and put back."""
