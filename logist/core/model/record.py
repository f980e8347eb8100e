"""The interactions of a history, and their parts."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from logist.core.model.base import Extended, Open, Recorded, Sparse
from logist.core.model.spec import EffectiveSpec
from logist.core.model.words import Actor, ErrorKind, Kind, Phase, Status, StuckKind
from logist.core.text.json_object import JsonObject
from logist.formats import JOB


class Usage(Extended):
    """What one exchange used; the cost is `cost_cents + cost_microcents / 1,000,000`."""

    _added: ClassVar = frozenset({"cache_write_tokens", "reasoning_tokens", "calls"})

    input_tokens: int = 0
    """All input tokens, including cached ones."""
    cached_tokens: int = 0
    """The part of `input_tokens` that came from the provider's cache."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that the provider stored in its cache."""
    output_tokens: int = 0
    """All output tokens, including those of reasoning."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that is not in the answer."""
    cost_cents: int = 0
    cost_microcents: int = 0
    """The fraction of a cent, 0 to 999,999."""
    seconds: float = 0.0
    source: Open[Literal["none", "provider", "gate", "worst_case", "steward"]] = "none"
    """Where the cost comes from; `gate`: from the answers of the provider to an agent program."""
    reported_microcents: int | None = None
    """The cost that the provider or an agent program reported; the recorded cost uses the prices of the model."""
    calls: int = 0
    """The requests that an agent program made through the gate."""


class Totals(Recorded):
    """What a job has used so far; a rerun resets it, a restep doesn't."""

    cumulative_cost: int = 0
    """Whole US cents."""
    cumulative_cost_microcents: int = 0
    """The fraction of a cent, 0 to 999,999."""
    cumulative_time_seconds: float = 0.0
    """The time that agents worked; waiting for people does not count."""
    current_action_count: int = 0
    """The number of agent runs; simulated answers and rejected requests do not count."""
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
    """The position of a job in the state machine."""

    status: Status
    awaiting: Open[Literal["manual", "end", "review"]] | None = None
    stuck: Stuck | None = None
    step: str = "task"
    attempts: int = 0
    """The number of failed attempts at this step."""
    before: Place | None = None
    """For a suspended or halted job: the place to which it returns."""
    halted_at: float | None = None
    """For a halted job: the limit that was reached; the job can resume if it is raised above this."""
    spawns: bool | None = None
    """For a pending job: child jobs do the step, so no agent is asked here."""


class Part(Recorded):
    """One piece of a prompt: `prompt[start:end]`, counted in code points."""

    source: str
    kind: Open[Literal["rule", "given"]]
    sha256: str
    start: int
    end: int


class Request(Recorded):
    """The request that was sent."""

    prompt: str = ""
    files_context: list[str] = []
    metadata: JsonObject = {}
    parts: list[Part] = []
    command: JsonObject | None = None
    """The `request` object of llm-chat-schema.json that this run answers."""


class TransportError(Extended):
    """The reason if there is no complete answer."""

    _added: ClassVar = frozenset({"retry_after", "budget", "budget_period"})

    kind: Open[ErrorKind]
    message: str
    http_status: int | None = None
    retry_after: float | None = None
    """Seconds that the provider asked to wait."""
    budget: str | None = None
    """The budget that was used up, so that nothing was sent."""
    budget_period: str | None = None
    """The day or the month in which it was; empty for all time, None in replies of an earlier Logist."""


class Response(Recorded):
    """The answer of an agent, and how it was interpreted."""

    status: Open[Literal["SUCCESS", "ERROR", "TIMEOUT"]] = "SUCCESS"
    actions: list[str] = []
    evidence_files: list[str] = []
    summary_for_supervisor: str = ""
    raw_response: str = ""
    output: Any = None
    metadata: JsonObject | None = None
    reason: str | None = None
    """Why the agent wants another attempt or a person, if its answer says so separately from the summary."""
    finish: str | None = None
    """Why the model stopped: `stop`, `length`, `content_filter`, ...; None: unknown."""
    error: TransportError | None = None
    warnings: list[str] = []
    redactions: int = 0
    tools: JsonObject = {}
    """How often each tool was called; the calls and their results are in `logs/`."""
    tools_failed: JsonObject | None = None
    """How many of these calls failed: refused, not run, an error, or a command with an exit status other than 0."""
    session: str | None = None


class Evidence(Recorded):
    """A file that the agent named, as it was when the step ended."""

    path: str
    exists: bool
    sha256: str | None = None


class Change(Recorded):
    """A difference between the checkpoints before and after a run."""

    path: str
    kind: Open[Literal["created", "modified", "deleted", "mode"]]
    mode: str
    """Octal, as git writes it: 100644, 100755, 120000."""
    cache: bool = False
    """It is in a directory that checkpoints leave out, so it can't be undone."""


class CheckResult(Sparse):
    """The result of a check with a command."""

    check: str = ""
    """The name of the check."""
    severity: str = ""
    command: str | None = None
    outcome: str = ""
    """`passed`, `failed`, `timeout` or `not_run`; only the first counts as passed."""
    exit_code: int | None = None
    reason: str | None = None
    seconds: float | None = None
    output: str | None = None
    """The end of the command's output."""


class Refusal(Sparse):
    """A breach: an agent did, or tried to do, something without permission. Built in `core.permissions.permissions`."""

    kind: str = ""
    """`tool`, `approval`, or `workspace` (a changed file)."""
    tool: str | None = None
    path: str | None = None
    """The changed file; None for further changes that are not listed."""
    change: str | None = None
    """The kind of the change."""
    role: str | None = None
    missing: list[str] = []
    """The permissions that the role lacks."""
    undone: bool | None = None
    message: str = ""


class Observed(Recorded):
    """What was observed in the workspace after an answer: the input of `conclude` besides the answer."""

    phase: Phase = Phase.DOER
    role: str = ""
    evidence: list[Evidence] = []
    changes: list[Change] = []
    changes_omitted: int = 0
    unchanged: bool | None = None
    """For a doer that may change files: it changed none."""
    refusals: list[Refusal] = []
    checks: list[CheckResult] = []
    """The results of the checks with a command."""
    asks_verdict: bool | None = None
    """For a reviewer: its prompt asked for a verdict."""
    partial: bool | None = None
    """For a reviewer: its prompt didn't contain the complete change, or files changed after the checks."""
    output_schema: JsonObject | None = None
    """For a doer: the JSON Schema that its role sets for the output."""
    strict_gates: bool | None = None
    """Only read, never written: before interactions had `rules`, this marked those judged by `Rule.CLOSED_GATES`."""
    not_restorable: list[str] = []
    """What the checkpoint after the run does not contain, each with the reason."""
    found: str | None = None
    """The checkpoint of the workspace as the agent left it, if some changes were undone afterwards."""


class Call(Extended):
    """A tool call by a model."""

    _added: ClassVar = frozenset({"extra_content"})

    id: str
    name: str
    arguments: str
    """JSON as the model wrote it; may be invalid."""
    redacted: bool = False
    """A secret was removed from the arguments, so they differ from what the model meant."""
    extra_content: str | None = None
    """A JSON object that the provider sent with the call and wants back with it, as Gemini does with the signatures of thoughts."""


class Reply(Recorded):
    """What an agent returned: an answer, or the reason why there is none. Never an exception."""

    text: str = ""
    usage: Usage = Usage()
    finish: str | None = None
    error: TransportError | None = None
    redactions: int = 0
    warnings: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    """Tool calls to run before the model continues; with these, the reply is not an answer yet."""
    refusals: tuple[Refusal, ...] = ()
    """What the agent tried to do without permission (see core.permissions.permissions)."""
    tools: JsonObject = {}
    """How often each tool was called."""
    tools_failed: JsonObject | None = None
    """How many of these calls failed."""
    session: str | None = None
    """The name under which an agent program keeps its conversation."""


class Steward(Recorded):
    """The person behind an interaction."""

    name: str
    note: str | None = None
    via: Open[Literal["terminal", "pipe", "python", "page"]] | None = None
    """How a decision was made; None in earlier versions."""


class Interaction(Recorded):
    """One entry of the history."""

    version: int = JOB.version
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
    rules: int | None = None
    """How many of the changes in `core.machine.rules` applied; not set in interactions of earlier versions."""
    exchange: str | None = None
    """For an answer that was recorded late: the checksum of the entry after which the agent was asked."""
    checkpoint_before: str | None = None
    checkpoint_after: str | None = None
    observed: Observed | None = None
    steward: Steward | None = None
    command: JsonObject = {}
    """The options of the command by a steward or the system."""
    spec: EffectiveSpec | None = None
    after: Place
    """The complete place of the job after this interaction."""
    previous: str | None = None
    checksum: str | None = None
