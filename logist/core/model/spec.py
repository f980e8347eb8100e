"""The requested work and who does it: job.yaml, the effective spec, roles, models."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from logist.core.model.base import Extended, Frozen, Open, Recorded
from logist.core.model.flow import Workflow
from logist.core.model.limits import Limits, PartialLimits
from logist.core.model.permissions import EVERYTHING, Permissions
from logist.core.model.words import Approval
from logist.core.text.ids import JOB_ID_PATTERN
from logist.core.text.json_object import JsonObject
from logist.quick_model import ConfigDict, Field, StringConstraints, model_validator

Color = Literal["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]
Text = Annotated[str, StringConstraints(min_length=1)]
JobId = Annotated[str, StringConstraints(pattern=JOB_ID_PATTERN)]


class Check(Recorded):
    """A requirement for accepting work: a command checks it, or the reviewer judges it."""

    enabled: bool = True
    """False: the check is left out."""
    severity: Open[Literal["error", "warning"]] = "warning"
    """Whether a failure sends the work back (`error`), or is only reported (`warning`); the mode of the review decides too."""
    command: tuple[str, ...] | str | None = None
    """Arguments, or a shell command line; exit status 0 means passed. None: the reviewer judges."""
    timeout_minutes: Annotated[float, Field(gt=0)] | None = None
    """None: `review.check_timeout_minutes`."""


class ConfiguredCheck(Check):
    """A check in a config file, which allows no other fields."""

    model_config = ConfigDict(extra="forbid")

    severity: Literal["error", "warning"] = "warning"
    command: Annotated[tuple[Text, ...], Field(min_length=1)] | Text | None = None


CHECKS: dict[str, ConfiguredCheck] = {
    "test_coverage": ConfiguredCheck(severity="warning"),
    "e2e_tests": ConfiguredCheck(severity="warning"),
    "code_quality": ConfiguredCheck(severity="warning"),
    "security": ConfiguredCheck(severity="error"),
    "build_passes": ConfiguredCheck(severity="error"),
    "lint_passes": ConfiguredCheck(severity="warning"),
}
"""The default checks."""
CHECK_MINUTES = 10.0
"""The default timeout for the command of a check."""


class JobSpec(Frozen):
    """job.yaml: what a person requested. Only `prompt` is required, except for a draft."""

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
    model: Text | None = None
    approval: Approval | bool | None = None
    limits: PartialLimits = PartialLimits()
    rank: int = 0
    repo: str | bool | None = None
    workflow: str | None = None
    input: Any = None
    parent: JobId | None = None
    review_mode: Literal["strict", "normal", "yolo"] | None = None
    auto_merge: bool | None = None
    shares_limits: bool | None = None
    after: list[JobId] = []


class Doer(Recorded):
    """The role that does a step, where it comes from, and how listings show it."""

    role: str
    source: str
    badge: str | None = None
    color: str | None = None


class EffectiveSpec(Recorded):
    """The complete spec of a job: job.yaml overrides the config, which overrides the defaults; roles by hash."""

    title: str
    prompt: str = ""
    description: str | None = None
    acceptance_criteria: tuple[str, ...] = ()
    task_type: str | None = None
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    review: bool = True
    approval: Open[Approval] = Approval.END
    limits: Limits = Limits()
    rank: int = 0
    doer: str = "Worker"
    doer_source: str = "default"
    badge: str | None = None
    """The badge of the doer's role, shown before its name in listings; None: none, or not recorded."""
    color: str | None = None
    """The color of the doer's name in listings."""
    reviewer: str = "Supervisor"
    reviewer_source: str = "default"
    on_doubt: Open[Literal["stuck", "retry"]] = "stuck"
    roles: dict[str, str] = {}
    """The sha256 of each role that the job uses, by name."""
    workflow: Workflow | None = None
    """Frozen when the job was created; None: the built-in workflow, a single task."""
    doers: dict[str, Doer] | None = None
    """Who does each step of the workflow that sets its own role."""
    input: Any = None
    """The input of the workflow."""
    parent: str | None = None
    """The parent job, of which this job does a part."""
    response_format: Open[Literal["json", "sections"]] | None = None
    """The answer format if the step doesn't set one; None: the JSON exit command."""
    review_mode: Open[Literal["strict", "yolo"]] | None = None
    """Which findings send work back; None: `normal`, only errors."""
    checks: dict[str, Check] | None = None
    """The checks by name; None: CHECKS."""
    check_minutes: float | None = None
    """The timeout for checks that don't set one; None: CHECK_MINUTES."""
    auto_merge: bool | None = None
    """Whether the work is merged into the source repository as soon as the job succeeds; None: no."""
    shares_limits: bool | None = None
    """Whether the job uses what its parent has left, within `limits`; None: no, only its own limits apply."""
    model: str | None = None
    """The model that job.yaml names for all its agents; None: see `core.step.model_choice`."""
    after: tuple[str, ...] | None = None
    """The predecessors: jobs that must have succeeded before this one begins."""

    @property
    def limits_above(self) -> str | None:
        """The job whose limits apply too; None if only its own limits apply."""
        return self.parent if self.shares_limits else None


ContextPart = Literal[
    "repo_structure", "relevant_files", "prior_attempts", "session_context", "related_tasks"
]
"""The context parts that a role can request; the instructions of the project are always included."""


class LaterAttempt(Frozen):
    """The changes for a later attempt: another temperature, another model, or both."""

    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    llm_model: Annotated[str, StringConstraints(min_length=1)] | None = None


class ServerTool(Frozen):
    """A tool of an MCP server, as the server described it when `logist role tools` wrote it to the role file."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: Annotated[str, StringConstraints(max_length=4_000)] = ""
    parameters: JsonObject
    """The JSON Schema of its arguments; the server checks them, Logist does not."""


class ToolServer(Frozen):
    """An MCP server that runs in the sandbox while a model calls one of its tools."""

    command: Annotated[tuple[Annotated[str, StringConstraints(min_length=1)], ...], Field(min_length=1)]
    tools: tuple[ServerTool, ...] = ()
    """The tools that a model is offered; a server is never asked for them while a job runs."""


class Role(Frozen):
    """Who does the work."""

    name: Annotated[str, StringConstraints(min_length=1)]
    description: Annotated[str, StringConstraints(min_length=1)]
    instructions: str = ""
    """Empty only if there is a prompt_template."""
    llm_model: Annotated[str, StringConstraints(min_length=1)]
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    permissions: Permissions = EVERYTHING
    can_delegate_to_roles: tuple[str, ...] = ()
    """Roles to which its workflows may give work."""
    network: bool = False
    """Whether the commands and programs that it runs have network access."""
    agent: str | None = None
    """The agent, as in the setting `agent`; None: as set in the config."""
    badge: str = ""
    """Shown before its name in listings, for example 🔍."""
    color: Color | None = None
    """The color of its name in listings."""
    prompt_template: str | None = None
    """The template for the part of the prompt about the work (see core.template); None: the default prompt."""
    applicable_task_types: tuple[str, ...] = ()
    """The task types that it does if neither the job nor the config sets a role."""
    context_requirements: tuple[ContextPart, ...] | None = None
    """The context parts in its prompt; None: a list of the files in the workspace."""
    later_attempts: tuple[LaterAttempt, ...] = ()
    """The changes for the second attempt at a step, the third, ...; the last one also applies to all later attempts."""
    output_schema: JsonObject | None = None
    """The JSON Schema for the `output` of completed work (see core.answer.output_schema); None: any output."""
    mcp_servers: dict[str, ToolServer] = Field(default_factory=dict)
    """Its MCP servers by name; a model calls their tools as `SERVER__TOOL`."""

    def at_attempt(self, number: int) -> Self:
        """Return the role as it is used at that attempt of a step, counted from 1."""
        if number < 2 or not self.later_attempts:
            return self
        changed = self.later_attempts[min(number - 2, len(self.later_attempts) - 1)]
        return self.model_copy(update=changed.model_dump(exclude_none=True))

    @model_validator(mode="after")
    def _require_instructions(self) -> Self:
        if not self.instructions and not self.prompt_template:
            raise ValueError("instructions are required unless there is a prompt_template")
        return self


class Provider(Recorded):
    """Where and how the built-in client calls a model."""

    name: str
    """The name in the table of providers."""
    base_url: str
    """The address before `/chat/completions` or `/v1/messages`, without a slash at the end."""
    protocol: Open[Literal["openai", "anthropic"]] = "openai"
    model: str
    """The name that the provider knows the model by."""


DollarsPerMillion = Annotated[float, Field(ge=0)]
"""A price in US dollars per million tokens."""


class PriceTier(Recorded):
    """The prices of a request with a long input; they apply to all tokens of that request."""

    above: Annotated[int, Field(ge=1)]
    """The prices apply if the request has more input tokens than this."""
    input_price: DollarsPerMillion
    """Of input that is not from a cache."""
    output_price: DollarsPerMillion
    """Of output."""
    cached_price: DollarsPerMillion | None = None
    """Of input from a cache."""
    cache_write_price: DollarsPerMillion | None = None
    """Of input that is stored in a cache."""
    reasoning_price: DollarsPerMillion | None = None
    """Of reasoning tokens."""


class Model(Extended):
    """A resolved model: which model is called, where, and what it costs."""

    _added: ClassVar = frozenset({"cache_write_price", "reasoning_price", "tiers"})

    name: str
    provider_model: str
    """The name for litellm: `provider/model`."""
    endpoint: str | None = None
    """The base URL; None: the provider's default."""
    api_key_env: str | None = None
    """The environment variable that holds the key; the key itself is never recorded."""
    input_price: DollarsPerMillion | None = None
    """None: unknown; 0 for a free model."""
    cached_price: DollarsPerMillion | None = None
    """The price of tokens from the provider's cache; None: `input_price`."""
    cache_write_price: DollarsPerMillion | None = None
    """The price of tokens that the provider stores in its cache; None: `input_price`."""
    output_price: DollarsPerMillion | None = None
    reasoning_price: DollarsPerMillion | None = None
    """The price of output tokens that are not in the answer; None: `output_price`."""
    tiers: tuple[PriceTier, ...] = ()
    """Other prices for requests with a long input."""
    max_output_tokens: Annotated[int, Field(ge=1)] = 8192
    context_window: Annotated[int, Field(ge=1)] | None = None
    """The maximum number of tokens of prompt and answer together; None: unknown."""

    def is_called_like(self, other: Model) -> bool:
        """Whether a request to the other model would be the same; prices and the window don't change a request."""
        fields = ("name", "provider_model", "endpoint", "api_key_env", "max_output_tokens")
        return all(getattr(self, field) == getattr(other, field) for field in fields)
