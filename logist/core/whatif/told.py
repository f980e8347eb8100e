"""What a run through other rules came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logist.core.model import TERMINAL, Interaction, Kind, Observed, Place, State


@dataclass(frozen=True)
class WhatIfSpending:
    """What calls of agents cost."""

    calls: int = 0
    microcents: int = 0
    """Less than nothing where a booking stands that a steward took back then."""
    seconds: float = 0.0

    def __add__(self, other: WhatIfSpending) -> WhatIfSpending:
        return WhatIfSpending(
            self.calls + other.calls,
            self.microcents + other.microcents,
            round(self.seconds + other.seconds, 3),
        )


@dataclass(frozen=True)
class RoleCalls:
    """The calls of one role that an archive holds."""

    count: int = 0
    microcents: int = 0

    def __add__(self, other: RoleCalls) -> RoleCalls:
        return RoleCalls(self.count + other.count, self.microcents + other.microcents)

    @property
    def mean(self) -> int | None:
        """Microcents of one of them, rounded to the nearest; None where there is none."""
        return (self.microcents + self.count // 2) // self.count if self.count else None


@dataclass(frozen=True)
class WhatIfRun:
    """One recorded job under other rules."""

    ended: Place
    """Where it would stand."""
    recorded_end: Place
    interactions: int
    differs_at: int | None = None
    """The first interaction that would have led elsewhere, or would not have been."""
    reason: str = ""
    """Why it ends elsewhere, or goes another way to the same end; empty where it does neither."""
    saved: WhatIfSpending = WhatIfSpending()
    """Recorded calls that would not have been made."""
    open: WhatIfSpending = WhatIfSpending()
    """Recorded calls of which nobody can tell whether they would have been made."""
    needs: tuple[str, ...] = ()
    """The roles of calls that it would have made, at least, and that the archive has no answer for."""
    spared: int = 0
    """Decisions of stewards that would not have been needed."""
    calls: Mapping[str, RoleCalls] = field(default_factory=dict)
    """All that were recorded, by role."""
    roles: frozenset[str] = frozenset()
    """Whose answers were recorded, given ones too."""
    checks: frozenset[str] = frozenset()
    """The checks that its reviews have, or that a finding was of."""
    follows: bool = False
    """The workflow that is tried out is one of its own."""
    notes: tuple[str, ...] = ()
    """What the archive does not hold, and how it was taken."""
    broken_off: bool = False
    """What came after `ended` can't be told; `reason` says why."""

    @property
    def same_end(self) -> bool:
        """Whether it ends where it was recorded to end."""
        return alike(self.ended, self.recorded_end) and not self.broken_off


def alike(one: Place, other: Place) -> bool:
    """Whether two places are the same to a person: how many attempts were used, and other words, do not count."""
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
    """A place in a few words: `STUCK (attempts)`, `APPROVAL_REQUIRED (end)`; the step where there are several."""
    more = place.stuck.kind if place.stuck else place.awaiting
    at = f" at {place.step}" if place.step != "task" and place.status not in TERMINAL else ""
    return f"{place.status}{f' ({more})' if more else ''}{at}"


def what(entry: Interaction) -> str:
    """A recorded interaction in a few words."""
    if entry.kind is Kind.ASK:
        phase = (entry.observed or Observed()).phase
        return f"the answer of the {phase}"
    return f"the {entry.kind}"


def otherwise(entry: Interaction, own: State, then: State) -> str:
    """Where the job would stand after an interaction instead of where it stood, and why."""
    instead = f"{named(own.place)} instead of {named(then.place)}"
    said = own.place.stuck.reason if own.place.stuck else own.reason if entry.kind is Kind.ASK else ""
    return f"{instead}: {said}" if said else instead
