"""The fields of a workflow file in Logist's own format.

`schemas/workflow.json` says the same: `tests/shell/test_workflows_schema.py` generates it from these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from logist.core.model import MAX_ITEMS
from logist.core.model.flow import AgentRole
from logist.quick_model import BaseModel, ConfigDict, Field, StringConstraints

MAX_CHILDREN = 1000
"""The upper limit of `maxItems`."""
Condition = str | bool | dict[str, Any] | None

_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
_ROLE = (
    "Optional behavioral instructions for AI agents defining how they should approach and execute this step. "
    "This content is not shown to users."
)


def _to_camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


class _Form(BaseModel):
    model_config = ConfigDict(
        alias_generator=_to_camel, validate_by_name=True, validate_by_alias=True, extra="allow", strict=True
    )


class BranchForm(_Form):
    """An edge out of a decision."""

    condition: Condition = Field(None, description="The condition of the branch; null is the default branch.")
    target_step_id: str = Field(min_length=1, description="The step to go to, or `end`.")


class ItemLimitsForm(_Form):
    """The limits of an item, within what its parent has left."""

    model_config = ConfigDict(extra="forbid")

    cost_threshold: float | None = Field(None, ge=0, description="US cents.")
    time_threshold_minutes: float | None = Field(None, ge=0, description="Working time of agents in minutes.")
    max_allowed_iterations: int | None = Field(None, ge=0, description="Number of agent runs.")
    max_attempts: int | None = Field(None, ge=1, description="Attempts at a step.")


class StepForm(_Form):
    """A step as it is written in a file; `config` and every unknown key are kept but have no effect."""

    id: str = Field(min_length=1, max_length=128, description="Unique in the workflow.")
    name: str | None = Field(None, description="The name that people see; default: the id.")
    step_type: Literal["task", "decision", "foreach", "join", "subflow", "flow"] | None = Field(
        None, description="The type of the step; default: `task`. `flow` means `subflow`."
    )
    execution: Literal["automated", "manual"] | None = Field(
        None, description="For a task: whether an agent or a person does it."
    )
    description: str | None = Field(None, description="A description for readers of the file.")
    prompt: str | None = Field(None, description="The task, for people and agents.")
    agent_role: AgentRole = Field("", description=_ROLE)
    guidance: list[str] = Field([], description="Hints for the agent, one line each.")
    role: str | None = Field(
        None,
        description="The role that does the step; default: the job's role. For a manual step, a person or a role; "
        "for a foreach, a role or a template that names one for each item.",
    )
    model: str | None = Field(
        None, min_length=1, description="The model that does the step: a name in `models`, or PROVIDER/MODEL."
    )
    review: bool | None = Field(None, description="Whether a reviewer checks the result.")
    review_role: str | None = Field(None, description="The role that reviews the step.")
    confirm: bool | str | dict[str, Any] | None = Field(
        None, description="Whether a steward must approve the result: true, or a condition."
    )
    start: bool | None = Field(None, description="Whether the workflow begins here.")
    next: str | list[str] | None = Field(
        None,
        description="The next step; default: the following one. null or `end` ends the workflow.",
    )
    branches: list[BranchForm] | None = Field(
        None, description="For a decision: its branches, tried in this order."
    )
    default_branch: str | None = Field(
        None, description="For a decision: the next step if no condition is true."
    )
    items_path: str | None = Field(
        None, description="For a foreach: the path of its list, for example `output.files`."
    )
    item_variable: str | None = Field(
        None, pattern=_NAME, description="For a foreach: the name of the item in templates."
    )
    index_variable: str | None = Field(
        None, pattern=_NAME, description="For a foreach: another name for `index`."
    )
    number_variable: str | None = Field(
        None, pattern=_NAME, description="For a foreach: a name for the number of the item, from 1."
    )
    max_items: int | None = Field(
        None,
        ge=1,
        le=MAX_CHILDREN,
        description=f"For a foreach: the maximum number of items; default: {MAX_ITEMS}.",
    )
    item_limits: ItemLimitsForm | None = Field(
        None, description="For a foreach: the limits of each item, within what the job has left."
    )
    min_success_percent: float | None = Field(
        None,
        ge=0,
        le=100,
        description="For a foreach or join: the percentage of child jobs that must succeed.",
    )
    await_tag: str | None = Field(None, description="For a join: the tag of the child jobs it waits for.")
    subflow_id: str | None = Field(None, description="For a subflow or a foreach: the workflow to run.")
    input_mapping: dict[str, str] | None = Field(
        None, description="For a subflow: maps paths in this job's data to names in the child's input."
    )
    response_format: Literal["json", "sections"] | None = Field(
        None, description="The format of the agent's answer."
    )
    confidence: float | None = Field(
        None, ge=0, le=1, description="A steward must approve an answer with a lower confidence."
    )
    when: Condition = Field(None, description="The step is skipped if this condition is not true.")
    max_visits: int | None = Field(
        None, ge=1, description="For a decision: after this many visits it takes its default branch."
    )
    rounds: dict[Annotated[str, StringConstraints(pattern=_NAME)], str] | None = Field(
        None,
        description="For a step in a loop: maps a name for the number of the round to the decision that leads back.",
    )
    asks_after: bool | None = Field(
        None, description="For a decision that leads back: it is evaluated only after the first round."
    )
    external: bool | None = Field(None, description="Draw the step as an external one.")


class HeadForm(_Form):
    """The fields of a workflow besides its steps."""

    name: str | None = Field(
        None, min_length=1, description="The name of the workflow; default: the name of the file."
    )
    description: str | None = Field(None, description="What the workflow is for, in listings.")
    start: str | None = Field(
        None, description="The step that the workflow begins with; default: the first one."
    )
