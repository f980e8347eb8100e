"""The limits of a job (cost, time, runs), which are checked before every call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from logist.core.model import EffectiveSpec, Limits, Status, Totals
from logist.core.model.commands import HaltCommand
from logist.core.money import money, totals
from logist.core.money.amounts import to_microcents
from logist.quick_dataclass import dataclass

NOTHING = Totals()


@dataclass(frozen=True)
class Halt:
    """A limit that prevents the next call."""

    limit: Status
    reason: str
    needed: int = 0
    """The minimum cost of the next call, in microcents."""
    runs: int = 1
    """The minimum number of runs that were needed."""
    job: str = ""
    """The parent job whose limit it is; empty for a limit of the job itself."""
    calls_out: bool = False
    """Only running calls of other jobs use up the limit; when they end, enough may be left."""
    unsettled: bool = False
    """Only calls whose result is not recorded yet use up the limit."""

    def to_command(self) -> HaltCommand:
        """Return the command that the halting interaction records, so that a replay can check it."""
        runs = self.runs if self.runs > 1 else None
        return HaltCommand(limit=self.limit.value, needed=self.needed, needed_runs=runs)


@dataclass(frozen=True)
class Shared:
    """The limits of a parent job, and the usage of all jobs that share them, without the next call of this job."""

    job: str
    limits: Limits
    used: Totals
    """The usage that histories record."""
    unsettled: Totals = NOTHING
    """The possible cost of calls that were sent, but whose result is not recorded yet."""
    calls_out: Totals = NOTHING
    """The worst-case cost of calls that are running now."""
    paid: Totals = NOTHING
    """The part of `calls_out` that is already spent, by earlier turns of those calls."""
    waiting: int = 1
    """The number of jobs that share the limits, have not ended and have no running call, including this job."""

    @property
    def remaining_microcents(self) -> int:
        """How much the next call may cost, in microcents."""
        return _cost_limit(self.limits) - totals.get_microcents(
            self.used_with(unsettled=True, calls_out=True)
        )

    @property
    def remaining_after_calls(self) -> int:
        """How much the next call may cost after the running calls, if those cost nothing more."""
        used = totals.add_totals([self.used, self.unsettled, self.paid])
        return _cost_limit(self.limits) - totals.get_microcents(used)

    def used_with(self, *, unsettled: bool, calls_out: bool) -> Totals:
        """Return the recorded usage plus, as requested, usage that is not recorded yet."""
        more = [*([self.unsettled] if unsettled else []), *([self.calls_out] if calls_out else [])]
        return totals.add_totals([self.used, *more])


def spent_microcents(usage: Totals) -> int:
    """Return what a job has cost so far, in microcents."""
    return totals.get_microcents(usage)


def allowed_microcents(spec: EffectiveSpec) -> int:
    """Return what a job may cost in total, in microcents."""
    return _cost_limit(spec.limits)


def _cost_limit(limits: Limits) -> int:
    return to_microcents(limits.cost_threshold)


def remaining_microcents(spec: EffectiveSpec, usage: Totals, shared: Sequence[Shared] = ()) -> int:
    """Return how much a job may still cost, in microcents, within its own and its shared limits."""
    return min(
        [allowed_microcents(spec) - spent_microcents(usage), *(each.remaining_microcents for each in shared)]
    )


def find_reached_limit(spec: EffectiveSpec, usage: Totals, needed: int = 0, runs: int = 1) -> Halt | None:
    """Return the first limit that is reached, in the order cost, time, iterations.

    `needed`: the worst-case cost of the smallest possible call, in microcents. `runs`: the number of runs that
    are needed.
    """
    return _find_reached(spec.limits, usage, needed, runs)


def find_reached_limit_above(shared: Sequence[Shared], needed: int = 0, runs: int = 1) -> Halt | None:
    """Return the first reached limit that a job shares with others, starting at the topmost parent."""
    for unsettled, calls_out in ((False, False), (True, False), (True, True)):
        for above in reversed(shared):
            used = above.used_with(unsettled=unsettled, calls_out=calls_out)
            if halt := _find_reached(above.limits, used, needed, runs):
                only_doubt = unsettled and not calls_out
                halt = replace(halt, needed=needed, runs=runs, calls_out=calls_out, unsettled=only_doubt)
                return replace(halt, job=above.job)
    return None


def program_allowance(room: int, shared: Sequence[Shared], at_once: int, least: int) -> int:
    """Return how much of `room` an agent program may spend, in microcents.

    Without the gate, Logist can't stop a program between two of its calls, so it reserves the complete amount before the program
    starts. If several jobs share a limit, each gets a part, so that they can run at the same time. `least` is
    the cost of one call.
    """
    if not shared:
        return room
    parts = max(1, min(at_once, shared[0].waiting))
    return min(room, max(room // parts, least))


def _find_reached(limits: Limits, usage: Totals, needed: int, runs: int) -> Halt | None:
    most = _cost_limit(limits)
    room = most - spent_microcents(usage)
    if room <= 0 or room < needed:
        text = f"{money.format_money(spent_microcents(usage))} of {money.format_money(most)} spent"
        more = f", and the next call can cost up to {money.format_money(needed)}" if room > 0 else ""
        return Halt(Status.HALTED_COST, f"cost limit: {text}{more}", needed)
    if usage.cumulative_time_seconds >= limits.time_threshold_minutes * 60:
        text = f"{usage.cumulative_time_seconds / 60:.1f} of {limits.time_threshold_minutes:g} minutes"
        return Halt(Status.HALTED_TIME, f"time limit: agents used {text}")
    if usage.current_action_count + runs > limits.max_allowed_iterations:
        text = f"{usage.current_action_count} of {limits.max_allowed_iterations} runs used"
        more = f", but {runs} more are needed" if runs > 1 else ""
        return Halt(Status.HALTED_ITERATION, f"iteration limit: {text}{more}", runs=runs)
    return None
