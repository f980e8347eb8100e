"""Logist: LLM-agent work as plain directories."""

__version__ = "0.1.0"
