"""The closed sets of words, spelled like in the files. Doesn't import the models."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

END = ""
"""The target of an edge that ends the workflow."""


class Word(StrEnum):
    """A word in a file; a word that only a newer Logist knows is kept unchanged.

    Such a word equals no member, so no decision depends on it.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        word = str.__new__(cls, value)
        word._name_ = word._value_ = value
        return word

    @property
    def is_known(self) -> bool:
        """Whether this Logist knows the word."""
        return type(self)._member_map_.get(self._name_) is self


class Status(Word):
    """The status of a job; RUNNING and REVIEWING are only displayed, never written."""

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


class Kind(Word):
    """The kind of an interaction."""

    ASK = "ask"
    CREATE = "create"
    SPEC = "spec"
    ACTIVATE = "activate"
    APPROVE = "approve"
    REJECT = "reject"
    RESUBMIT = "resubmit"
    ROLE = "role"
    NOTE = "note"
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
    UPDATE = "update"
    SCRUB = "scrub"


class Actor(Word):
    """Who caused an interaction."""

    AGENT = "agent"
    STEWARD = "steward"
    SYSTEM = "system"


class Phase(Word):
    """Which of the two parts of a step an agent does."""

    DOER = "doer"
    REVIEWER = "reviewer"


class StepType(Word):
    """The kind of a workflow step."""

    TASK = "task"
    DECISION = "decision"
    FOREACH = "foreach"
    JOIN = "join"
    SUBFLOW = "subflow"


class Execution(Word):
    """Who does a task."""

    AUTOMATED = "automated"
    MANUAL = "manual"


class ExitAction(StrEnum):
    """How an agent can end."""

    COMPLETED = "COMPLETED"
    STUCK = "STUCK"
    RETRY = "RETRY"


class StuckKind(Word):
    """Why a job waits for a steward."""

    AGENT = "agent"
    ATTEMPTS = "attempts"
    PERMISSION = "permission"
    IN_DOUBT = "in_doubt"
    NO_BRANCH = "no_branch"
    SHARE = "share"
    CONFLICT = "conflict"
    """The work of the child jobs conflicts."""
    MERGE = "merge"
    """The work conflicts with later commits in the source repository."""


class ErrorKind(StrEnum):
    """How a request to an agent failed; decides what happens next."""

    TRANSIENT = "transient"  # rate limit, 5xx, interrupted stream: try again
    TIMEOUT = "timeout"  # timed out: try again
    AUTH = "auth"  # the API key was rejected: no attempt used
    BAD_REQUEST = "bad_request"  # the provider rejected the request: no attempt used
    REFUSED = "refused"  # nothing there to answer, such as no server: no attempt used
    OUTAGE = "outage"  # the provider is not available and charged nothing: the job waits, no attempt used
    LIMIT = "limit"  # the cost limit prevents the next exchange: the job halts
    SHARED_LIMIT = "shared_limit"  # the same for a shared limit: the parent job halts


class Approval(StrEnum):
    """When a steward must approve the work."""

    NONE = "none"
    END = "end"
    EACH = "each"
