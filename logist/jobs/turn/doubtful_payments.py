"""What was booked for an exchange in doubt, and what a steward takes back of it."""

from __future__ import annotations

from logist.core.history import fold
from logist.core.model import Interaction, JsonObject, Kind, StuckKind
from logist.jobs.base.session import Session

RETRY = "retry"
"""The steward says that it was not charged."""


def released(session: Session) -> JsonObject:
    """What an interaction records that takes back the booking of what is in doubt now.

    {"released_microcents": n, "released_of": sequence of the `recover`}; {} where nothing is in doubt, or
    where that booking was taken back before.
    """
    stuck = session.state.place.stuck
    if stuck is None or stuck.kind is not StuckKind.IN_DOUBT:
        return {}
    history = session.history()
    booked = _source(history)
    if booked is None or any(entry.command.get("released_of") == booked.sequence for entry in history):
        return {}
    if any(entry.kind is Kind.RERUN and entry.sequence > booked.sequence for entry in history):
        return {}  # it counts no more
    amount = booked.command.get("in_doubt_microcents", fold.cost(booked.usage))
    return {"released_microcents": amount, "released_of": booked.sequence}


def _source(history: list[Interaction]) -> Interaction | None:
    """The `recover` that the present doubt is from: of the last one, unless a restep went back behind it."""
    source: Interaction | None = None
    found_by: dict[int, Interaction | None] = {}
    for entry in history:
        found_by[entry.sequence] = source
        if entry.kind is Kind.RECOVER and not entry.command.get("given_up"):
            source = entry
        elif entry.kind is Kind.RESTEP:
            source = found_by.get(fold.restep_target(entry))
    return source
