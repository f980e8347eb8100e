"""The closed sets of words, spelled as in the files."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Word(StrEnum):
    """A word of the files; one that only a newer Logist knows is kept as it is written.

    Such a word equals no member, so nothing is ever decided by it.
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
    """The status of a job; RUNNING and REVIEWING are displayed, never written."""

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


class Actor(Word):
    """Who caused an interaction."""

    AGENT = "agent"
    STEWARD = "steward"
    SYSTEM = "system"


class Phase(Word):
    """Which of the two slots of a step an agent fills."""

    DOER = "doer"
    REVIEWER = "reviewer"


class StepType(Word):
    """What kind of node a step of a workflow is."""

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
    """What an agent may end with."""

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
    """Of the work of its children."""
    MERGE = "merge"
    """Its work does not fit to what the source repository has become."""


class ErrorKind(StrEnum):
    """How asking an agent failed, in the terms that decide what happens next."""

    TRANSIENT = "transient"  # rate limit, 5xx, a stream that was cut: worth another attempt
    TIMEOUT = "timeout"  # the deadline passed: worth another attempt
    AUTH = "auth"  # the key is refused: no attempt used
    BAD_REQUEST = "bad_request"  # the provider will not take this request: no attempt used
    REFUSED = "refused"  # nobody there to answer: no attempt used
    LIMIT = "limit"  # the cost limit stood before the next exchange: the job halts
    SHARED_LIMIT = "shared_limit"  # the same, of a limit that it shares: the job above halts


class Approval(StrEnum):
    """When a steward has the last word."""

    NONE = "none"
    END = "end"
    EACH = "each"
