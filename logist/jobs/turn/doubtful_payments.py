"""Releases the cost that was recorded for an exchange in doubt, if a steward says that it was not charged."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from logist.core.history import fold
from logist.core.machine import kinds
from logist.core.model import Interaction, Kind, StuckKind
from logist.core.model.commands import AskCommand, RecoverCommand, ResubmitCommand

if TYPE_CHECKING:
    from logist.jobs.base.session import Session

RETRY = "retry"
"""The steward says that it was not charged."""


Releasing = TypeVar("Releasing", AskCommand, ResubmitCommand)


def release(session: Session, command: Releasing) -> Releasing:
    """Return the command, with the release of the cost recorded for the current doubt.

    Return it unchanged if nothing is in doubt, or if that cost was released before.
    """
    stuck = session.state.place.stuck
    if stuck is None or stuck.kind is not StuckKind.IN_DOUBT:
        return command
    history = session.load_history()
    booked = _find_doubt_source(history)
    if booked is None or booked.sequence in map(_released_of, history):
        return command
    if any(entry.kind is Kind.RERUN and entry.sequence > booked.sequence for entry in history):
        return command  # a rerun has reset the cost
    amount = RecoverCommand.read(booked.command).in_doubt_microcents
    amount = fold.usage_microcents(booked.usage) if amount is None else amount
    return command.model_copy(update={"released_microcents": amount, "released_of": booked.sequence})


def _released_of(entry: Interaction) -> int | None:
    command = kinds.command_of(entry)
    return command.released_of if isinstance(command, AskCommand | ResubmitCommand) else None


def _find_doubt_source(history: list[Interaction]) -> Interaction | None:
    """The `recover` interaction that caused the current doubt: the last one, unless a restep went back before it."""
    source: Interaction | None = None
    found_by: dict[int, Interaction | None] = {}
    for entry in history:
        found_by[entry.sequence] = source
        if entry.kind is Kind.RECOVER and not RecoverCommand.read(entry.command).given_up:
            source = entry
        elif entry.kind is Kind.RESTEP:
            source = found_by.get(fold.read_restep_target(entry))
    return source
