"""The work that was requested, and who does it: job.yaml, the effective spec, roles, models."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from logist.core.model.base import Frozen, Open, Recorded
from logist.core.model.flow import Workflow
from logist.core.model.limits import Limits, PartialLimits
from logist.core.model.permissions import EVERYTHING, Permissions
from logist.core.model.words import Approval
from logist.core.text.ids import JOB_ID_PATTERN
from logist.core.text.json_object import JsonObject

Color = Literal["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]
Text = Annotated[str, StringConstraints(min_length=1)]
JobId = Annotated[str, StringConstraints(pattern=JOB_ID_PATTERN)]


class Check(Recorded):
    """Something that has to hold before work is accepted: a command finds out, or the reviewer judges."""

    enabled: bool = True
    severity: Open[Literal["error", "warning"]] = "warning"
    command: tuple[str, ...] | str | None = None
    """Arguments, or a line for the shell; it holds if it ends with 0. None: the reviewer judges."""
    timeout_minutes: Annotated[float, Field(gt=0)] | None = None
    """None is `review.check_timeout_minutes`."""


class ConfiguredCheck(Check):
    """A check in a config, which may have no other fields."""

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
"""What a reviewer looks at where no config says otherwise."""
CHECK_MINUTES = 10.0
"""How long the command of a check may take where nothing says otherwise."""


class JobSpec(Frozen):
    """job.yaml: what a person requested. Only `prompt` is required, and for a draft not even that."""

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
    review_mode: Literal["strict", "normal", "yolo"] | None = None
    auto_merge: bool | None = None
    shares_limits: bool | None = None


class Doer(Recorded):
    """Who does a step, why, and how listings show that."""

    role: str
    source: str
    badge: str | None = None
    color: str | None = None


class EffectiveSpec(Recorded):
    """The complete spec a job runs under: job.yaml over config over defaults, roles by hash."""

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
    """Of the doer's role, shown before its name in listings; None is none, or not recorded."""
    color: str | None = None
    """Of the doer's name in listings."""
    reviewer: str = "Supervisor"
    reviewer_source: str = "default"
    on_doubt: Open[Literal["stuck", "retry"]] = "stuck"
    roles: dict[str, str] = {}
    """sha256 of each role the job uses, by name."""
    workflow: Workflow | None = None
    """Frozen when the job was made; None is the built-in one, a single task."""
    doers: dict[str, Doer] | None = None
    """Who does each step of the workflow that names a role of its own."""
    input: Any = None
    """What the workflow was given."""
    parent: str | None = None
    """The job that this one does a part of."""
    response_format: Open[Literal["json", "sections"]] | None = None
    """How agents answer where the step does not say; None is the JSON exit command."""
    review_mode: Open[Literal["strict", "yolo"]] | None = None
    """Which findings send work back; None is `normal`: errors do."""
    checks: dict[str, Check] | None = None
    """What a review looks at, by name; None are CHECKS."""
    check_minutes: float | None = None
    """How long the command of a check may take that does not say itself; None is CHECK_MINUTES."""
    auto_merge: bool | None = None
    """Whether the work goes into the source repository as soon as the job has succeeded; None is no."""
    shares_limits: bool | None = None
    """Whether it uses what its parent has left, within `limits`; None is no: it has limits of its own alone."""

    @property
    def limits_above(self) -> str | None:
        """The job whose limits hold as well; None where only its own do."""
        return self.parent if self.shares_limits else None


ContextPart = Literal[
    "repo_structure", "relevant_files", "prior_attempts", "session_context", "related_tasks"
]
"""What a role may ask to be told; the instructions of the project are told to all."""


class LaterAttempt(Frozen):
    """What differs at a later attempt: the temperature, the model, or both."""

    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    llm_model: Annotated[str, StringConstraints(min_length=1)] | None = None


class Role(Frozen):
    """Who does the work."""

    name: Annotated[str, StringConstraints(min_length=1)]
    description: Annotated[str, StringConstraints(min_length=1)]
    instructions: str = ""
    """Empty only where a template says it all."""
    llm_model: Annotated[str, StringConstraints(min_length=1)]
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    permissions: Permissions = EVERYTHING
    can_delegate_to_roles: tuple[str, ...] = ()
    """Roles that its workflows may give work to."""
    network: bool = False
    """Whether commands and programs that it runs reach the network."""
    agent: str | None = None
    """Who does the work, as the setting `agent`; None is that of the config."""
    badge: str = ""
    """Shown before its name in listings, as 🔍."""
    color: Color | None = None
    """Of its name in listings."""
    prompt_template: str | None = None
    """What it is told about the work (see core.template); None is the layered prompt."""
    applicable_task_types: tuple[str, ...] = ()
    """Types of tasks that it does where neither the job nor the config names a role."""
    context_requirements: tuple[ContextPart, ...] | None = None
    """What it is told about its surroundings; None is a list of the files in the workspace."""
    later_attempts: tuple[LaterAttempt, ...] = ()
    """With what the second attempt at a step is made, the third, ...; the last also holds for all after it."""
    output_schema: JsonObject | None = None
    """The JSON Schema of its `output` where it completes its work (see core.answer.output_schema); None is any."""

    def at_attempt(self, number: int) -> Self:
        """Return the role as it is used at that attempt of a step, counted from 1."""
        if number < 2 or not self.later_attempts:
            return self
        changed = self.later_attempts[min(number - 2, len(self.later_attempts) - 1)]
        return self.model_copy(update=changed.model_dump(exclude_none=True))

    @model_validator(mode="after")
    def _require_instructions(self) -> Self:
        if not self.instructions and not self.prompt_template:
            raise ValueError("instructions may be missing only where there is a prompt_template")
        return self


class Model(Recorded):
    """A short model name resolved: which model is called, where, and what it costs."""

    name: str
    provider_model: str
    """As litellm spells it: `provider/model`."""
    endpoint: str | None = None
    """The base URL; None is the provider's own."""
    api_key_env: str | None = None
    """The environment variable that holds the key; the key itself is never recorded."""
    input_price: Annotated[float, Field(ge=0)] | None = None
    """US dollars per million tokens; None is unknown."""
    cached_price: Annotated[float, Field(ge=0)] | None = None
    """Of tokens that the provider has in its cache; None is `input_price`."""
    output_price: Annotated[float, Field(ge=0)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] = 8192
    context_window: Annotated[int, Field(ge=1)] | None = None
    """Tokens of a prompt and its answer together; None is unknown."""
