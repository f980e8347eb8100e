"""Add up and compare what jobs have used."""

from __future__ import annotations

from collections.abc import Iterable

from logist.core.model import Totals
from logist.core.money import amounts


def get_microcents(used: Totals) -> int:
    """Return the cost in microcents."""
    return amounts.join_cents(used.cumulative_cost, used.cumulative_cost_microcents)


def add_totals(parts: Iterable[Totals]) -> Totals:
    """Return the sum of the totals."""
    parts = list(parts)
    cents, fraction = amounts.split_cents(sum(map(get_microcents, parts)))
    return Totals(
        cumulative_cost=cents,
        cumulative_cost_microcents=fraction,
        cumulative_time_seconds=round(sum(each.cumulative_time_seconds for each in parts), 3),
        current_action_count=sum(each.current_action_count for each in parts),
        input_tokens=sum(each.input_tokens for each in parts),
        output_tokens=sum(each.output_tokens for each in parts),
    )


def used_since(before: Totals, now: Totals) -> Totals:
    """Return what was used between the two; all of `now` if the job was deleted and created again in between."""
    if now.current_action_count < before.current_action_count:
        return now
    cents, fraction = amounts.split_cents(max(0, get_microcents(now) - get_microcents(before)))
    return Totals(
        cumulative_cost=cents,
        cumulative_cost_microcents=fraction,
        cumulative_time_seconds=max(0.0, now.cumulative_time_seconds - before.cumulative_time_seconds),
        current_action_count=now.current_action_count - before.current_action_count,
        input_tokens=max(0, now.input_tokens - before.input_tokens),
        output_tokens=max(0, now.output_tokens - before.output_tokens),
    )


def make_totals(microcents: int, runs: int = 0) -> Totals:
    """Return totals of this much money and this many runs, and nothing else."""
    cents, fraction = amounts.split_cents(microcents)
    return Totals(cumulative_cost=cents, cumulative_cost_microcents=fraction, current_action_count=runs)
