"""A workflow: the graph of steps that a job follows, as it is frozen into the job."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from logist.core.model.base import Open, Recorded
from logist.core.model.limits import ItemLimits
from logist.core.model.words import Execution, StepType
from logist.core.text.json_object import JsonObject
from logist.quick_model import Field, StringConstraints
from logist.quick_tuple import NamedTuple

AgentRole = Annotated[str, StringConstraints(min_length=10, max_length=1024)]
"""The limits count characters, not bytes."""

MAX_ITEMS = 100
MAX_STEPS = 1000
"""The maximum number of steps of a workflow that a job follows, if the config says nothing else."""
MOST_STEPS = 10_000
"""The highest value of that limit; a workflow with more steps is not even read."""
MAX_DEPTH = 5
"""The maximum nesting of workflows, including the job's own."""


class Step(Recorded):
    """A node: the work to do, who does it, and how its result is collected."""

    id: str
    name: str
    step_type: Open[StepType] = StepType.TASK
    execution: Open[Execution] = Execution.AUTOMATED
    """For a task: whether an agent or a person does it."""
    prompt: str = ""
    agent_role: AgentRole | None = None
    """How the agent should behave; not displayed to people."""
    guidance: tuple[str, ...] = ()
    """Hints, one line each."""
    role: str | None = None
    """The role that does the step; None: the role of the job. For a manual step, the assignee, who may be a person; for a
    foreach, it may be a template that names a role for each item."""
    model: str | None = None
    """The model of the agent that does the step; None: see `core.step.model_choice`."""
    review: bool = False
    review_role: str | None = None
    confirm: Any = False
    """Whether a steward must confirm the result: a boolean or a condition."""
    response_format: Open[Literal["json", "sections"]] | None = None
    """None: as set in the config."""
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    """A steward must confirm an answer with a confidence below this."""
    when: Any = None
    """A condition; if it doesn't match, the step is skipped."""
    max_visits: Annotated[int, Field(ge=1)] | None = None
    """For a decision: after this many visits, it takes its default."""
    rounds: dict[str, str] = {}
    """For a step in a loop: the decision that leads back, by the name of the variable that counts the rounds."""
    asks_after: bool = False
    """For a decision that leads back: the first round comes before its first visit, and counts too."""
    items_path: str | None = None
    item_variable: str = "item"
    index_variable: str | None = None
    """Another name for `index`."""
    number_variable: str | None = None
    """A name for the number of the item, counted from 1."""
    max_items: Annotated[int, Field(ge=1)] = MAX_ITEMS
    item_limits: ItemLimits | None = None
    """For a foreach: the limits of each item."""
    min_success_percent: Annotated[float, Field(ge=0, le=100)] = 100
    await_tag: str | None = None
    subflow: str | None = None
    """For a subflow, or a foreach whose items run a workflow: the name of that workflow."""
    input_mapping: dict[str, str] = {}
    """For a subflow: the path in this job's data for each name in the child's input."""
    rendered: bool = False
    """The prompt is no longer a template: it was filled when the job was created."""
    external: bool = False
    """Drawn as an external system; otherwise a task like any other."""
    config: JsonObject = {}
    """Other fields that the author wrote; they have no effect."""

    @property
    def is_manual(self) -> bool:
        """Whether a person does it."""
        return self.step_type is StepType.TASK and self.execution is Execution.MANUAL

    @property
    def has_role_template(self) -> bool:
        """Whether each item of the foreach names its own role."""
        return self.step_type is StepType.FOREACH and self.role is not None and "{{" in self.role

    @property
    def agent_roles(self) -> tuple[str, ...]:
        """The roles that the step names for agents, unless an item chooses them."""
        doer = None if self.is_manual or self.has_role_template else self.role
        return tuple(name for name in (doer, self.review_role) if name)


class Edge(Recorded):
    """An edge from one step to another, in the order of the diagram."""

    source: str
    target: str
    """The id of a step, or END."""
    label: str | None = None
    """The label as written, without quotes."""
    condition: Any = None
    """The condition: text or an object (see core.condition); None always matches, or is the default."""


class Workflow(Recorded):
    """Steps and edges; `start` is the first step."""

    name: str
    description: str = ""
    steps: tuple[Step, ...]
    edges: tuple[Edge, ...] = ()
    start: str
    subflows: dict[str, Workflow] = {}
    """The workflows that its steps refer to, frozen with it; only the outermost workflow has them."""
    foreign: bool = False
    """Imported from an agent guidance server: unknown braces in its prompts are kept."""
    mermaid: str | None = None
    """The original diagram, byte for byte; None if the workflow was written as steps."""

    def find_step(self, step_id: str) -> Step | None:
        """Return the step with that id, or None."""
        return _index_workflow(self).steps.get(step_id)

    def find_edges_from(self, step_id: str) -> list[Edge]:
        """Return the edges that leave a step, in the order of the diagram."""
        return list(_index_workflow(self).edges.get(step_id, ()))


class _Index(NamedTuple):
    """The steps and edges of a workflow by step id; with a thousand steps, to go through all for each step takes long."""

    indexed: tuple[tuple[Step, ...], tuple[Edge, ...]]
    steps: dict[str, Step]
    edges: dict[str, list[Edge]]


_latest: list[_Index] = []
"""The indexes of the workflows that were used last. An attribute would be part of comparisons, and of copies with
other steps."""


def _index_workflow(workflow: Workflow) -> _Index:
    for index in _latest:
        if index.indexed[0] is workflow.steps and index.indexed[1] is workflow.edges:
            return index
    steps: dict[str, Step] = {}
    for step in workflow.steps:
        steps.setdefault(step.id, step)
    edges: dict[str, list[Edge]] = {}
    for edge in workflow.edges:
        edges.setdefault(edge.source, []).append(edge)
    index = _Index((workflow.steps, workflow.edges), steps, edges)
    _latest[:] = [index, *_latest[:7]]
    return index
