"""Prices and costs in microcents (1 US cent = 1,000,000) as integers, so that nothing is lost by rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from logist.core.model import Model, Usage
from logist.core.money.amounts import MICROCENTS, format_money, join_cents

__all__ = ["compute_cost", "compute_worst_case", "fit_output", "format_money", "join_cents", "split_cents"]

MESSAGE_TOKENS = 64
"""Tokens that a provider may add to each message: role names and separators, plus a margin."""
MESSAGES = 2
"""A system and a user message."""


def compute_cost(model: Model, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> int | None:
    """Return the cost in microcents, rounded up; None if the price is unknown. Negative counts are treated as 0.

    `cached_tokens`: the part of the input with the model's price for cached tokens.
    """
    prices = _get_prices(model)
    if prices is None:
        return None
    cached = min(max(0, cached_tokens), max(0, input_tokens))
    fresh = max(0, input_tokens) - cached
    return math.ceil(fresh * prices.fresh + cached * prices.cached + max(0, output_tokens) * prices.output)


def compute_worst_case(model: Model, prompt: str, max_output: int, messages: int = MESSAGES) -> int | None:
    """Return the maximum cost of sending `prompt` in this many messages, in microcents; None if the price is
    unknown.

    All input counts at the higher of the two prices, fresh or cached, because the content of the cache is unknown.
    """
    prices = _get_prices(model)
    if prices is None:
        return None
    return math.ceil(
        _bound_tokens(prompt, messages) * prices.highest_input + max(0, max_output) * prices.output
    )


def fit_output(
    model: Model, prompt: str, wanted: int, left_microcents: int, minimum: int, messages: int = MESSAGES
) -> int | None:
    """Return the largest output, up to `wanted` tokens, whose worst-case cost is covered by what is left.

    None if that is less than `minimum` (or less than `wanted`, if `wanted` is smaller), or if the price is
    unknown.
    """
    prices = _get_prices(model)
    if prices is None:
        return None
    room = left_microcents - _bound_tokens(prompt, messages) * prices.highest_input
    affordable = wanted if prices.output == 0 else math.floor(room / prices.output)
    fitted = min(wanted, affordable)
    enough = room >= 0 and fitted >= max(1, min(minimum, wanted))
    return fitted if enough else None


def build_charge(cents: float | None) -> Usage:
    """Return the usage for what a person says that an answer has cost, in US cents; None: nothing is known."""
    if cents is None:
        return Usage()
    whole, fraction = split_cents(round(Fraction(cents) * MICROCENTS))
    return Usage(cost_cents=whole, cost_microcents=fraction, source="steward")


def split_cents(microcents: int) -> tuple[int, int]:
    """Return `(whole cents, rest)`, the rest from 0 to 999,999, as files store it."""
    return divmod(microcents, MICROCENTS)


class _Prices(NamedTuple):
    """Prices in microcents per token: one dollar per million tokens is 100 microcents per token."""

    fresh: Fraction
    cached: Fraction
    output: Fraction

    @property
    def highest_input(self) -> Fraction:
        """The higher price of an input token; some providers charge more for cached tokens."""
        return max(self.fresh, self.cached)


def _get_prices(model: Model) -> _Prices | None:
    cached = model.input_price if model.cached_price is None else model.cached_price
    prices = (model.input_price, cached, model.output_price)
    exact = [Fraction(str(price)) * 100 for price in prices if price is not None and math.isfinite(price)]
    return _Prices(*exact) if len(exact) == len(prices) else None


def _bound_tokens(prompt: str, messages: int) -> int:
    """Return an upper bound for the tokens of `prompt`: every token is at least one byte."""
    return len(prompt.encode("utf-8", "surrogatepass")) + messages * MESSAGE_TOKENS
