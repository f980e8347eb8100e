"""Formats counts for people."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """Format a count: `1 call`, `2,000 calls`, `3 histories`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def format_bytes(number: int) -> str:
    """Format a size: `0 B`, `4.1 kB`, `12.3 MB`; 1 kB is 1000 bytes."""
    size, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 999.95:
            break
        size, unit = size / 1000, larger
    return f"{number} B" if unit == "B" else f"{size:.1f} {unit}"
