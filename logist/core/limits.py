"""What a job may use: cost, time, runs; each is looked at before every call."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from logist.core import money
from logist.core.amounts import MICROCENTS
from logist.core.model import EffectiveSpec, Status, Totals


@dataclass(frozen=True)
class Halt:
    """A limit stands before the next call."""

    limit: Status
    reason: str
    needed: int = 0
    """The least that the next call could have cost, in microcents."""
    runs: int = 1
    """How many runs were needed at least."""


def spent(usage: Totals) -> int:
    """What a job has cost so far, in microcents."""
    return money.join(usage.cumulative_cost, usage.cumulative_cost_microcents)


def allowed(spec: EffectiveSpec) -> int:
    """What a job may cost in all, in whole microcents."""
    return int(Fraction(str(spec.limits.cost_threshold)) * MICROCENTS)


def left(spec: EffectiveSpec, usage: Totals) -> int:
    """What a job may still cost, in microcents."""
    return allowed(spec) - spent(usage)


def halted(spec: EffectiveSpec, usage: Totals, needed: int = 0, runs: int = 1) -> Halt | None:
    """The first limit that is reached, in the order cost, time, iterations.

    `needed`: microcents that the smallest call allowed may cost at worst. `runs`: how many there have to be.
    """
    limits = spec.limits
    room = left(spec, usage)
    if room <= 0 or room < needed:
        text = f"{money.dollars(spent(usage))} spent of {money.dollars(allowed(spec))}"
        more = f", and the next call needs up to {money.dollars(needed)}" if room > 0 else ""
        return Halt(Status.HALTED_COST, f"cost limit: {text}{more}", needed)
    if usage.cumulative_time_seconds >= limits.time_threshold_minutes * 60:
        text = f"{usage.cumulative_time_seconds / 60:.1f} of {limits.time_threshold_minutes:g} minutes"
        return Halt(Status.HALTED_TIME, f"time limit: agents worked {text}")
    if usage.current_action_count + runs > limits.max_allowed_iterations:
        text = f"{usage.current_action_count} of {limits.max_allowed_iterations} runs"
        more = f", and {runs} more are needed" if runs > 1 else ""
        return Halt(Status.HALTED_ITERATION, f"iteration limit: {text}{more}", runs=runs)
    return None
