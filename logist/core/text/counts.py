"""Formats counts for people."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """Format a count: `1 call`, `2,000 calls`, `3 histories`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"
