"""What can happen to a job: the actor, the action, and the facts that the state machine needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from logist.core.model import Place, Status

ANY_JOB = "JOB"
"""Where no job is known: in the place of its id."""


class Who(StrEnum):
    """Who acts on a job, as the table distinguishes them."""

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
    BREACH = "breach"  # did, or tried, what the role may not do
    TRANSIENT = "transient"  # no answer, and another attempt may bring one
    UNANSWERED = "unanswered"  # no answer, and another attempt would not bring one
    IN_DOUBT = "in_doubt"  # sent, and nobody knows whether it was answered and charged
    APPROVE = "approve"
    OVERRIDE = "override"  # accept what a review sent back, or has not judged yet
    REJECT = "reject"
    RESUBMIT = "resubmit"
    SUPPLY = "supply"  # a person gives the answer that a stuck role owes
    RESUME = "resume"
    SUSPEND = "suspend"
    CANCEL = "cancel"
    FAIL = "fail"
    ROLE = "role"  # another role takes the doer's part from here on
    RESTEP = "restep"
    RERUN = "rerun"
    SPAWN = "spawn"  # the children of a step are made
    COLLECT = "collect"  # they have settled
    MERGE = "merge"  # the work goes into the repository that it came from


@dataclass(frozen=True)
class Onward:
    """Where a workflow leads from a step, after all decisions on the way (see core.machine.routing)."""

    step: str | None
    """None is its end."""
    fault: str = ""
    """Why no branch was taken: then it leads nowhere."""


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
    """RESUBMIT of what is in doubt: `assume_paid` or `retry`, whichever the steward says."""
    back_to: Place | None = None
    """RESTEP: where the job stood before the chosen interaction."""
    onward: Onward | None = None
    """Of a job with a workflow: what follows the step, or where the job is put; None is the end."""
    unsure: bool = False
    """COMPLETED: a steward is to confirm it, as the step or the agent wants."""
    blocked: bool = False
    """COMPLETED by the reviewer: its verdict, a finding or a check sends the work back."""
    carried_out: bool = False
    """APPROVE, OVERRIDE of a plan: another role carries it out next."""
    sent_back: bool = False
    """OVERRIDE: the last word on the work is a review that sent it back."""
    children: int = 0
    """SPAWN: how many jobs the step is given to."""
    fault: str = ""
    """SPAWN: why it can be given to none."""
    gathered: Literal["reached", "share", "conflict"] = "reached"
    """COLLECT: enough of the children succeeded, too few did, or their work does not fit together."""
    fits: bool = True
    """MERGE: the work fits to what the repository has become."""
    job: str = ANY_JOB
    """The id of the job, for the commands that a refusal names."""
