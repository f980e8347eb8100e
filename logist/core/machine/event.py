"""Events of a job: the facts that the state machine needs."""

from __future__ import annotations

from typing import Literal

from logist.core.machine.actions import Action, Who
from logist.core.model import Place, Status
from logist.quick_dataclass import dataclass

ANY_JOB = "JOB"
"""The placeholder for the id if no job is known."""


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
    """MERGE, UPDATE: the work doesn't conflict with the current repository."""
    job: str = ANY_JOB
    """The id of the job, for the commands in error messages."""
