"""Warn of limits that are too low for a workflow even if no agent needs a second attempt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

from logist.core.machine import steward
from logist.core.model import END, MAX_ITEMS, Execution, Limits, Step, StepType, Workflow
from logist.core.model.flow import MAX_STEPS
from logist.core.text import paths
from logist.core.text.counts import format_count
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.places import Place, Places, make_problem
from logist.quick_dataclass import dataclass

CODE = "limits"
RUNS = "limits.max_allowed_iterations"


@dataclass(frozen=True)
class Allowance:
    """What a job that follows the workflow may use."""

    limits: Limits
    review: bool = True
    """Whether the steps that ask for a review get one."""
    job_input: Any = None
    """The job's input, as far as it is known."""
    max_steps: int = MAX_STEPS
    """How many steps a workflow may have; `workflow.max_steps` in the config."""


def check_size(
    workflow: Workflow, subflows: Mapping[str, Workflow], allowance: Allowance, places: Places
) -> Iterator[WorkflowProblem]:
    """Yield an error for each workflow that has too many steps."""
    for name, each in {"": workflow, **subflows}.items():
        if len(each.steps) > allowance.max_steps:
            what = f"the workflow `{name}`" if name else "the workflow"
            message = f"{what} has {len(each.steps):,} steps; the limit is {allowance.max_steps:,}"
            place: Place = ("steps", places.lines.get("steps"))
            yield make_problem(
                "error", "too_large", message, place, "raise `workflow.max_steps` in the config"
            )


def check_limits(
    workflow: Workflow, subflows: Mapping[str, Workflow], allowance: Allowance, places: Places
) -> Iterator[WorkflowProblem]:
    """Yield the warnings about limits; `subflows` are the workflows within it, by name."""
    needs = _Needs(allowance, subflows)
    most = allowance.limits.max_allowed_iterations
    least = needs.count_runs(workflow)
    if least > most:
        message = f"this workflow needs {RUNS} of at least {least}, but it is {most}"
        yield make_problem("warning", CODE, message, ("", None), "raise the limit")
    for name in ("cost_threshold", "time_threshold_minutes"):
        if least and not getattr(allowance.limits, name):
            yield make_problem("warning", CODE, f"limits.{name} is 0, so no agent can run", ("", None))
    for step in workflow.steps:
        if step.step_type == StepType.FOREACH:
            yield from _check_item_limits(step, needs, most, places)


def count_least_runs_of_item(step: Step, subflows: Mapping[str, Workflow], *, review: bool) -> int:
    """Return the fewest runs of agents after which an item of a foreach can be done."""
    return _Needs(Allowance(Limits(), review), subflows).count_item_runs(step)


def _check_item_limits(step: Step, needs: _Needs, most: int, places: Places) -> Iterator[WorkflowProblem]:
    least, own = needs.count_item_runs(step), step.item_limits
    allowed = own.max_allowed_iterations if own else None
    runs = format_count(least, "run")
    if allowed is not None and allowed < least:
        message = f"an item of `{step.id}` needs at least {runs}, but its itemLimits allow {allowed}"
        yield make_problem(
            "warning", CODE, message, places.locate_step(step.id, "itemLimits"), "raise maxAllowedIterations"
        )
    for name in ("cost_threshold", "time_threshold_minutes"):
        if least and own and getattr(own, name) == 0:
            message = f"`{name}` of the itemLimits of `{step.id}` is 0, so no agent can run"
            yield make_problem("warning", CODE, message, places.locate_step(step.id, "itemLimits"))
    # The default is not checked: it says nothing about how many items the author expects.
    if step.max_items != MAX_ITEMS and needs.count_items(step) is None and step.max_items * least > most:
        message = f"`{step.id}` may have {format_count(step.max_items, 'item')} of at least {runs} each, but {RUNS} is {most}"
        yield make_problem(
            "warning", CODE, message, places.locate_step(step.id, "maxItems"), "raise the limit"
        )


class _Needs:
    """The fewest runs of agents after which a workflow, or a part of it, can be done."""

    def __init__(
        self, allowance: Allowance, subflows: Mapping[str, Workflow], known: dict[str, int] | None = None
    ) -> None:
        self.allowance = allowance
        self.subflows = subflows
        self.known = {} if known is None else known
        """Runs that each subflow needs, counted once per subflow."""

    def count_runs(self, workflow: Workflow) -> int:
        """Return the runs that a workflow needs on the cheapest way through it."""
        least = {workflow.start: self._count_step_runs(workflow, workflow.start)}
        waiting = [(least[workflow.start], workflow.start)]
        ends: list[int] = []
        while waiting:
            _, step_id = heappop(waiting)
            edges = workflow.find_edges_from(step_id)
            targets = {edge.target for edge in edges} or {END}
            for target in targets:
                if target == END or workflow.find_step(target) is None:
                    ends.append(least[step_id])
                    continue
                runs = least[step_id] + self._count_step_runs(workflow, target)
                if runs < least.get(target, runs + 1):
                    least[target] = runs
                    heappush(waiting, (runs, target))
        return min(ends, default=0)

    def count_item_runs(self, step: Step) -> int:
        """Return the runs that one item of a foreach needs."""
        return self._count_subflow_runs(step.subflow) if step.subflow else self._count_agent_runs(step)

    def count_items(self, step: Step) -> int | None:
        """Return how many items a foreach has; None if that is known only when the job runs."""
        path = step.items_path or ""
        try:
            parsed = paths.parse(path)
        except paths.PathError:
            return None
        if self.allowance.job_input is None or not parsed or parsed[0] != "input":
            return None
        items = paths.lookup({"input": self.allowance.job_input}, parsed)
        return len(items) if isinstance(items, list) else None

    def _count_step_runs(self, workflow: Workflow, step_id: str) -> int:
        step = workflow.find_step(step_id)
        if step is None or step.when is not None:
            return 0
        if step.step_type == StepType.FOREACH:
            share = steward.required_success_percent(workflow, step)
            return math.ceil((self.count_items(step) or 0) * share / 100) * self.count_item_runs(step)
        if step.step_type == StepType.SUBFLOW:
            return self._count_subflow_runs(step.subflow)
        is_asked = step.step_type in (StepType.TASK, StepType.JOIN) and step.execution != Execution.MANUAL
        return self._count_agent_runs(step) if is_asked else 0

    def _count_agent_runs(self, step: Step) -> int:
        return 1 + (step.review and self.allowance.review)

    def _count_subflow_runs(self, name: str | None) -> int:
        inner = self.subflows.get(name or "")
        if inner is None or name is None:
            return 0
        if name not in self.known:
            self.known[name] = 0  # within itself; `nested` reports that
            unknown_input = replace(self.allowance, job_input=None)
            self.known[name] = _Needs(unknown_input, self.subflows, self.known).count_runs(inner)
        return self.known[name]
