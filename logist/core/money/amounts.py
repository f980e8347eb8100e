"""Formats money for people. Doesn't import the models, so that commands start quickly."""

from __future__ import annotations

from functools import lru_cache

MICROCENTS = 1_000_000


def format_cents(microcents: int) -> str:
    """Return an amount in cents, exactly, as an option takes it: `0.07`."""
    whole, part = divmod(microcents, MICROCENTS)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".")


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


def format_exactly(microcents: int) -> str:
    """Format all decimals of an amount, at least two: `$0.00000123`, `$12.30`."""
    whole, part = divmod(abs(microcents), 100 * MICROCENTS)
    return f"{'-' if microcents < 0 else ''}${whole:,}.{f'{part:08}'.rstrip('0').ljust(2, '0')}"


@lru_cache(maxsize=64)
def to_microcents(cents: float) -> int:
    """Return an amount in US cents that a person has written, in microcents, rounded down."""
    whole, _, rest = str(cents).partition(".")
    if whole.isdecimal() and rest in ("", "0"):
        return int(whole) * MICROCENTS
    from fractions import Fraction  # noqa: PLC0415 - takes 1.5 ms, and most amounts are whole cents

    return int(Fraction(str(cents)) * MICROCENTS)


def join_cents(cents: int, micro: int) -> int:
    """Return the microcents for the two parts that files store."""
    return cents * MICROCENTS + micro


def split_cents(microcents: int) -> tuple[int, int]:
    """Return `(whole cents, rest)`, the rest from 0 to 999,999, as files store it."""
    return divmod(microcents, MICROCENTS)
