"""Money as people read it; free of pydantic and decimals, for what must start quickly."""

from __future__ import annotations

MICROCENTS = 1_000_000
"""Microcents in a US cent."""
_SMALLEST_SHOWN = 10_000
"""A hundredth of a cent, in microcents."""


def dollars(microcents: int) -> str:
    """For people: `$12.30`, `$0.0123`, `<$0.0001`; two to four decimals."""
    sign = "-" if microcents < 0 else ""
    amount = abs(microcents)
    if 0 < amount < _SMALLEST_SHOWN:
        return f"{sign}<$0.0001"
    whole, part = divmod((amount + _SMALLEST_SHOWN // 2) // _SMALLEST_SHOWN, 10_000)
    return f"{sign}${whole:,}.{f'{part:04}'.rstrip('0').ljust(2, '0')}"


def join(cents: int, micro: int) -> int:
    """Microcents again, from the two halves that files keep."""
    return cents * MICROCENTS + micro
