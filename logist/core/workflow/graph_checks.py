"""What is wrong with the graph of a workflow: ways that are missing, unclear, or without an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from logist.core.model import END, Edge, Step, StepType, Workflow
from logist.core.text.problem import WorkflowProblem
from logist.core.workflow.assembly import entrances
from logist.core.workflow.places import Places, problem

_PASSING = frozenset({StepType.DECISION, StepType.FOREACH})
"""Steps that may be passed without anybody doing anything: a list may be empty."""


def graph_problems(workflow: Workflow, places: Places) -> Iterator[WorkflowProblem]:
    """Every problem of the ways between the steps."""
    ways: dict[str, list[Edge]] = {step.id: [] for step in workflow.steps}
    for edge in workflow.edges:
        ways.setdefault(edge.source, []).append(edge)
    yield from _ids(workflow, places)
    for step in workflow.steps:
        yield from _ways_out(step, ways[step.id], places)
    yield from _unreachable(workflow, ways, places)
    yield from _joins(workflow, ways, places)
    yield from _endless(workflow, ways, places)


def _ids(workflow: Workflow, places: Places) -> Iterator[WorkflowProblem]:
    first: dict[str, str] = {}
    for step in workflow.steps:
        other = first.setdefault(step.id.casefold(), step.id)
        if other != step.id:
            message = f"the ids `{other}` and `{step.id}` differ only in case"
            yield problem("warning", "similar_ids", message, places.of(step.id, "id"), "rename one of them")


def _ways_out(step: Step, ways: list[Edge], places: Places) -> Iterator[WorkflowProblem]:
    place = places.of(step.id)
    free = [edge for edge in ways if edge.condition is None]
    decides = step.step_type == StepType.DECISION
    default = _fitting(places, step.id, "give it a `defaultBranch`", "draw an edge labelled `default`")
    if decides and not ways:
        message = f"decision `{step.id}` has no branch at all, so no job could go on"
        listed = "give it `branches` and a `defaultBranch`"
        fix = _fitting(places, step.id, listed, "draw an edge from it, one labelled `default`")
        yield problem("error", "no_branch", message, place, fix)
    if len(free) > 1:
        targets = ", ".join(f"`{edge.target or 'end'}`" for edge in free)
        kind = "decision" if decides else "step"
        code = "two_defaults" if decides else "several_ways"
        message = f"{kind} `{step.id}` goes on to {targets} without a condition: only one can be taken"
        one = _fitting(places, step.id, "let a decision choose", "put a condition on all but one")
        fix = "keep one default" if decides else f"{one}, or use a foreach"
        yield problem("error", code, message, place, fix)
    if ways and not free:
        if step.max_visits is not None:
            message = f"decision `{step.id}` takes its default after {step.max_visits} visits, but has none"
            yield problem("error", "no_default", message, place, default)
        elif all(edge.condition is False for edge in ways):
            message = f"decision `{step.id}` has only branches that never hold"
            yield problem("error", "no_branch", message, place, default)
        else:
            message = f"`{step.id}` has no default: where no condition holds, the job is STUCK"
            yield problem("warning", "no_default", message, place, default)


def _fitting(places: Places, step_id: str, listed: str, drawn: str) -> str:
    """The advice for the form that a step is written in; both where that is not known."""
    if step_id not in places.paths:
        return f"{drawn}; in a list, {listed}"
    return drawn if places.paths[step_id].startswith("@") else listed


def reached(starts: Iterable[str], ways: dict[str, list[Edge]]) -> set[str]:
    """Every step that can be come to from these, themselves included."""
    seen = set(starts)
    waiting = list(seen)
    while waiting:
        for edge in ways.get(waiting.pop(), ()):
            if edge.target not in seen:
                seen.add(edge.target)
                waiting.append(edge.target)
    return seen


def _unreachable(
    workflow: Workflow, ways: dict[str, list[Edge]], places: Places
) -> Iterator[WorkflowProblem]:
    """Steps with none before them that are not the start; and islands."""
    others = [name for name in entrances(workflow.steps, workflow.edges) if name != workflow.start]
    for name in others:
        message = f"no step leads to `{name}`, and the workflow begins with `{workflow.start}`"
        fix = "connect it, or remove it"
        if workflow.start in reached([name], ways):
            how = _fitting(places, name, f"`start: {name}`", f'`"start": true` at `{name}` alone')
            fix = f"{fix}, or begin with it: {how}"
        yield problem("error", "several_starts", message, places.of(name), fix)
    seen = reached([workflow.start, *others], ways)
    for step in workflow.steps:
        if step.id not in seen:
            message = f"no way leads from the start `{workflow.start}` to `{step.id}`"
            yield problem("error", "unreachable", message, places.of(step.id), "connect it, or remove it")


def _joins(workflow: Workflow, ways: dict[str, list[Edge]], places: Places) -> Iterator[WorkflowProblem]:
    each = [step for step in workflow.steps if step.step_type == StepType.FOREACH]
    joins = [step for step in workflow.steps if step.step_type == StepType.JOIN]
    after = reached((edge.target for step in each for edge in ways[step.id]), ways)
    for step in joins:
        if step.id not in after:
            message = f"join `{step.id}` has no foreach before it, so there is nothing it could join"
            yield problem("warning", "no_foreach", message, places.of(step.id))
    before = _reaching({step.id for step in joins}, workflow.edges)
    for step in each:
        if step.id not in before:
            message = f"foreach `{step.id}` has no join after it, so nobody looks at all its results together"
            yield problem("warning", "no_join", message, places.of(step.id))


def _reaching(targets: set[str], edges: Iterable[Edge]) -> set[str]:
    back: dict[str, list[Edge]] = {}
    for edge in edges:
        back.setdefault(edge.target, []).append(Edge(source=edge.target, target=edge.source))
    return reached(targets, back)


def _endless(workflow: Workflow, ways: dict[str, list[Edge]], places: Places) -> Iterator[WorkflowProblem]:
    """Circles in which nobody does anything; and a workflow that has no end at all."""
    passing = {step.id for step in workflow.steps if step.step_type in _PASSING and step.max_visits is None}
    circle = _circle(passing, ways)
    if circle:
        names = [step.id for step in workflow.steps if step.id in circle]
        message = f"a circle in which nobody does anything, so it would never end: {', '.join(names)}"
        fix = "put a task in it, or give a decision `maxVisits`"
        yield problem("error", "endless", message, places.of(names[0]), fix)
    seen = reached([workflow.start], ways)
    if END not in seen and all(ways.get(step_id) for step_id in seen):
        message = "no step ends the workflow: every one leads on to another"
        fix = _fitting(places, workflow.start, "let a step go on to `end`", "draw a way out of the circle")
        yield problem("warning", "no_end", message, places.of(workflow.start), fix)


def _circle(nodes: set[str], ways: dict[str, list[Edge]]) -> set[str]:
    """The nodes on circles among these: what is left when every dead end has been taken away."""
    left = {node: {edge.target for edge in ways[node] if edge.target in nodes} for node in nodes}
    for forward in (True, False):
        links = left if forward else _turned(left)
        counts = Counter({node: len(links[node]) for node in left})
        back = _turned(links)
        free = [node for node in left if counts[node] == 0]
        while free:
            gone = free.pop()
            left.pop(gone)
            for other in back[gone]:
                counts[other] -= 1
                if counts[other] == 0 and other in left:
                    free.append(other)
        left = {node: targets & left.keys() for node, targets in left.items()}
    return set(left)


def _turned(links: dict[str, set[str]]) -> dict[str, set[str]]:
    turned: dict[str, set[str]] = {node: set() for node in links}
    for node, targets in links.items():
        for target in targets:
            turned[target].add(node)
    return turned
