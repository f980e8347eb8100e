"""Where a workflow leads: decisions taken on data, at once, one after the other. No model is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from logist.core import condition
from logist.core.answer.answer_faults import shown
from logist.core.machine.event import Onward
from logist.core.machine.rules import TODAY, Rule, Rules
from logist.core.model import END, Edge, JsonObject, Step, StepType, Workflow
from logist.core.template import data

DEFAULT = "default"
MOST_CIRCLES = 1000
"""Visits that decisions may ask for before anything is done."""


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
    rules: Rules = TODAY
    """Those that decisions are taken by."""

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
    taken = _decided(flow, step_id, facts, [])
    return _follow(flow, taken.target, facts, [taken.told]) if not taken.fault else taken.lost([])


def choices(flow: Workflow, step_id: str) -> list[Step]:
    """The steps that the agent of a step may name as its successor: those behind the decisions that come next.

    One counts where no condition of its decision holds.
    """
    found: dict[str, Step] = {}
    waiting, seen = [step_id], set()
    while waiting:
        here = waiting.pop(0)
        edges = flow.leaving(here)
        decides = len(edges) > 1 or any(edge.condition is not None for edge in edges)
        for edge in edges if here not in seen else ():
            target = flow.step(edge.target)
            if target is None:
                continue
            if decides:
                found.setdefault(target.id, target)
            if target.step_type is StepType.DECISION:
                waiting.append(target.id)
        seen.add(here)
    return list(found.values())


def choice_fault(flow: Workflow, step_id: str, suggestion: object) -> str:
    """Why what an agent names as the next step is none of its choices; empty if it is one, or it names nothing."""
    if suggestion is None or (isinstance(suggestion, str) and not suggestion.strip()):
        return ""
    known = choices(flow, step_id)
    wanted = suggestion.strip().casefold() if isinstance(suggestion, str) else None
    if any(wanted in (step.id.casefold(), step.name.casefold()) for step in known):
        return ""
    ids = ", ".join(step.id for step in known)
    there = f"expected one of {ids}" if ids else "there is nothing to choose after this step"
    return f"`suggested_next_stage` is {shown(suggestion)}; {there}"


def holds(form: Any, facts: Facts) -> condition.ConditionVerdict:
    """What a condition says of the data; one that does not compile does not hold."""
    try:
        javascript = Rule.JAVASCRIPT_ORDER in facts.rules
        return condition.compile_condition(form, facts.roots, javascript=javascript).judge(facts.data)
    except condition.ConditionError as error:
        return condition.ConditionVerdict(False, error=str(error))


@dataclass(frozen=True)
class _TakenDecision:
    """What a decision leads to, or why it leads nowhere, and what the history tells of it."""

    told: JsonObject
    target: str = END
    fault: str = ""

    def lost(self, route: list[JsonObject]) -> Routed:
        return Routed(Onward(None, self.fault), [*route, self.told])


def _follow(flow: Workflow, step_id: str, facts: Facts, route: list[JsonObject]) -> Routed:
    """On from a step that was reached: passes over it, decides, or stops there."""
    loops = any(map(_is_loop, flow.steps))  # which may be within each other
    visits = MOST_CIRCLES if loops else sum(step.max_visits or 0 for step in flow.steps)
    most = len(flow.steps) + min(MOST_CIRCLES, visits)
    while step := flow.step(step_id):
        if len(route) > most:
            fault = f"the decisions around {step.id!r} lead in a circle, and nothing is done in it"
            return Routed(Onward(None, fault), route)
        verdict = holds(step.when, _at(flow, step, facts, route)) if step.when is not None else None
        if verdict is not None and not verdict.taken:
            route.append(_skipped(step, verdict))
            step_id = _beyond(flow, step)
        elif step.step_type is StepType.DECISION:
            taken = _decided(flow, step_id, facts, route)
            if taken.fault:
                return taken.lost(route)
            route.append(taken.told)
            step_id = taken.target
        else:
            return Routed(Onward(step_id), route)
    return Routed(Onward(None), route)  # END, the only target that is no step


def _beyond(flow: Workflow, step: Step) -> str:
    """Where a step that is passed over leads."""
    edges = flow.leaving(step.id)
    if not edges:
        return END
    return next((edge for edge in edges if edge.condition is None), edges[0]).target


def _skipped(step: Step, verdict: condition.ConditionVerdict) -> JsonObject:
    told: JsonObject = {"skipped": step.id, "condition": condition.render_condition(step.when)}
    reason = _unjudged(verdict)
    return _with_values(told, verdict.values, {"condition": reason} if reason else {})


def _decided(flow: Workflow, step_id: str, facts: Facts, route: list[JsonObject]) -> _TakenDecision:
    """The first branch that holds, in the order of the diagram; then a suggestion; then the default.

    A decision that was visited often enough takes its default, whatever holds or is suggested.
    """
    edges = flow.leaving(step_id)
    facts = _at(flow, flow.step(step_id), facts, route)
    default = next((edge for edge in edges if edge.condition is None), None)
    values: JsonObject = {}
    errors: dict[str, str] = {}
    chosen, by = None, {}
    if not _visited_enough(flow.step(step_id), facts, route):
        chosen = _first(edges, facts, values, errors)
        suggested = _suggested(flow, edges, facts.suggestion) if chosen is None else None
        chosen, by = chosen or suggested, {"suggested": facts.suggestion} if suggested else {}
    chosen = chosen or default
    told: JsonObject = {"decision": step_id, "branch": chosen.target if chosen else None, **by}
    if chosen is not None:
        told["condition"] = (
            DEFAULT if chosen.condition is None else condition.render_condition(chosen.condition)
        )
    if chosen is default and _is_loop(flow.step(step_id)):
        told["leaves_loop"] = True
    told = _with_values(told, values, errors)
    return (
        _TakenDecision(told, chosen.target)
        if chosen
        else _TakenDecision(told, fault=_no_branch(step_id, values, errors))
    )


def _is_loop(step: Step | None) -> bool:
    """Whether a decision counts its own rounds: it may be come to again, in a loop around it."""
    return step is not None and step.id in step.rounds.values()


def _visited_enough(step: Step | None, facts: Facts, route: list[JsonObject]) -> bool:
    if step is None or step.max_visits is None:
        return False
    return _visits(facts, route)[step.id] >= step.max_visits


def _visits(facts: Facts, route: list[JsonObject]) -> Counter[str]:
    """How often each decision was taken, those of this route included."""
    return Counter(count_visits(facts.visits, route))


def count_visits(before: Mapping[str, int], route: list[JsonObject]) -> dict[str, int]:
    """How often each decision was taken, those of a route included; a loop that is left starts over."""
    visits = dict(before)
    for told in route:
        if isinstance(decision := told.get("decision"), str):
            visits[decision] = 0 if told.get("leaves_loop") else visits.get(decision, 0) + 1
    return visits


def _at(flow: Workflow, step: Step | None, facts: Facts, route: list[JsonObject]) -> Facts:
    """The facts as that step sees them: the rounds of the loops around it, and of no other."""
    names = {name for each in flow.steps for name in each.rounds}
    if step is None or not names:
        return facts
    own = data.rounds(flow, step, _visits(facts, route))
    kept = {name: value for name, value in facts.data.items() if name not in names}
    return replace(facts, data={**kept, **own})


def _first(edges: list[Edge], facts: Facts, values: JsonObject, errors: dict[str, str]) -> Edge | None:
    """The first edge whose condition holds; `values` and `errors` get what was seen on the way."""
    for edge in edges:
        if edge.condition is None:
            continue
        verdict = holds(edge.condition, facts)
        values.update(verdict.values)
        if reason := _unjudged(verdict):
            errors[condition.render_condition(edge.condition)] = reason
        if verdict.taken:
            return edge
    return None


def _unjudged(verdict: condition.ConditionVerdict) -> str:
    """Why a condition says nothing about the data; empty where it does.

    A bare name in an object condition counts as null where it is missing, so that alone is no error.
    """
    if verdict.error:
        return verdict.error
    saw_nothing = verdict.missing and not verdict.values
    return f"missing: {', '.join(verdict.missing)}" if saw_nothing and not verdict.taken else ""


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
