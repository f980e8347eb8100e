"""Where a workflow leads: decisions taken on data, at once, one after the other. No model is asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from logist.core import condition
from logist.core.event import Onward
from logist.core.model import Edge, JsonObject, Step, StepType, Workflow

DEFAULT = "default"


@dataclass(frozen=True)
class Routed:
    """The next step, and the decisions on the way to it, as an interaction records them."""

    onward: Onward
    route: list[JsonObject] = field(default_factory=list)


@dataclass(frozen=True)
class Facts:
    """What decisions are taken on."""

    data: Mapping[str, Any]
    visits: Mapping[str, int] = field(default_factory=dict)
    """How often each decision was taken before."""
    suggestion: str | None = None
    """The successor that an agent has named; it counts where no condition holds, and only if it is one."""

    @property
    def roots(self) -> Collection[str]:
        return {*condition.ROOTS, *self.data}


def enter(flow: Workflow, step_id: str, facts: Facts) -> Routed:
    """What is done first when a job comes to a step: the step itself, or what its decision leads to."""
    return _follow(flow, step_id, facts, [])


def after(flow: Workflow, step_id: str, facts: Facts) -> Routed:
    """What follows a step that is done."""
    edges = flow.leaving(step_id)
    if not edges:
        return Routed(Onward(None))
    if len(edges) == 1 and edges[0].condition is None:
        return _follow(flow, edges[0].target, facts, [])
    return _decided(flow, step_id, facts, [])


def holds(form: Any, facts: Facts) -> condition.Verdict:
    """What a condition says of the data; one that does not compile does not hold."""
    try:
        return condition.compiled(form, facts.roots).judge(facts.data)
    except condition.ConditionError as error:
        return condition.Verdict(False, error=str(error))


def _follow(flow: Workflow, step_id: str, facts: Facts, route: list[JsonObject]) -> Routed:
    """On from a step that was reached: passes over it, decides, or stops there."""
    step = flow.step(step_id)
    if step is None:  # END, the only target that is no step
        return Routed(Onward(None), route)
    if len(route) > len(flow.steps):
        fault = f"the decisions around {step.id!r} lead in a circle, and nothing is done in it"
        return Routed(Onward(None, fault), route)
    if step.when is not None:
        verdict = holds(step.when, facts)
        if not verdict.taken:
            return _passed_over(flow, step, facts, [*route, _skipped(step, verdict)])
    if step.step_type is StepType.DECISION:
        return _decided(flow, step_id, facts, route)
    return Routed(Onward(step_id), route)


def _passed_over(flow: Workflow, step: Step, facts: Facts, route: list[JsonObject]) -> Routed:
    edges = flow.leaving(step.id)
    if not edges:
        return Routed(Onward(None), route)
    onward = next((edge for edge in edges if edge.condition is None), edges[0])
    return _follow(flow, onward.target, facts, route)


def _skipped(step: Step, verdict: condition.Verdict) -> JsonObject:
    told: JsonObject = {"skipped": step.id, "condition": condition.rendered(step.when)}
    return _with_values(told, verdict.values, {"condition": verdict.error} if verdict.error else {})


def _decided(flow: Workflow, step_id: str, facts: Facts, route: list[JsonObject]) -> Routed:
    """The first branch that holds, in the order of the diagram; then a suggestion; then the default."""
    edges = flow.leaving(step_id)
    step = flow.step(step_id)
    values: JsonObject = {}
    errors: dict[str, str] = {}
    chosen = None if _visited_enough(step, facts) else _first(edges, facts, values, errors)
    by = {}
    if chosen is None:
        chosen = _suggested(flow, edges, facts.suggestion)
        by = {"suggested": facts.suggestion} if chosen else {}
    chosen = chosen or next((edge for edge in edges if edge.condition is None), None)
    told: JsonObject = {"decision": step_id, "branch": chosen.target if chosen else None, **by}
    if chosen is not None:
        told["condition"] = DEFAULT if chosen.condition is None else condition.rendered(chosen.condition)
    told = _with_values(told, values, errors)
    if chosen is None:
        return Routed(Onward(None, _no_branch(step_id, values, errors)), [*route, told])
    return _follow(flow, chosen.target, facts, [*route, told])


def _visited_enough(step: Step | None, facts: Facts) -> bool:
    most = step.max_visits if step else None
    return step is not None and most is not None and facts.visits.get(step.id, 0) >= most


def _first(edges: list[Edge], facts: Facts, values: JsonObject, errors: dict[str, str]) -> Edge | None:
    """The first edge whose condition holds; `values` and `errors` get what was seen on the way."""
    for edge in edges:
        if edge.condition is None:
            continue
        verdict = holds(edge.condition, facts)
        values.update(verdict.values)
        if verdict.error:
            errors[condition.rendered(edge.condition)] = verdict.error
        if verdict.taken:
            return edge
    return None


def _suggested(flow: Workflow, edges: list[Edge], name: str | None) -> Edge | None:
    """The edge to the step of that id or name, whatever the case."""
    wanted = (name or "").strip().casefold()
    for edge in edges if wanted else ():
        step = flow.step(edge.target)
        if step is not None and wanted in (step.id.casefold(), step.name.casefold()):
            return edge
    return None


def _with_values(told: JsonObject, values: JsonObject, errors: dict[str, str]) -> JsonObject:
    return {**told, **({"values": values} if values else {}), **({"errors": errors} if errors else {})}


def _no_branch(step_id: str, values: JsonObject, errors: dict[str, str]) -> str:
    seen = ", ".join(f"{name} = {value!r}" for name, value in values.items()) or "nothing it looks at"
    why = f"; {'; '.join(errors.values())}" if errors else ""
    return f"decision {step_id!r}: no branch holds and it has no default; it saw {seen}{why}"
