"""Prices and costs in whole microcents (1 US cent = 1,000,000), so that no fraction is ever lost."""

from __future__ import annotations

import math
from fractions import Fraction

from logist.core.amounts import MICROCENTS, dollars, join
from logist.core.model import Model

__all__ = ["cost_of", "dollars", "fit_output", "join", "split", "worst_case"]

MESSAGE_TOKENS = 64
"""What a provider may add to each message: role names and separators, with room to spare."""
MESSAGES = 2
"""A system and a user message."""


def cost_of(model: Model, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> int | None:
    """Microcents, rounded up; None if the price is unknown. Negative counts are taken as none.

    `cached_tokens`: the part of the input that has the model's price of cached tokens.
    """
    prices = _prices(model)
    if prices is None:
        return None
    cached = min(max(0, cached_tokens), max(0, input_tokens))
    price = prices[0] if model.cached_price is None else Fraction(str(model.cached_price)) * 100
    fresh = max(0, input_tokens) - cached
    return math.ceil(fresh * prices[0] + cached * price + max(0, output_tokens) * prices[1])


def worst_case(model: Model, prompt: str, max_output: int, messages: int = MESSAGES) -> int | None:
    """The most that sending `prompt`, in so many messages, can cost, in microcents; None if the price is unknown."""
    return cost_of(model, _most_tokens(prompt, messages), max_output)


def fit_output(
    model: Model, prompt: str, wanted: int, left_microcents: int, minimum: int, messages: int = MESSAGES
) -> int | None:
    """The largest output, up to `wanted` tokens, whose worst case is covered by what is left.

    None if that is below `minimum` (or below `wanted`, where less than `minimum` is wanted), and if the
    price is unknown.
    """
    prices = _prices(model)
    if prices is None:
        return None
    room = left_microcents - _most_tokens(prompt, messages) * prices[0]
    affordable = wanted if prices[1] == 0 else math.floor(room / prices[1])
    fitted = min(wanted, affordable)
    enough = room >= 0 and fitted >= max(1, min(minimum, wanted))
    return fitted if enough else None


def split(microcents: int) -> tuple[int, int]:
    """`(whole cents, rest)`, the rest from 0 to 999,999, as files keep it."""
    return divmod(microcents, MICROCENTS)


def _prices(model: Model) -> tuple[Fraction, Fraction] | None:
    """Microcents per token in and out: a dollar per million tokens is 100 of them."""
    prices = (model.input_price, model.output_price)
    exact = [Fraction(str(price)) * 100 for price in prices if price is not None and math.isfinite(price)]
    return (exact[0], exact[1]) if len(exact) == len(prices) else None


def _most_tokens(prompt: str, messages: int) -> int:
    """More tokens than any tokenizer makes of `prompt`: each stands for a byte at least."""
    return len(prompt.encode("utf-8", "surrogatepass")) + messages * MESSAGE_TOKENS
