"""Whether a recorded interaction has its place in a run that has come elsewhere."""

from __future__ import annotations

from logist.core.machine import kinds
from logist.core.model import (
    HALTED,
    TERMINAL,
    Actor,
    Interaction,
    Kind,
    Observed,
    State,
    Status,
    StuckKind,
)
from logist.core.step import step
from logist.core.whatif.told import alike


def asks(entry: Interaction) -> bool:
    """Whether it is an answer, or a request without one."""
    return entry.kind in kinds.ASKS_AGENT


def fits(own: State, then: State, entry: Interaction) -> bool:
    """Whether `entry`, recorded where the job stood at `then`, would come where it stands at `own`.

    An answer has to be of the phase and the step that is asked; a decision was made on a place, and holds for it.
    """
    if entry.kind in kinds.NOT_JUDGED:
        return True
    if asks(entry):
        return _answers(own, then, entry)
    if entry.kind is Kind.ROLE or entry.kind in kinds.ENDS:
        return own.status not in TERMINAL
    if entry.kind is Kind.HALT:
        return waits_for_call(own) or alike(own.place, then.place)
    if entry.kind is Kind.SPAWN:
        return bool(own.place.spawns) and own.status is Status.PENDING and own.step == then.step
    if entry.kind is Kind.MERGE:
        return _merges(own, then, entry)
    return alike(own.place, then.place)


def waits_for_call(own: State) -> bool:
    """Whether an agent is asked next, of this job or of those that a step is given to."""
    return step.turn(own) is not None or (bool(own.place.spawns) and own.status is Status.PENDING)


def _answers(own: State, then: State, entry: Interaction) -> bool:
    phase = (entry.observed or Observed()).phase
    owed = step.owed_by(own) if entry.simulated else step.turn(own)
    return owed == phase and own.step == (entry.step or then.step)


def _merges(own: State, then: State, entry: Interaction) -> bool:
    if entry.actor is Actor.SYSTEM and then.merge == "due" and own.merge != "due":
        return False
    stuck = own.place.stuck is not None and own.place.stuck.kind is StuckKind.MERGE
    return own.status is Status.SUCCESS or stuck


def is_moved(entry: Interaction) -> bool:
    """Whether it is more than a note of what was asked for."""
    return entry.kind not in kinds.STAYS


def ends_there(own: State) -> bool:
    """Whether nothing more would have been spent there until a person decides otherwise."""
    if own.status is Status.APPROVAL_REQUIRED:
        return own.place.awaiting == "end"
    return own.status in TERMINAL or own.status in HALTED or own.status in (Status.STUCK, Status.SUSPENDED)
