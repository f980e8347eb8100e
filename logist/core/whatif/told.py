"""The result of a run under other rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from logist.core.model import TERMINAL, Interaction, Kind, Observed, Place, State
from logist.quick_dataclass import dataclass


@dataclass(frozen=True)
class WhatIfSpending:
    """The cost of agent calls."""

    calls: int = 0
    microcents: int = 0
    """Negative if a steward released more than was spent in these interactions."""
    seconds: float = 0.0

    def __add__(self, other: WhatIfSpending) -> WhatIfSpending:
        return WhatIfSpending(
            self.calls + other.calls,
            self.microcents + other.microcents,
            round(self.seconds + other.seconds, 3),
        )


@dataclass(frozen=True)
class RoleCalls:
    """The recorded calls of one role."""

    count: int = 0
    microcents: int = 0

    def __add__(self, other: RoleCalls) -> RoleCalls:
        return RoleCalls(self.count + other.count, self.microcents + other.microcents)

    @property
    def mean(self) -> int | None:
        """Average cost of a call in microcents, rounded; None if there are no calls."""
        return (self.microcents + self.count // 2) // self.count if self.count else None


@dataclass(frozen=True)
class RefusedCall:
    """A recorded tool call that the permissions would have refused."""

    sequence: int
    tool: str
    call: str | None
    """The arguments; None if the history only has how often the tool was called."""
    count: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class WhatIfRun:
    """One recorded job under other rules."""

    ended: Place
    """Where it would have ended."""
    recorded_end: Place
    interactions: int
    differs_at: int | None = None
    """The first interaction that would have led to another state, or would not have happened."""
    reason: str = ""
    """Why it ends in another state, or reaches the same one in a different way; empty if neither applies."""
    saved: WhatIfSpending = WhatIfSpending()
    """Recorded calls that would not have been made."""
    open: WhatIfSpending = WhatIfSpending()
    """Recorded calls of which it is unknown whether they would have been made."""
    needs: tuple[str, ...] = ()
    """The roles of the calls that it would have made, at least, without a recorded answer."""
    spared: int = 0
    """Decisions of stewards that would not have been needed."""
    calls: Mapping[str, RoleCalls] = field(default_factory=dict)
    """All recorded calls, by role."""
    roles: frozenset[str] = frozenset()
    """The roles with recorded answers, including answers supplied by hand."""
    checks: frozenset[str] = frozenset()
    """The checks of its reviews and of its findings."""
    follows: bool = False
    """Whether the job uses the workflow that is tried."""
    notes: tuple[str, ...] = ()
    """What is not recorded, and what was assumed instead."""
    refused_calls: tuple[RefusedCall, ...] = ()
    """The recorded tool calls that the permissions would have refused, whether or not they would still be made."""
    broken_off: bool = False
    """What happens after `ended` is unknown; `reason` says why."""

    @property
    def same_end(self) -> bool:
        """Whether it ends where it was recorded to end."""
        return alike(self.ended, self.recorded_end) and not self.broken_off


def alike(one: Place, other: Place) -> bool:
    """Whether two places are the same for a person, ignoring the number of attempts and the wording."""
    if one.status is not other.status:
        return False
    if one.status in TERMINAL:
        return True
    if (one.step, one.awaiting, bool(one.spawns)) != (other.step, other.awaiting, bool(other.spawns)):
        return False
    return _alike_stuck(one, other) and _alike_before(one, other)


def _alike_stuck(one: Place, other: Place) -> bool:
    if one.stuck is None or other.stuck is None:
        return one.stuck is other.stuck
    return (one.stuck.kind, one.stuck.phase) == (other.stuck.kind, other.stuck.phase)


def _alike_before(one: Place, other: Place) -> bool:
    if one.before is None or other.before is None:
        return one.before is other.before
    return alike(one.before, other.before)


def named(place: Place) -> str:
    """Describe a place: `STUCK (attempts)`, `APPROVAL_REQUIRED (end)`; with the step if there are several."""
    more = place.stuck.kind if place.stuck else place.awaiting
    at = f" at {place.step}" if place.step != "task" and place.status not in TERMINAL else ""
    return f"{place.status}{f' ({more})' if more else ''}{at}"


def what(entry: Interaction) -> str:
    """Describe a recorded interaction."""
    if entry.kind is Kind.ASK:
        phase = (entry.observed or Observed()).phase
        return f"the answer of the {phase}"
    return f"the {entry.kind}"


def otherwise(entry: Interaction, own: State, then: State) -> str:
    """Describe where the job would be after an interaction, instead of where it was, and why."""
    instead = f"{named(own.place)} instead of {named(then.place)}"
    said = own.place.stuck.reason if own.place.stuck else own.reason if entry.kind is Kind.ASK else ""
    return f"{instead}: {said}" if said else instead
