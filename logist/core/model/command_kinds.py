"""Tells which command an interaction records, of models and of plain records, without loading the models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.core.model.plain import get_model_name

if TYPE_CHECKING:
    from typing import TypeGuard

    from logist.core.model.commands import (
        ApproveCommand,
        AskCommand,
        BookingCommand,
        CollectCommand,
        CreateCommand,
        ForkCommand,
        RecordedCommand,
        RestepCommand,
        ResubmitCommand,
        RoleCommand,
        SpawnCommand,
        UpdateCommand,
    )

_BOOKING = frozenset(
    f"{name}Command" for name in ("Booking", "Resubmit", "End", "Restep", "Rerun", "Halt", "Collect")
)
"""The subclasses of `BookingCommand`, and itself."""


def is_approve(command: RecordedCommand) -> TypeGuard[ApproveCommand]:
    return get_model_name(command) == "ApproveCommand"


def is_ask(command: RecordedCommand) -> TypeGuard[AskCommand]:
    return get_model_name(command) == "AskCommand"


def is_booking(command: RecordedCommand) -> TypeGuard[BookingCommand]:
    return get_model_name(command) in _BOOKING


def is_collect(command: RecordedCommand) -> TypeGuard[CollectCommand]:
    return get_model_name(command) == "CollectCommand"


def is_create(command: RecordedCommand) -> TypeGuard[CreateCommand]:
    return get_model_name(command) == "CreateCommand"


def is_fork(command: RecordedCommand) -> TypeGuard[ForkCommand]:
    return get_model_name(command) == "ForkCommand"


def is_restep(command: RecordedCommand) -> TypeGuard[RestepCommand]:
    return get_model_name(command) == "RestepCommand"


def is_resubmit(command: RecordedCommand) -> TypeGuard[ResubmitCommand]:
    return get_model_name(command) == "ResubmitCommand"


def is_role(command: RecordedCommand) -> TypeGuard[RoleCommand]:
    return get_model_name(command) == "RoleCommand"


def is_spawn(command: RecordedCommand) -> TypeGuard[SpawnCommand]:
    return get_model_name(command) == "SpawnCommand"


def is_update(command: RecordedCommand) -> TypeGuard[UpdateCommand]:
    return get_model_name(command) == "UpdateCommand"
