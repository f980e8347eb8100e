"""Who acts on a job, and what can happen to it."""

from __future__ import annotations

from enum import StrEnum


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
    UPDATE = "update"  # later changes of the source repository are merged into the workspace
