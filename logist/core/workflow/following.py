"""Find the next step for an agent that follows a workflow by itself, without a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from logist.core.condition import Condition, ConditionError, compile_condition, render_condition
from logist.core.model import END, MAX_DEPTH, JsonObject, Step, StepType, Workflow
from logist.core.template import data
from logist.core.text import paths
from logist.core.text.layers import build_step_layer
from logist.core.workflow import roots
from logist.core.workflow.places import suggest_name
from logist.errors import InvalidFile, Refused, UsageError

COMPLETE = "Workflow complete."
MAX_IDLE = 10_000


def find_next_step(workflow: Workflow, completed: Iterable[str], context: Mapping[str, Any]) -> JsonObject:
    """Return `{"step", "guidance": {"prompt"}, "isComplete"}`; at the end, the step is null.

    `completed` lists the steps that were done, one item for each time; `context` is the data known so far:
    conditions read it as `input` and as `output`, or by root if it has these. Raises UsageError for an
    unknown step, Refused if no branch can be taken.
    """
    done = Counter(completed)
    _check_known_steps(workflow, done)
    known = {"input": dict(context), "output": dict(context), "steps": {}, **context}
    step = _GuidanceWalk(known, done).find_next(workflow)
    if step is None:
        return {"step": None, "guidance": {"prompt": COMPLETE}, "isComplete": True}
    return {
        "step": _step_to_json(step),
        "guidance": {"prompt": build_step_layer(step.agent_role, step.guidance, step.prompt)},
        "isComplete": False,
    }


def _step_to_json(step: Step) -> JsonObject:
    role = {"agentRole": step.agent_role} if step.agent_role else {}
    return {"id": step.id, "title": step.name, "prompt": step.prompt, **role, "guidance": list(step.guidance)}


def _check_known_steps(workflow: Workflow, done: Counter[str]) -> None:
    ids = {step.id for flow in (workflow, *workflow.subflows.values()) for step in flow.steps}
    for step_id in done:
        if step_id not in ids:
            raise UsageError(
                f"`{step_id}` is not a step of `{workflow.name}`", fix=suggest_name(step_id, ids) or None
            )


def _limit_idle_steps(workflow: Workflow) -> int:
    """Return how many steps may be passed without work; more means a loop that never ends."""
    if any(step.rounds for step in workflow.steps):
        return MAX_IDLE  # nested loops
    visits = max((step.max_visits or 0 for step in workflow.steps), default=0)
    return min(MAX_IDLE, len(workflow.steps) * (visits + 2))


class _GuidanceWalk:
    """A walk from the start that removes completed steps, one time for each time it passes them."""

    def __init__(self, data: JsonObject, done: Counter[str]) -> None:
        self.data = data
        self.left = done
        self.visits: Counter[str] = Counter()
        self.subflows: dict[str, Workflow] = {}
        self.compiled: dict[tuple[str, frozenset[str]], Condition] = {}

    def find_next(self, workflow: Workflow, depth: int = 1) -> Step | None:
        self.subflows |= workflow.subflows
        steps = {step.id: step for step in workflow.steps}
        names = roots.collect_roots(workflow, self.data)
        here, idle = workflow.start, 0
        patience = _limit_idle_steps(workflow)
        while here in steps:
            step = steps[here]
            before = self.left.total()
            if due_step := self._find_due_step(step, workflow, names, depth):
                return due_step
            idle = 0 if self.left.total() < before else idle + 1
            if idle > patience:
                message = f"`{workflow.name}` loops forever from `{here}`: the loop has no step left to do"
                raise Refused(message, fix="add the result of the last step to the context")
            here = self._choose_target(step, workflow, names)
        return None

    def _build_data(self, step: Step, workflow: Workflow) -> JsonObject:
        """Return what is known at a step, including the numbers of the rounds of the loops around it."""
        return {**self.data, **data.number_rounds(workflow, step, self.visits)}

    def _find_due_step(
        self, step: Step, workflow: Workflow, names: frozenset[str], depth: int
    ) -> Step | None:
        """Return the step that has to be done here, if any; a completed one is removed from those left."""
        known = self._build_data(step, workflow)
        if step.step_type == StepType.DECISION or not self._is_condition_met(step.when, names, known):
            return None
        if self.left[step.id]:
            self.left[step.id] -= 1
            return None
        inner = self.subflows.get(step.subflow or "")
        if inner is None or depth >= MAX_DEPTH:
            return step
        return self._find_next_within(step, inner, known, depth)

    def _find_next_within(self, step: Step, inner: Workflow, known: JsonObject, depth: int) -> Step | None:
        """Return the next step in the workflow of a step, which runs once for each item of a known list, else
        once.
        """
        items = paths.lookup(known, step.items_path) if step.items_path else None
        outer, visits = self.data, self.visits
        for index, item in enumerate(items[: step.max_items] if isinstance(items, list) else [paths.MISSING]):
            own = {step.index_variable: index, step.number_variable: index + 1, "index": index}
            self.data = {**known, **{name: value for name, value in own.items() if name}}
            if item is not paths.MISSING:
                self.data[step.item_variable] = item
            if step.step_type is not StepType.FOREACH:
                self.data = {**outer, **{name: known[name] for name in step.rounds}}
            self.visits = Counter()
            next_step = self.find_next(inner, depth + 1)
            self.data, self.visits = outer, visits
            if next_step:
                return next_step
        return None

    def _choose_target(self, step: Step, workflow: Workflow, names: frozenset[str]) -> str:
        """Return the step that comes next; END if there is none."""
        ways = workflow.find_edges_from(step.id)
        known = self._build_data(step, workflow)
        self.visits[step.id] += 1
        is_exhausted = step.max_visits is not None and self.visits[step.id] > step.max_visits
        for edge in ways:
            if (
                edge.condition is not None
                and not is_exhausted
                and self._is_condition_met(edge.condition, names, known)
            ):
                return edge.target
        for edge in ways:
            if edge.condition is None:
                if step.id in step.rounds.values():
                    self.visits[step.id] = 0  # a loop that is left starts over
                return edge.target
        if not ways:
            return END
        conditions = "; ".join(f"`{edge.label}`" for edge in ways)
        raise Refused(
            f"no condition of `{step.id}` is true: {conditions}",
            fix="add the result of the last step to the context",
        )

    def _is_condition_met(self, form: Any, names: frozenset[str], known: JsonObject) -> bool:
        if form is None:
            return True
        try:
            key = (repr(form), names)
            if key not in self.compiled:
                self.compiled[key] = compile_condition(form, names)
            return self.compiled[key].judge_data(known).taken
        except ConditionError as error:
            raise InvalidFile(f"invalid condition `{render_condition(form)}`: {error.message}") from error
