"""The nouns of Logist as frozen values, spelled as they stand in the files."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

JsonObject = dict[str, Any]

JOB_ID_PATTERN = r"^[a-zA-Z0-9_-]{1,128}$"
MICROCENTS = 1_000_000
"""Microcents in a US cent."""

JobId = Annotated[str, StringConstraints(pattern=JOB_ID_PATTERN)]


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


class Frozen(BaseModel):
    """A value with exactly its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Recorded(BaseModel):
    """A value read back from disk; fields of a newer Logist are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Limits(Frozen):
    """What a job may use; each is checked before every call."""

    cost_threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1000
    """US cents."""
    time_threshold_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 60
    max_allowed_iterations: Annotated[int, Field(ge=0)] = 50
    max_attempts: Annotated[int, Field(ge=1)] = 3


class PartialLimits(Frozen):
    """The limits a job.yaml sets itself; the others come from the config."""

    cost_threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    time_threshold_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    max_allowed_iterations: Annotated[int, Field(ge=0)] | None = None
    max_attempts: Annotated[int, Field(ge=1)] | None = None


class JobSpec(Frozen):
    """job.yaml: what a person asked for. Only `prompt` is needed, and a draft not even that."""

    id: JobId | None = None
    title: str | None = None
    prompt: str | None = None
    description: str | None = None
    acceptance_criteria: list[str] | str | None = None
    task_type: str | None = None
    tags: list[str] = []
    files: list[str] = []
    role: str | None = None
    review: bool | None = None
    review_role: str | None = None
    approval: Approval | bool | None = None
    limits: PartialLimits = PartialLimits()
    rank: int = 0
    repo: str | bool | None = None
    workflow: str | None = None
    input: Any = None
    parent: JobId | None = None


class EffectiveSpec(Recorded):
    """The whole spec a job runs under: job.yaml over config over defaults, roles by hash."""

    title: str
    prompt: str = ""
    description: str | None = None
    acceptance_criteria: tuple[str, ...] = ()
    task_type: str | None = None
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    review: bool = True
    approval: Approval = Approval.END
    limits: Limits = Limits()
    rank: int = 0
    doer: str = "Worker"
    doer_source: str = "default"
    reviewer: str = "Supervisor"
    reviewer_source: str = "default"
    on_doubt: Literal["stuck", "retry"] = "stuck"
    roles: dict[str, str] = {}
    """sha256 of each role the job uses, by name."""


class Role(Frozen):
    """Who does the work."""

    name: Annotated[str, StringConstraints(min_length=1)]
    description: Annotated[str, StringConstraints(min_length=1)]
    instructions: Annotated[str, StringConstraints(min_length=1)]
    llm_model: Annotated[str, StringConstraints(min_length=1)]
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None


class Model(Frozen):
    """A short model name resolved: what is called, where, and what it costs."""

    name: str
    provider_model: str
    """As litellm spells it: `provider/model`."""
    endpoint: str | None = None
    """The base URL; None is the provider's own."""
    api_key_env: str | None = None
    """The environment variable that holds the key; the key itself is never recorded."""
    input_price: Annotated[float, Field(ge=0)] | None = None
    """US dollars per million tokens; None is unknown."""
    output_price: Annotated[float, Field(ge=0)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] = 8192


class Usage(Recorded):
    """What one exchange used; the cost is `cost_cents + cost_microcents / 1,000,000`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_cents: int = 0
    cost_microcents: int = 0
    """The fraction of a cent, 0 to 999,999."""
    seconds: float = 0.0
    source: Literal["none", "provider", "worst_case", "steward"] = "none"
    """Where the cost comes from."""


class Totals(Recorded):
    """What a job has used so far; zero again after a rerun, kept over a restep."""

    cumulative_cost: int = 0
    """Whole US cents."""
    cumulative_cost_microcents: int = 0
    """The fraction of a cent, 0 to 999,999."""
    cumulative_time_seconds: float = 0.0
    """Time that agents were at work; waiting for people does not count."""
    current_action_count: int = 0
    """Agents asked; simulated answers do not count."""
    input_tokens: int = 0
    output_tokens: int = 0


class Stuck(Recorded):
    """Why a job is STUCK, and who got stuck."""

    kind: StuckKind
    step: str
    role: str
    phase: Phase
    reason: str


class Place(Recorded):
    """Where a job stands, as the state machine sees it."""

    status: Status
    awaiting: Literal["manual", "end", "review"] | None = None
    stuck: Stuck | None = None
    step: str = "task"
    attempts: int = 0
    """Attempts at this step that did not succeed."""
    before: Place | None = None
    """Of a suspended or halted job: the place it goes back to."""
    halted_at: float | None = None
    """Of a halted job: the limit that was reached; it has to be raised above this."""


class Part(Recorded):
    """One piece of a prompt: `prompt[start:end]`, counted in code points."""

    source: str
    kind: Literal["rule", "given"]
    sha256: str
    start: int
    end: int


class Request(Recorded):
    """What was sent."""

    prompt: str = ""
    files_context: list[str] = []
    metadata: JsonObject = {}
    parts: list[Part] = []
    command: JsonObject | None = None
    """The `request` object of llm-chat-schema.json this run answers to."""


class TransportError(Recorded):
    """Why there is no whole answer."""

    kind: ErrorKind
    message: str
    http_status: int | None = None


class Response(Recorded):
    """What came back, and what was made of it."""

    status: Literal["SUCCESS", "ERROR", "TIMEOUT"] = "SUCCESS"
    actions: list[str] = []
    evidence_files: list[str] = []
    summary_for_supervisor: str = ""
    raw_response: str = ""
    output: Any = None
    metadata: JsonObject | None = None
    finish: str | None = None
    """Why the model stopped: `stop`, `length`, `content_filter`, ...; None is unknown."""
    error: TransportError | None = None
    warnings: list[str] = []
    redactions: int = 0


class Evidence(Recorded):
    """A file the agent named, as it was when the step ended."""

    path: str
    exists: bool
    sha256: str | None = None


class Change(Recorded):
    """A difference between the checkpoints before and after a run."""

    path: str
    kind: Literal["created", "modified", "deleted", "mode"]
    mode: str
    """Octal, as git writes it: 100644, 100755, 120000."""


class Observed(Recorded):
    """Everything `conclude` was given besides the answer."""

    phase: Phase = Phase.DOER
    role: str = ""
    evidence: list[Evidence] = []
    changes: list[Change] = []
    changes_omitted: int = 0
    refusals: list[JsonObject] = []
    checks: list[JsonObject] = []
    limits_left: JsonObject = {}


class Reply(Frozen):
    """What an agent gave back: an answer, or why there is none. Never an exception."""

    text: str = ""
    usage: Usage = Usage()
    finish: str | None = None
    error: TransportError | None = None
    redactions: int = 0
    warnings: tuple[str, ...] = ()


class Steward(Recorded):
    """The person behind an interaction."""

    name: str
    note: str | None = None


class Interaction(Recorded):
    """One entry of the history."""

    version: int = 1
    sequence: int
    timestamp: str
    """UTC, `YYYY-MM-DDTHH:MM:SSZ`."""
    kind: Kind
    actor: Actor
    state_before: Status
    state_after: Status
    workspace_path: str
    step: str | None = None
    attempt: int | None = None
    reason: str = ""
    request: Request = Request()
    response: Response = Response()
    route: list[JsonObject] = []
    usage: Usage = Usage()
    simulated: bool = False
    checkpoint_before: str | None = None
    checkpoint_after: str | None = None
    observed: Observed | None = None
    steward: Steward | None = None
    command: JsonObject = {}
    """What a steward or the system asked for: the options of the command."""
    spec: EffectiveSpec | None = None
    after: Place
    """The whole place the job stands in after this."""
    previous: str | None = None
    checksum: str | None = None


class Head(Recorded):
    """The last interaction a state has seen."""

    sequence: int
    hash: str
    offset: int
    """Byte where the entry begins in jobHistory.json."""


class Last(Recorded):
    """The last valid answer of an agent, as the next prompt quotes it."""

    sequence: int
    phase: Phase
    role: str
    action: ExitAction
    summary: str
    evidence_files: list[str] = []
    missing: list[str] = []
    output: Any = None


class State(Recorded):
    """state.json: a projection of the history."""

    version: int = 1
    revision: int = 0
    head: Head | None = None
    status: Status
    awaiting: Literal["manual", "end", "review"] | None = None
    stuck: Stuck | None = None
    step: str = "task"
    attempts: int = 0
    before: Place | None = None
    halted_at: float | None = None
    agent_role: str = "Worker"
    agent_role_source: str = "default"
    usage: Totals = Totals()
    limits: Limits = Limits()
    title: str = ""
    rank: int = 0
    badge: str = ""
    tags: list[str] = []
    created_at: str = ""
    updated_at: str = ""
    reason: str = ""
    last: Last | None = None
    note: str | None = None
    """What the steward said, for the next prompt."""
    artefacts: list[str] = []
    outputs: dict[str, Any] = {}
    children: list[str] = []
    checkpoint: str | None = None
    start_checkpoint: str | None = None
    spec_hash: str = ""

    def place(self) -> Place:
        """Where the job stands, as the state machine sees it."""
        return Place(
            status=self.status,
            awaiting=self.awaiting,
            stuck=self.stuck,
            step=self.step,
            attempts=self.attempts,
            before=self.before,
            halted_at=self.halted_at,
        )
