"""Converts an exchange to what is recorded: text that is safe to store, and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from logist.agents.clients.answers import ModelAnswer, Tokens
from logist.agents.protocol import Ask
from logist.core.model import Call, Reply, Usage
from logist.core.money import money
from logist.core.money.amounts import MICROCENTS
from logist.core.secrets.redact import redact

Source = Literal["none", "provider", "gate", "worst_case", "steward"]
LEAST_SURE: tuple[Source, ...] = ("worst_case", "provider", "gate")

LONGEST_MESSAGE = 2000
"""Characters of an error message that are kept."""
LONGEST_REASON = 64
"""Characters of a finish reason that are kept; normally it is one word."""
LONGEST_ID = 256
"""Characters of the id and of the name of a call."""
CUT = ("length", "content_filter")
"""Finish reasons of an answer that was cut: its last tool call may be incomplete."""
UNTOLD = "the provider reported no usage: recorded the highest possible cost"


def build_reply(
    ask: Ask,
    answer: ModelAnswer,
    text: str,
    seconds: float,
    secrets: list[str],
    *,
    reserved: int | None = None,
    sent: bool = True,
) -> Reply:
    """Return what is recorded for an exchange: clean text without secrets, and its cost.

    `reserved`: its worst-case cost, in microcents.
    """
    text, redactions = redact(repair_surrogates(text), secrets)
    error = answer.failure.error if answer.failure else None
    if error is not None:
        message, more = redact(repair_surrogates(error.message), secrets)
        error = error.model_copy(update={"message": message[:LONGEST_MESSAGE]})
        redactions += more
    finish = redact(repair_surrogates(answer.finish), secrets)[0][:LONGEST_REASON] if answer.finish else None
    usage, warnings = _book_usage(ask, answer, seconds, reserved, sent=sent)
    calls = tuple(_clean_call(call, number, secrets) for number, call in enumerate(answer.calls, 1))
    return Reply(
        text=text,
        usage=usage,
        finish=finish,
        error=error,
        redactions=redactions,
        warnings=warnings,
        calls=() if error or finish in CUT else calls,
    )


def _clean_call(call: Call, number: int, secrets: list[str]) -> Call:
    """Return the call as it may be written to a file; a call without an id gets one."""
    id_, name = (
        redact(repair_surrogates(text), secrets)[0][:LONGEST_ID]
        for text in (call.id or f"call_{number}", call.name)
    )
    written = repair_surrogates(call.arguments)
    arguments = redact(written, secrets)[0]
    extra = call.extra_content
    if extra is not None and redact(extra, secrets)[1]:
        extra = None  # a part of it is of no use to the provider
    return Call(id=id_, name=name, arguments=arguments, redacted=arguments != written, extra_content=extra)


def sum_usages(usages: Sequence[Usage]) -> Usage:
    """Sum the usage of the exchanges of one ask; the source is the least certain one."""
    cost = sum(usage.cost_cents * MICROCENTS + usage.cost_microcents for usage in usages)
    cents, fraction = money.split_cents(cost)
    sources = {usage.source for usage in usages}
    reported = [usage.reported_microcents for usage in usages if usage.reported_microcents is not None]
    return Usage(
        input_tokens=sum(usage.input_tokens for usage in usages),
        cached_tokens=sum(usage.cached_tokens for usage in usages),
        cache_write_tokens=sum(usage.cache_write_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        reasoning_tokens=sum(usage.reasoning_tokens for usage in usages),
        cost_cents=cents,
        cost_microcents=fraction,
        seconds=round(sum(usage.seconds for usage in usages), 3),
        source=next((source for source in LEAST_SURE if source in sources), "none"),
        reported_microcents=sum(reported) if reported else None,
        calls=sum(usage.calls for usage in usages),
    )


def sum_gate_usages(usages: Sequence[Usage]) -> Usage:
    """Sum the usage of the requests that an agent program made through the gate."""
    usage = sum_usages(usages)
    is_counted = usage.source == "provider"
    return usage.model_copy(update={"source": "gate" if is_counted else usage.source, "calls": len(usages)})


def book_worst_case(reserved_microcents: int | None, seconds: float = 0.0) -> Usage:
    """Return the usage for an exchange that was sent and whose cost is unknown."""
    cents, fraction = money.split_cents(reserved_microcents or 0)
    return Usage(cost_cents=cents, cost_microcents=fraction, seconds=seconds, source="worst_case")


def _book_usage(
    ask: Ask, answer: ModelAnswer, seconds: float, reserved: int | None, *, sent: bool
) -> tuple[Usage, tuple[str, ...]]:
    seconds = round(seconds, 3)
    if answer.tokens is not None:
        return _price_tokens(ask, answer.tokens, seconds)
    if not sent or (answer.failure is not None and not answer.failure.billed):
        return Usage(seconds=seconds), ()
    return book_worst_case(reserved, seconds), (UNTOLD,)


def _price_tokens(ask: Ask, tokens: Tokens, seconds: float) -> tuple[Usage, tuple[str, ...]]:
    computed = money.compute_cost(
        ask.model,
        tokens.read,
        tokens.written,
        tokens.cached,
        cache_write_tokens=tokens.cache_written,
        reasoning_tokens=tokens.reasoning,
    )
    reported = tokens.reported_microcents
    cents, fraction = money.split_cents(computed if computed is not None else reported or 0)
    usage = Usage(
        input_tokens=tokens.read,
        cached_tokens=tokens.cached,
        cache_write_tokens=tokens.cache_written,
        output_tokens=tokens.written,
        reasoning_tokens=tokens.reasoning,
        cost_cents=cents,
        cost_microcents=fraction,
        seconds=seconds,
        source="provider",
        reported_microcents=reported,
    )
    return usage, find_price_warnings(ask, reported, computed)


def find_price_warnings(ask: Ask, reported: int | None, computed: int | None) -> tuple[str, ...]:
    """Return what is wrong with the price of a model, for the reply; costs in microcents, None if unknown."""
    if computed is None and reported is None:
        return (f"the price of {ask.model.name} is unknown: no cost recorded",)
    difference = money.find_cost_difference(ask.model, reported, computed)
    return (difference,) if difference else ()


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs that were cut apart and replace lone ones, so that a file can hold the text."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
