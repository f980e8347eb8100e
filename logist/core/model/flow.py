"""A workflow: the graph of steps that a job follows, in the form that is frozen into the job."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from logist.core.model.base import Open, Recorded
from logist.core.model.limits import ItemLimits
from logist.core.model.words import Execution, StepType
from logist.core.text.json_object import JsonObject

AgentRole = Annotated[str, StringConstraints(min_length=10, max_length=1024)]
"""Characters, not bytes."""

MAX_ITEMS = 100
MAX_DEPTH = 5
"""Workflows within each other, the job's own counted as one."""
END = ""
"""The target of an edge that ends the workflow, as a branch of a decision may."""


class Step(Recorded):
    """A node: the work to do there, who does it, and how its result is awaited."""

    id: str
    name: str
    step_type: Open[StepType] = StepType.TASK
    execution: Open[Execution] = Execution.AUTOMATED
    """Of a task: an agent does it, or a steward."""
    prompt: str = ""
    agent_role: AgentRole | None = None
    """How the agent should behave; shown to no person."""
    guidance: tuple[str, ...] = ()
    """Hints, one line each."""
    role: str | None = None
    """Who does it; None leaves that to the job. Of a manual step the assignee, who may be a person; of a foreach it may be
    a template, which names a role for each item."""
    review: bool = False
    review_role: str | None = None
    confirm: Any = False
    """Whether a steward has to approve the result: a boolean or a condition."""
    response_format: Open[Literal["json", "sections"]] | None = None
    """None is what the config says."""
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    """An answer less sure than this goes to a steward."""
    when: Any = None
    """A condition; where it does not hold, the step is passed over."""
    max_visits: Annotated[int, Field(ge=1)] | None = None
    """Of a decision: after so many times it takes its default."""
    rounds: dict[str, str] = {}
    """Of a step in a loop: the decision that leads back, by each name that the number of the round has."""
    asks_after: bool = False
    """Of a decision that leads back: a round comes before it is first asked, so that one counts as well."""
    items_path: str | None = None
    item_variable: str = "item"
    index_variable: str | None = None
    """Another name for `index`."""
    number_variable: str | None = None
    """A name for the number of the item, from 1."""
    max_items: Annotated[int, Field(ge=1)] = MAX_ITEMS
    item_limits: ItemLimits | None = None
    """Of a foreach: what each of its items may use at most."""
    min_success_percent: Annotated[float, Field(ge=0, le=100)] = 100
    await_tag: str | None = None
    subflow: str | None = None
    """Of a subflow, and of a foreach whose items are done by a workflow: its name."""
    input_mapping: dict[str, str] = {}
    """Of a subflow: path in this job's data, by name in the child's input."""
    rendered: bool = False
    """Its prompt is no template any more: it was filled when the job was made."""
    external: bool = False
    """Drawn as something outside: it is a task like any other."""
    config: JsonObject = {}
    """What its author wrote beside all this; nothing is decided on it."""

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
    """As it is written, without its quotes."""
    condition: Any = None
    """What has to hold: text or an object (see core.condition); None always does, or is the default."""


class Workflow(Recorded):
    """Steps and edges; `start` is where a job begins."""

    name: str
    description: str = ""
    steps: tuple[Step, ...]
    edges: tuple[Edge, ...] = ()
    start: str
    subflows: dict[str, Workflow] = {}
    """Every workflow that its steps name, frozen with it; only the outermost has them all."""
    foreign: bool = False
    """From a server of agent guidance: braces in its prompts that are no template of ours stay as they are."""
    mermaid: str | None = None
    """The diagram it was read from, byte for byte; None where it came from steps."""

    def find_step(self, step_id: str) -> Step | None:
        """Return the step with that id, or None."""
        return next((step for step in self.steps if step.id == step_id), None)

    def find_edges_from(self, step_id: str) -> list[Edge]:
        """Return the edges that leave a step, in the order of the diagram."""
        return [edge for edge in self.edges if edge.source == step_id]
