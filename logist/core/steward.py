"""What people and the system ask of a job, as events of the state machine."""

from __future__ import annotations

from logist.core.event import Action, Event, Who
from logist.core.machine import next_place
from logist.core.model import HALTED, EffectiveSpec, JsonObject, Kind, Place, Status

ACTIONS = {
    Kind.CREATE: Action.CREATE,
    Kind.ACTIVATE: Action.ACTIVATE,
    Kind.APPROVE: Action.APPROVE,
    Kind.REJECT: Action.REJECT,
    Kind.RESUBMIT: Action.RESUBMIT,
    Kind.SUSPEND: Action.SUSPEND,
    Kind.RESUME: Action.RESUME,
    Kind.CANCEL: Action.CANCEL,
    Kind.FAIL: Action.FAIL,
    Kind.ROLE: Action.ROLE,
    Kind.RESTEP: Action.RESTEP,
    Kind.RERUN: Action.RERUN,
    Kind.HALT: Action.HALT,
}


def decide(
    kind: Kind,
    here: Place | None,
    command: JsonObject,
    spec: EffectiveSpec,
    back_to: Place | None = None,
) -> Place:
    """Where `command`, an interaction of `kind` that no agent made, leads.

    `command` holds what the interaction records: draft, limit, review, step, doubt, to, note; of `role`, who
    takes over from whom, which moves the job nowhere. `back_to` is the place before interaction `to` of a
    restep. Raises Refused, UsageError.
    """
    if kind is Kind.SPEC:
        assert here is not None
        return here
    limit = str(command.get("limit"))
    event = Event(
        who=Who.SYSTEM if kind is Kind.HALT else Who.STEWARD,
        action=ACTIONS[kind],
        role=str(command.get("to" if kind is Kind.ROLE else "role", "")),
        reason=str(command.get("note") or ""),
        draft=bool(command.get("draft")),
        limit=Status(limit) if limit in HALTED else None,
        to_review=bool(command.get("review")),
        to_step=command.get("step"),
        doubt=command.get("doubt"),
        back_to=back_to,
    )
    return next_place(here, event, spec)
