"""Check the graph of a workflow for edges that are missing or ambiguous, and for loops without an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from logist.core.model import END, Edge, Step, StepType, Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.assembly import find_entrances
from logist.core.workflow.places import Places, make_problem

_PASSING = frozenset({StepType.DECISION, StepType.FOREACH})
"""Steps that can be passed without any work: the list of a foreach may be empty."""


def check_graph(workflow: Workflow, places: Places) -> Iterator[WorkflowProblem]:
    """Yield every problem with the edges between the steps."""
    ways: dict[str, list[Edge]] = {step.id: [] for step in workflow.steps}
    for edge in workflow.edges:
        ways.setdefault(edge.source, []).append(edge)
    yield from _check_ids(workflow, places)
    for step in workflow.steps:
        yield from _check_ways_out(step, ways[step.id], places)
    yield from _check_reachability(workflow, ways, places)
    yield from _check_joins(workflow, ways, places)
    yield from _check_endings(workflow, ways, places)


def _check_ids(workflow: Workflow, places: Places) -> Iterator[WorkflowProblem]:
    first: dict[str, str] = {}
    for step in workflow.steps:
        other = first.setdefault(step.id.casefold(), step.id)
        if other != step.id:
            message = f"the ids `{other}` and `{step.id}` differ only in case"
            yield make_problem(
                "warning", "similar_ids", message, places.locate_step(step.id, "id"), "rename one of them"
            )


def _check_ways_out(step: Step, ways: list[Edge], places: Places) -> Iterator[WorkflowProblem]:
    place = places.locate_step(step.id)
    free = [edge for edge in ways if edge.condition is None]
    decides = step.step_type == StepType.DECISION
    default = _choose_fix(places, step.id, "set `defaultBranch`", "draw an edge labeled `default`")
    if decides and not ways:
        message = f"decision `{step.id}` has no branches, so no job can continue"
        listed = "add `branches` and a `defaultBranch`"
        fix = _choose_fix(places, step.id, listed, "draw edges from it, one of them labeled `default`")
        yield make_problem("error", "no_branch", message, place, fix)
    if len(free) > 1:
        targets = ", ".join(f"`{edge.target or 'end'}`" for edge in free)
        kind = "decision" if decides else "step"
        code = "two_defaults" if decides else "several_ways"
        message = f"{kind} `{step.id}` leads to {targets} without a condition: only one can be taken"
        one = _choose_fix(places, step.id, "let a decision choose", "put a condition on all but one")
        fix = "keep one default" if decides else f"{one}, or use a foreach"
        yield make_problem("error", code, message, place, fix)
    if ways and not free:
        if step.max_visits is not None:
            message = f"decision `{step.id}` has `maxVisits: {step.max_visits}` but no default"
            yield make_problem("error", "no_default", message, place, default)
        elif all(edge.condition is False for edge in ways):
            message = f"decision `{step.id}` has only branches that can never be taken"
            yield make_problem("error", "no_branch", message, place, default)
        else:
            message = f"`{step.id}` has no default: if no condition is true, the job becomes STUCK"
            yield make_problem("warning", "no_default", message, place, default)


def _choose_fix(places: Places, step_id: str, listed: str, drawn: str) -> str:
    """Return the advice for the form that the step is written in, or both if that is unknown."""
    if step_id not in places.paths:
        return f"{drawn}; in a list, {listed}"
    return drawn if places.paths[step_id].startswith("@") else listed


def find_reachable(starts: Iterable[str], ways: dict[str, list[Edge]]) -> set[str]:
    """Return every step that can be reached from these, themselves included."""
    seen = set(starts)
    waiting = list(seen)
    while waiting:
        for edge in ways.get(waiting.pop(), ()):
            if edge.target not in seen:
                seen.add(edge.target)
                waiting.append(edge.target)
    return seen


def _check_reachability(
    workflow: Workflow, ways: dict[str, list[Edge]], places: Places
) -> Iterator[WorkflowProblem]:
    """Report steps without an incoming edge that are not the start, and steps that the start can't reach."""
    others = [name for name in find_entrances(workflow.steps, workflow.edges) if name != workflow.start]
    for name in others:
        message = f"no step leads to `{name}`, and the workflow starts with `{workflow.start}`"
        fix = "connect it, or remove it"
        if workflow.start in find_reachable([name], ways):
            how = _choose_fix(places, name, f"`start: {name}`", f'`"start": true` only at `{name}`')
            fix = f"{fix}, or make it the start: {how}"
        yield make_problem("error", "several_starts", message, places.locate_step(name), fix)
    seen = find_reachable([workflow.start, *others], ways)
    for step in workflow.steps:
        if step.id not in seen:
            message = f"no path leads from the start `{workflow.start}` to `{step.id}`"
            yield make_problem(
                "error", "unreachable", message, places.locate_step(step.id), "connect it, or remove it"
            )


def _check_joins(
    workflow: Workflow, ways: dict[str, list[Edge]], places: Places
) -> Iterator[WorkflowProblem]:
    each = [step for step in workflow.steps if step.step_type == StepType.FOREACH]
    joins = [step for step in workflow.steps if step.step_type == StepType.JOIN]
    after = find_reachable((edge.target for step in each for edge in ways[step.id]), ways)
    for step in joins:
        if step.id not in after:
            message = f"join `{step.id}` has no foreach before it, so it has nothing to join"
            yield make_problem("warning", "no_foreach", message, places.locate_step(step.id))
    before = _find_steps_before({step.id for step in joins}, workflow.edges)
    for step in each:
        if step.id not in before:
            message = f"foreach `{step.id}` has no join after it, so no step combines its results"
            yield make_problem("warning", "no_join", message, places.locate_step(step.id))


def _find_steps_before(targets: set[str], edges: Iterable[Edge]) -> set[str]:
    back: dict[str, list[Edge]] = {}
    for edge in edges:
        back.setdefault(edge.target, []).append(Edge(source=edge.target, target=edge.source))
    return find_reachable(targets, back)


def _check_endings(
    workflow: Workflow, ways: dict[str, list[Edge]], places: Places
) -> Iterator[WorkflowProblem]:
    """Report loops in which no step does any work, and a workflow without an end."""
    passing = {step.id for step in workflow.steps if step.step_type in _PASSING and step.max_visits is None}
    circle = _find_circle(passing, ways)
    if circle:
        names = [step.id for step in workflow.steps if step.id in circle]
        message = f"a loop without a task, which would never end: {', '.join(names)}"
        fix = "add a task to it, or `maxVisits` to a decision"
        yield make_problem("error", "endless", message, places.locate_step(names[0]), fix)
    seen = find_reachable([workflow.start], ways)
    if END not in seen and all(ways.get(step_id) for step_id in seen):
        message = "the workflow has no end: every step leads to another"
        fix = _choose_fix(places, workflow.start, "let a step lead to `end`", "draw an edge out of the loop")
        yield make_problem("warning", "no_end", message, places.locate_step(workflow.start), fix)


def _find_circle(nodes: set[str], ways: dict[str, list[Edge]]) -> set[str]:
    """Return the nodes on loops among these: those that remain when every dead end is removed."""
    remaining = {node: {edge.target for edge in ways[node] if edge.target in nodes} for node in nodes}
    for forward in (True, False):
        links = remaining if forward else _reverse_links(remaining)
        counts = Counter({node: len(links[node]) for node in remaining})
        back = _reverse_links(links)
        free = [node for node in remaining if counts[node] == 0]
        while free:
            dead_end = free.pop()
            remaining.pop(dead_end)
            for other in back[dead_end]:
                counts[other] -= 1
                if counts[other] == 0 and other in remaining:
                    free.append(other)
        remaining = {node: targets & remaining.keys() for node, targets in remaining.items()}
    return set(remaining)


def _reverse_links(links: dict[str, set[str]]) -> dict[str, set[str]]:
    reversed_links: dict[str, set[str]] = {node: set() for node in links}
    for node, targets in links.items():
        for target in targets:
            reversed_links[target].add(node)
    return reversed_links
