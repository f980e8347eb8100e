"""Prices and costs in microcents (1 US cent = 1,000,000) as integers, so that nothing is lost by rounding."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from logist.core.model import Model, PriceTier, Usage
from logist.core.money.amounts import MICROCENTS, format_exactly, format_money, join_cents, split_cents
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "bound_tokens",
    "compute_cost",
    "compute_highest_cost",
    "compute_worst_case",
    "find_cost_difference",
    "fit_output",
    "fit_output_to_tokens",
    "format_money",
    "has_known_price",
    "is_at_least_as_expensive",
    "join_cents",
    "split_cents",
]

MESSAGE_TOKENS = 64
"""Tokens that a provider may add to each message: role names and separators, plus a margin."""
MESSAGES = 2
"""A system and a user message."""


def has_known_price(model: Model) -> bool:
    """Whether the cost of a call is known; 0 is a known price."""
    return _get_tiers(model) is not None


def is_at_least_as_expensive(model: Model, other: Model) -> bool:
    """Whether no request costs less by the prices of `model` than by those of `other`; False if only one is known."""
    tiers, other_tiers = _get_tiers(model), _get_tiers(other)
    if tiers is None or other_tiers is None:
        return tiers == other_tiers
    if tiers == other_tiers:
        return True
    lowest = (min(prices) for prices in zip(*(tier[1:] for tier in tiers), strict=True))
    highest = (max(prices) for prices in zip(*(tier[1:] for tier in other_tiers), strict=True))
    return all(low >= high for low, high in zip(lowest, highest, strict=True))


def compute_cost(
    model: Model,
    input_tokens: int,
    output_tokens: int,
    cached_tokens: int = 0,
    *,
    cache_write_tokens: int = 0,
    reasoning_tokens: int = 0,
    longest_input: int | None = None,
) -> int | None:
    """Return the cost in microcents, rounded up; None if the price is unknown. Negative counts are treated as 0.

    `cached_tokens` and `cache_write_tokens`: the parts of the input that were read from and stored in the
    provider's cache. `reasoning_tokens`: the part of the output that is not in the answer. `longest_input`:
    which tier of prices applies, for the sum of several requests; None: the counts are of one request.
    """
    tiers = _get_tiers(model)
    if tiers is None:
        return None
    total = max(0, input_tokens)
    length = total if longest_input is None else longest_input
    prices = [each for each in tiers if each.above < length or each.above == 0][-1]
    cached = min(max(0, cached_tokens), total)
    stored = min(max(0, cache_write_tokens), total - cached)
    written = max(0, output_tokens)
    reasoning = min(max(0, reasoning_tokens), written)
    return math.ceil(
        (total - cached - stored) * prices.fresh
        + cached * prices.cached
        + stored * prices.cache_write
        + (written - reasoning) * prices.output
        + reasoning * prices.reasoning
    )


def compute_worst_case(model: Model, prompt: str, max_output: int, messages: int = MESSAGES) -> int | None:
    """Return the maximum cost of sending `prompt` in this many messages, in microcents; None if the price is
    unknown.

    All input counts at the highest price of input, because the content of the cache is unknown, and all output
    at the highest price of output.
    """
    return compute_highest_cost(model, bound_tokens(prompt, messages), max_output)


def compute_highest_cost(model: Model, input_tokens: int, max_output: int) -> int | None:
    """Return the maximum cost of a request with up to this many input tokens; like `compute_worst_case`."""
    highest = _find_highest_prices(model, input_tokens)
    if highest is None:
        return None
    return math.ceil(input_tokens * highest.input + max(0, max_output) * highest.output)


def fit_output(
    model: Model, prompt: str, wanted: int, left_microcents: int, minimum: int, messages: int = MESSAGES
) -> int | None:
    """Return the largest output, up to `wanted` tokens, whose worst-case cost is covered by what is left.

    None if that is less than `minimum` (or less than `wanted`, if `wanted` is smaller), or if the price is
    unknown.
    """
    return fit_output_to_tokens(model, bound_tokens(prompt, messages), wanted, left_microcents, minimum)


def fit_output_to_tokens(
    model: Model, input_tokens: int, wanted: int, left_microcents: int, minimum: int
) -> int | None:
    """Return the largest output for a request with up to this many input tokens; like `fit_output`."""
    highest = _find_highest_prices(model, input_tokens)
    if highest is None:
        return None
    room = left_microcents - input_tokens * highest.input
    affordable = wanted if highest.output == 0 else math.floor(room / highest.output)
    fitted = min(wanted, affordable)
    enough = room >= 0 and fitted >= max(1, min(minimum, wanted))
    return fitted if enough else None


def find_cost_difference(model: Model, reported: int | None, computed: int | None) -> str | None:
    """Return a warning if the reported cost differs from the computed one by more than 1 %; both in microcents."""
    if reported is None or computed is None:
        return None
    # A computed cost is rounded up to a whole microcent, so a difference of 1 means nothing.
    if abs(reported - computed) * 100 <= max(100, reported):
        return None
    return (
        f"the reported cost, {format_exactly(reported)}, is not the cost by the prices of {model.name}, "
        f"{format_exactly(computed)}, which is recorded: check these prices"
    )


def build_charge(cents: float | None) -> Usage:
    """Return the usage for what a person says that an answer has cost, in US cents; None: nothing is known."""
    if cents is None:
        return Usage()
    from fractions import Fraction  # noqa: PLC0415 - takes 1.5 ms, and most commands compute no price

    whole, fraction = split_cents(round(Fraction(cents) * MICROCENTS))
    return Usage(cost_cents=whole, cost_microcents=fraction, source="steward")


class _Tier(NamedTuple):
    """Prices in microcents per token: one dollar per million tokens is 100 microcents per token."""

    above: int
    """They apply to requests with more input tokens than this."""
    fresh: Fraction
    cached: Fraction
    cache_write: Fraction
    output: Fraction
    reasoning: Fraction


class _Highest(NamedTuple):
    input: Fraction
    output: Fraction


def _get_tiers(model: Model) -> list[_Tier] | None:
    """Return the prices by length of the input, the shortest first; None if one is unknown."""
    tiers = [_convert_prices(model, 0), *(_convert_prices(each, each.above) for each in model.tiers)]
    known = [each for each in tiers if each is not None]
    return sorted(known, key=lambda each: each.above) if len(known) == len(tiers) else None


def _convert_prices(prices: Model | PriceTier, above: int) -> _Tier | None:
    fresh, output = prices.input_price, prices.output_price
    cached = fresh if prices.cached_price is None else prices.cached_price
    cache_write = fresh if prices.cache_write_price is None else prices.cache_write_price
    reasoning = output if prices.reasoning_price is None else prices.reasoning_price
    return _make_tier(above, (fresh, cached, cache_write, output, reasoning))


@lru_cache(maxsize=256)
def _make_tier(above: int, prices: tuple[float | None, ...]) -> _Tier | None:
    """Return exact prices; remembered, because each request of a gate needs them several times."""
    from fractions import Fraction  # noqa: PLC0415 - see above

    exact = [Fraction(str(price)) * 100 for price in prices if price is not None and math.isfinite(price)]
    return _Tier(above, *exact) if len(exact) == len(prices) else None


def _find_highest_prices(model: Model, tokens: int) -> _Highest | None:
    """Return the highest prices of a request with up to this many input tokens; None if the price is unknown.

    Some providers charge more for tokens that they store in the cache.
    """
    tiers = _get_tiers(model)
    if tiers is None:
        return None
    within_reach = [each for each in tiers if each.above < tokens]
    return _Highest(
        max(max(each.fresh, each.cached, each.cache_write) for each in within_reach),
        max(max(each.output, each.reasoning) for each in within_reach),
    )


def bound_tokens(prompt: str, messages: int = MESSAGES) -> int:
    """Return an upper bound for the tokens of `prompt`: every token is at least one byte."""
    return len(prompt.encode("utf-8", "surrogatepass")) + messages * MESSAGE_TOKENS
