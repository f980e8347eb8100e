"""Events of a job: the actor, the action, and the facts that the state machine needs."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from logist.core.model import Place, Status
from logist.quick_dataclass import dataclass

ANY_JOB = "JOB"
"""The placeholder for the id if no job is known."""


class Who(StrEnum):
    """Who acts on a job."""

    DOER = "doer"
    REVIEWER = "reviewer"
    STEWARD = "steward"
    SYSTEM = "system"


class Action(StrEnum):
    """What can happen to a job."""

    CREATE = "create"
    ACTIVATE = "activate"
    HALT = "halt"
    COMPLETED = "completed"
    RETRY = "retry"
    STUCK = "stuck"
    BREACH = "breach"  # did, or tried to do, something that the role may not do
    TRANSIENT = "transient"  # no answer, but another attempt may succeed
    UNANSWERED = "unanswered"  # no answer, and another attempt would fail too
    IN_DOUBT = "in_doubt"  # sent, but it is unknown whether it was answered and charged
    APPROVE = "approve"
    OVERRIDE = "override"  # accept work that a review sent back, or has not reviewed yet
    REJECT = "reject"
    RESUBMIT = "resubmit"
    SUPPLY = "supply"  # a person supplies the answer of a stuck role
    RESUME = "resume"
    SUSPEND = "suspend"
    CANCEL = "cancel"
    FAIL = "fail"
    ROLE = "role"  # another role becomes the doer
    RESTEP = "restep"
    RERUN = "rerun"
    SPAWN = "spawn"  # the children of a step are created
    COLLECT = "collect"  # the children have finished
    MERGE = "merge"  # the work is merged into its source repository


@dataclass(frozen=True)
class Onward:
    """Where a workflow leads from a step, after all decisions on the way (see core.machine.routing)."""

    step: str | None
    """None: the end of the workflow."""
    fault: str = ""
    """Why no branch was taken; empty if one was."""


@dataclass(frozen=True)
class Event:
    """An action by an actor, with the facts that the guards need."""

    who: Who
    action: Action
    role: str = ""
    reason: str = ""
    draft: bool = False
    limit: Status | None = None
    """HALT: the limit that was reached."""
    to_review: bool = False
    to_step: str | None = None
    doubt: str | None = None
    """RESUBMIT of a call in doubt: `assume_paid` or `retry`, as the steward decided."""
    back_to: Place | None = None
    """RESTEP: the place of the job before the chosen interaction."""
    onward: Onward | None = None
    """For a job with a workflow: what follows the step, or the step that the job enters; None: the end."""
    unsure: bool = False
    """COMPLETED: a steward must confirm it, because of the step or a low confidence."""
    blocked: bool = False
    """COMPLETED by the reviewer: its verdict, a finding or a check sends the work back."""
    carried_out: bool = False
    """APPROVE, OVERRIDE of a plan: another role carries it out next."""
    sent_back: bool = False
    """OVERRIDE: the last review sent the work back."""
    children: int = 0
    """SPAWN: the number of child jobs for the step."""
    fault: str = ""
    """SPAWN: why no child jobs can be created."""
    gathered: Literal["reached", "share", "conflict"] = "reached"
    """COLLECT: enough of the children succeeded, too few did, or their work conflicts."""
    fits: bool = True
    """MERGE: the work doesn't conflict with the current repository."""
    job: str = ANY_JOB
    """The id of the job, for the commands in error messages."""
