"""Build a workflow from steps and edges that are read one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from logist.core.condition import render_condition
from logist.core.model import END, Edge, Step, Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.form import StepForm
from logist.core.workflow.places import Place, Places, Read, make_problem, suggest_name
from logist.core.workflow.steps import StepRead
from logist.quick_dataclass import dataclass


@dataclass
class Assembly:
    """The steps and edges read so far; `finish_workflow` takes into account that broken steps are missing."""

    lines: Mapping[str, int]
    steps: list[Step] = field(default_factory=list)
    forms: dict[str, StepForm] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    edge_places: list[Place] = field(default_factory=list)
    problems: list[WorkflowProblem] = field(default_factory=list)
    whole: bool = True
    """Whether every step could be read."""

    def add_step(self, read: StepRead, path: str) -> Step | None:
        """Add a step, unless there already is one with its id."""
        self.problems.extend(read.problems)
        if read.step is None or read.form is None:
            self.whole = False
            return None
        step = read.step
        place = (f"{path}.id" if f"{path}.id" in self.lines else path, self.find_line(path))
        if step.id in self.paths:
            line = self.find_line(self.paths[step.id])
            first = f"{self.paths[step.id]}{f' (line {line})' if line else ''}"
            message = f"duplicate id `{step.id}`: first used at {first}"
            self.problems.append(make_problem("error", "duplicate_id", message, place, "choose another id"))
            self.whole = False
            return None
        if not step.id.isprintable() or step.id != step.id.strip():
            message = "an id must be printable text without leading or trailing spaces"
            self.problems.append(make_problem("error", "bad_id", message, place))
        self.steps.append(step)
        self.forms[step.id] = read.form
        self.paths[step.id] = path
        return step

    def find_line(self, path: str) -> int | None:
        """Return the line of a field, or of the part that holds it."""
        return self.lines.get(path) or self.lines.get(path.rpartition(".")[0])

    def add_edge(
        self, source: str, target: str, place: Place, condition: Any = None, label: str | None = None
    ) -> None:
        """Add an edge; its target may be read later."""
        if label is None and condition is not None:
            label = render_condition(condition).strip() or None
        self.edges.append(Edge(source=source, target=target, label=label, condition=condition))
        self.edge_places.append(place)

    def collect_places(self) -> Places:
        """Return the places of all steps, fields and edges."""
        return Places(self.paths, self.lines, tuple(self.edge_places))

    def finish_workflow(self, name: str, description: str, start: str | None, **more: Any) -> Read:
        """Return the workflow as far as it could be read, or None if one of its steps could not be."""
        self._check_targets()
        start = start or self._find_declared_start()
        if start is not None and self.whole and start not in self.paths:
            message = f"`start` names `{start}`, which is not a step"
            self.problems.append(
                make_problem(
                    "error",
                    "unknown_step",
                    message,
                    ("start", self.find_line("start")),
                    self._suggest_step(start),
                )
            )
            start = None
        workflow = None
        if self.whole and self.steps:
            workflow = Workflow(
                name=name,
                description=description,
                steps=tuple(self.steps),
                edges=tuple(self.edges),
                start=start or choose_start(self.steps, self.edges),
                **more,
            )
        return Read(name, workflow, tuple(self.problems), self.collect_places())

    def _check_targets(self) -> None:
        for edge, place in zip(self.edges, self.edge_places, strict=True):
            if edge.target == END or edge.target in self.paths or not self.whole:
                continue
            message = f"`{edge.source}` leads to `{edge.target}`, which is not a step"
            self.problems.append(
                make_problem("error", "unknown_step", message, place, self._suggest_step(edge.target))
            )

    def _find_declared_start(self) -> str | None:
        declared = [step_id for step_id, form in self.forms.items() if form.start]
        if len(declared) > 1:
            place = (self.paths[declared[1]], self.find_line(self.paths[declared[1]]))
            message = f"{len(declared)} steps are marked as `start`: {', '.join(declared)}"
            self.problems.append(
                make_problem("error", "several_starts", message, place, "mark only one of them")
            )
        return declared[0] if declared else None

    def _suggest_step(self, word: str) -> str:
        return suggest_name(word, self.paths)


def find_entrances(steps: list[Step] | tuple[Step, ...], edges: list[Edge] | tuple[Edge, ...]) -> list[str]:
    """Return the steps that no other step leads to, in their order."""
    reached = {edge.target for edge in edges if edge.source != edge.target}
    return [step.id for step in steps if step.id not in reached]


def choose_start(steps: list[Step] | tuple[Step, ...], edges: list[Edge] | tuple[Edge, ...]) -> str:
    """Return the start of a workflow that does not declare one: its first entrance, else its first step."""
    starts = find_entrances(steps, edges)
    return starts[0] if starts else steps[0].id
