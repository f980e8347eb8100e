"""Find the workflows that the steps of a workflow name, directly or indirectly; none may contain itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

from logist.core.model import MAX_DEPTH, Step, Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.places import Places, make_problem
from logist.quick_dataclass import dataclass

Find = Callable[[str], Workflow]
"""Returns the workflow of a name; raises LookupError, with the reason, if there is none that can be used."""


@dataclass
class Nested:
    """Every workflow within another, by the name its steps use, and the problems with them."""

    subflows: dict[str, Workflow] = field(default_factory=dict)
    problems: list[WorkflowProblem] = field(default_factory=list)
    heights: dict[str, int] = field(default_factory=dict)
    """How deep the workflows are nested from this one on, counting itself."""


def find_nested_workflows(
    workflow: Workflow, find: Find | None = None, places: Places | None = None
) -> Nested:
    """Find every subflow; the subflows of the workflow itself are searched first."""
    return _NestingWalk(workflow, find, places or Places()).collect_workflows()


def find_subflow_steps(workflow: Workflow) -> Iterator[Step]:
    """Yield the steps that another workflow does."""
    return (step for step in workflow.steps if step.subflow)


class _NestingWalk:
    def __init__(self, workflow: Workflow, find: Find | None, places: Places) -> None:
        self.workflow = workflow
        self.find = find
        self.places = places
        self.found = Nested()
        self.missing: set[str] = set()
        self.way: list[str] = []

    def collect_workflows(self) -> Nested:
        for step in find_subflow_steps(self.workflow):
            height = self._visit_workflow(str(step.subflow), step)
            if height + 1 > MAX_DEPTH:
                message = f"`{step.subflow}` contains {height} levels of workflows; the limit is {MAX_DEPTH}, including this one"
                self._report_problem("too_deep", message, step)
        return self.found

    def _visit_workflow(self, name: str, step: Step) -> int:
        """Return the height of a subflow; `step` is the outermost step that leads to it."""
        if name in self.way:
            chain = " > ".join([*self.way[self.way.index(name) :], name])
            self._report_problem("subflow_cycle", f"the workflow `{name}` contains itself: {chain}", step)
            return 0
        if name in self.found.heights:
            return self.found.heights[name]
        inner = self._find_workflow(name, step)
        if inner is None:
            return 0
        self.found.subflows[name] = inner
        height = 1
        if len(self.way) < 2 * MAX_DEPTH:
            self.way.append(name)
            height += max(
                (self._visit_workflow(str(child.subflow), step) for child in find_subflow_steps(inner)),
                default=0,
            )
            self.way.pop()
        self.found.heights[name] = height
        return height

    def _find_workflow(self, name: str, step: Step) -> Workflow | None:
        if name in self.missing:
            return None
        for holder in (self.workflow, *self.found.subflows.values()):
            if name in holder.subflows:
                return holder.subflows[name]
        try:
            if self.find is not None:
                return self.find(name)
            reason = f"workflow `{name}` not found"
        except LookupError as error:
            reason = str(error.args[0]) if error.args else f"workflow `{name}` not found"
        self.missing.add(name)
        within = f"in `{self.way[-1]}`: " if self.way else ""
        self._report_problem("no_subflow", within + reason, step)
        return None

    def _report_problem(self, code: str, message: str, step: Step) -> None:
        fix = "" if code == "no_subflow" else "do that work in a step of the inner workflow"
        self.found.problems.append(
            make_problem("error", code, message, self.places.locate_step(step.id, "subflowId"), fix)
        )
