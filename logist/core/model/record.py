"""The interactions of a history, and what they hold."""

from __future__ import annotations

from typing import Any, Literal

from logist.core.model.base import FORMAT, Open, Recorded, Sparse
from logist.core.model.spec import EffectiveSpec
from logist.core.model.words import Actor, ErrorKind, Kind, Phase, Status, StuckKind
from logist.core.text.json_object import JsonObject


class Usage(Recorded):
    """What one exchange used; the cost is `cost_cents + cost_microcents / 1,000,000`."""

    input_tokens: int = 0
    """All that was read, what came from a cache included."""
    cached_tokens: int = 0
    """The part of `input_tokens` that came from the provider's cache."""
    output_tokens: int = 0
    cost_cents: int = 0
    cost_microcents: int = 0
    """The fraction of a cent, 0 to 999,999."""
    seconds: float = 0.0
    source: Open[Literal["none", "provider", "worst_case", "steward"]] = "none"
    """Where the cost comes from."""
    reported_microcents: int | None = None
    """What an agent program says that it has cost; the cost itself is by the prices of the config."""


class Totals(Recorded):
    """What a job has used so far; zero again after a rerun, kept over a restep."""

    cumulative_cost: int = 0
    """Whole US cents."""
    cumulative_cost_microcents: int = 0
    """The fraction of a cent, 0 to 999,999."""
    cumulative_time_seconds: float = 0.0
    """Time that agents were at work; waiting for people does not count."""
    current_action_count: int = 0
    """Agents that were at work; simulated answers and refused requests do not count."""
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
    """Attempts at this step that did not succeed."""
    before: Place | None = None
    """Of a suspended or halted job: the place it goes back to."""
    halted_at: float | None = None
    """Of a halted job: the limit that was reached; it has to be raised above this."""
    spawns: bool | None = None
    """Of a pending job: the step is given to other jobs, so no agent is asked here."""


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
    """The `request` object of llm-chat-schema.json this run answers to."""


class TransportError(Recorded):
    """Why there is no complete answer."""

    kind: Open[ErrorKind]
    message: str
    http_status: int | None = None


class Response(Recorded):
    """The answer that came back, and how it was interpreted."""

    status: Open[Literal["SUCCESS", "ERROR", "TIMEOUT"]] = "SUCCESS"
    actions: list[str] = []
    evidence_files: list[str] = []
    summary_for_supervisor: str = ""
    raw_response: str = ""
    output: Any = None
    metadata: JsonObject | None = None
    reason: str | None = None
    """Why the agent asks for another attempt or a person, where its answer says that apart from the summary."""
    finish: str | None = None
    """Why the model stopped: `stop`, `length`, `content_filter`, ...; None is unknown."""
    error: TransportError | None = None
    warnings: list[str] = []
    redactions: int = 0
    tools: JsonObject = {}
    """How often each tool was called; the calls and their results are in `logs/`."""
    tools_failed: JsonObject | None = None
    """How many of these calls failed: refused, not run, an error, or a command with another status than 0."""
    session: str | None = None


class Evidence(Recorded):
    """A file the agent named, as it was when the step ended."""

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
    """It is, or lies in, a directory that checkpoints leave out: it can't be undone."""


class CheckResult(Sparse):
    """How a check came out whose command was run, or was to be."""

    check: str = ""
    """Its name."""
    severity: str = ""
    command: str | None = None
    outcome: str = ""
    """`passed`, `failed`, `timeout` or `not_run`; all but the first mean that it does not hold."""
    exit_code: int | None = None
    reason: str | None = None
    seconds: float | None = None
    output: str | None = None
    """The end of what the command printed."""


class Refusal(Sparse):
    """What an agent did, or tried, and may not do; `core.permissions.permissions` makes them."""

    kind: str = ""
    """`tool`, `approval`, or `workspace`: a change of it."""
    tool: str | None = None
    path: str | None = None
    """Of a change; None stands for further changes that are not listed."""
    change: str | None = None
    """The kind of the change."""
    role: str | None = None
    missing: list[str] = []
    """The permissions that the role lacks."""
    undone: bool | None = None
    message: str = ""


class Observed(Recorded):
    """Everything that `conclude` gets besides the answer."""

    phase: Phase = Phase.DOER
    role: str = ""
    evidence: list[Evidence] = []
    changes: list[Change] = []
    changes_omitted: int = 0
    unchanged: bool | None = None
    """Of a doer that may change files: it changed none."""
    refusals: list[Refusal] = []
    checks: list[CheckResult] = []
    """How the checks came out whose commands were run."""
    asks_verdict: bool | None = None
    """Of a reviewer: it was told to give a verdict."""
    partial: bool | None = None
    """Of a reviewer: it was not shown the whole change, or somebody changed it since the checks."""
    output_schema: JsonObject | None = None
    """Of a doer: what its role says its output has to fit."""
    strict_gates: bool | None = None
    """Read only: before interactions had `rules`, this marked those that were judged by `Rule.CLOSED_GATES`."""
    not_restorable: list[str] = []
    """What the checkpoint after does not hold, each with the reason."""
    found: str | None = None
    """The checkpoint of the workspace as the agent left it, where some of that was undone."""


class Call(Recorded):
    """A tool that a model wants to be run."""

    id: str
    name: str
    arguments: str
    """JSON, as the model wrote it: it may be anything."""
    redacted: bool = False
    """A secret was taken out of the arguments, so they are not what the model meant."""


class Reply(Recorded):
    """What an agent returned: an answer, or the reason why there is none. Never an exception."""

    text: str = ""
    usage: Usage = Usage()
    finish: str | None = None
    error: TransportError | None = None
    redactions: int = 0
    warnings: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    """Tools that are to be run before the model goes on; with these it is no answer yet."""
    refusals: tuple[Refusal, ...] = ()
    """What the agent tried and may not do (see core.permissions.permissions)."""
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


class Interaction(Recorded):
    """One entry of the history."""

    version: int = FORMAT
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
    """By how many of the changes in `core.machine.rules` it was judged; interactions of earlier versions do not have this."""
    exchange: str | None = None
    """Of an answer that was recorded late: the checksum of the entry after which it was asked for."""
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
