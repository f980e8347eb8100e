"""What was booked for an exchange in doubt, and what a steward takes back of it."""

from __future__ import annotations

from logist.core import fold
from logist.core.model import Interaction, JsonObject, Kind, StuckKind
from logist.jobs.session import Session

RETRY = "retry"
"""The steward says that it was not charged."""


def released(session: Session) -> JsonObject:
    """What an interaction records that takes back the booking of what is in doubt now.

    {"released_microcents": n, "released_of": sequence of the `recover`}; {} where nothing is in doubt, or
    where that booking was taken back before.
    """
    stuck = session.state.stuck
    if stuck is None or stuck.kind is not StuckKind.IN_DOUBT:
        return {}
    booked: Interaction | None = None
    taken_back = set()
    for entry in session.history():
        booked = entry if entry.kind is Kind.RECOVER else booked
        taken_back.add(entry.command.get("released_of"))
    if booked is None or booked.sequence in taken_back:
        return {}
    amount = booked.command.get("in_doubt_microcents", fold.cost(booked.usage))
    return {"released_microcents": amount, "released_of": booked.sequence}
