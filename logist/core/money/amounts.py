"""Format money and counts for people. Doesn't import pydantic, so that commands start quickly."""

from __future__ import annotations

MICROCENTS = 1_000_000
"""Microcents in a US cent."""
_SMALLEST_SHOWN = 10_000
"""A hundredth of a cent, in microcents."""


def format_money(microcents: int) -> str:
    """Format for people: `$12.30`, `$0.0123`, `<$0.0001`; two to four decimals."""
    sign = "-" if microcents < 0 else ""
    amount = abs(microcents)
    if 0 < amount < _SMALLEST_SHOWN:
        return f"{sign}<$0.0001"
    whole, part = divmod((amount + _SMALLEST_SHOWN // 2) // _SMALLEST_SHOWN, 10_000)
    return f"{sign}${whole:,}.{f'{part:04}'.rstrip('0').ljust(2, '0')}"


def format_count(number: int, noun: str) -> str:
    """Format a count: `1 call`, `2,000 calls`, `3 histories`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def join_cents(cents: int, micro: int) -> int:
    """Return the microcents for the two parts that files store."""
    return cents * MICROCENTS + micro
