"""What was asked for, and who does it: job.yaml, the effective spec, roles, models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from logist.core.ids import JOB_ID_PATTERN
from logist.core.model.base import Frozen, Open, Recorded
from logist.core.model.flow import Workflow
from logist.core.model.permissions import EVERYTHING, Permissions
from logist.core.model.words import Approval

Color = Literal["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]
JobId = Annotated[str, StringConstraints(pattern=JOB_ID_PATTERN)]


class Limits(Recorded):
    """What a job may use; each is checked before every call."""

    cost_threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1000
    """US cents."""
    time_threshold_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 60
    max_allowed_iterations: Annotated[int, Field(ge=0)] = 50
    max_attempts: Annotated[int, Field(ge=1)] = 3


class ConfiguredLimits(Limits):
    """The same in a config, which has exactly these."""

    model_config = ConfigDict(extra="forbid")


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


class Doer(Recorded):
    """Who does a step, why, and how listings show that."""

    role: str
    source: str
    badge: str | None = None
    color: str | None = None


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


class Role(Frozen):
    """Who does the work."""

    name: Annotated[str, StringConstraints(min_length=1)]
    description: Annotated[str, StringConstraints(min_length=1)]
    instructions: Annotated[str, StringConstraints(min_length=1)]
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


class Model(Recorded):
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
    cached_price: Annotated[float, Field(ge=0)] | None = None
    """Of tokens that the provider has in its cache; None is `input_price`."""
    output_price: Annotated[float, Field(ge=0)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] = 8192
