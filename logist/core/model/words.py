"""The closed sets of words, spelled as in the files."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Where a job rests; RUNNING and REVIEWING are shown, never written."""

    DRAFT = "DRAFT"
    PENDING = "PENDING"
    REVIEW_REQUIRED = "REVIEW_REQUIRED"
    WAITING = "WAITING"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    STUCK = "STUCK"
    SUSPENDED = "SUSPENDED"
    HALTED_COST = "HALTED_COST"
    HALTED_TIME = "HALTED_TIME"
    HALTED_ITERATION = "HALTED_ITERATION"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


TERMINAL = frozenset({Status.SUCCESS, Status.FAILED, Status.CANCELED})
HALTED = frozenset({Status.HALTED_COST, Status.HALTED_TIME, Status.HALTED_ITERATION})


class Kind(StrEnum):
    """What an interaction is."""

    ASK = "ask"
    CREATE = "create"
    SPEC = "spec"
    ACTIVATE = "activate"
    APPROVE = "approve"
    REJECT = "reject"
    RESUBMIT = "resubmit"
    ROLE = "role"
    SUSPEND = "suspend"
    RESUME = "resume"
    CANCEL = "cancel"
    FAIL = "fail"
    RESTEP = "restep"
    RERUN = "rerun"
    FORK = "fork"
    HALT = "halt"
    RECOVER = "recover"
    SPAWN = "spawn"
    COLLECT = "collect"
    MERGE = "merge"


class Actor(StrEnum):
    """Who caused an interaction."""

    AGENT = "agent"
    STEWARD = "steward"
    SYSTEM = "system"


class Phase(StrEnum):
    """Which of the two slots of a step an agent fills."""

    DOER = "doer"
    REVIEWER = "reviewer"


class ExitAction(StrEnum):
    """What an agent may end with."""

    COMPLETED = "COMPLETED"
    STUCK = "STUCK"
    RETRY = "RETRY"


class StuckKind(StrEnum):
    """Why a job waits for a steward."""

    AGENT = "agent"
    ATTEMPTS = "attempts"
    PERMISSION = "permission"
    IN_DOUBT = "in_doubt"
    NO_BRANCH = "no_branch"
    SHARE = "share"
    CONFLICT = "conflict"


class ErrorKind(StrEnum):
    """How asking an agent failed, in the terms that decide what happens next."""

    TRANSIENT = "transient"  # rate limit, 5xx, a stream that was cut: worth another attempt
    TIMEOUT = "timeout"  # the deadline passed: worth another attempt
    AUTH = "auth"  # the key is refused: no attempt used
    BAD_REQUEST = "bad_request"  # the provider will not take this request: no attempt used
    REFUSED = "refused"  # nobody there to answer: no attempt used


class Approval(StrEnum):
    """When a steward has the last word."""

    NONE = "none"
    END = "end"
    EACH = "each"
