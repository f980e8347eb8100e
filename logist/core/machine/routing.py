"""Where a workflow leads: decisions are evaluated on data, one after the other, without calling a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Any

from logist.core import condition
from logist.core.answer import answer_faults
from logist.core.machine.event import Onward
from logist.core.machine.rules import TODAY, Rule, Rules
from logist.core.model import END, Edge, JsonObject, Step, StepType, Workflow
from logist.core.template import data
from logist.quick_dataclass import dataclass

DEFAULT = "default"
MOST_CIRCLES = 1000
"""How many decisions may follow each other without a step in between."""


@dataclass(frozen=True)
class Routed:
    """The next step, and the decisions on the way to it as an interaction records them."""

    onward: Onward
    route: list[JsonObject] = field(default_factory=list)


@dataclass(frozen=True)
class Facts:
    """The data that decisions are based on."""

    data: Mapping[str, Any]
    visits: Mapping[str, int] = field(default_factory=dict)
    """How often each decision was taken before."""
    suggestion: str | None = None
    """The next step that an agent suggested; used if no condition matches, and only if it is a branch."""
    rules: Rules = TODAY
    """The rules for the decisions."""

    @property
    def roots(self) -> Collection[str]:
        """The names that a condition may begin with."""
        return {*condition.ROOTS, *self.data}


def enter_step(flow: Workflow, step_id: str, facts: Facts) -> Routed:
    """Return what a job does first when it reaches a step: the step itself, or where its decision leads."""
    return _follow_workflow(flow, step_id, facts, [])


def route_after_step(flow: Workflow, step_id: str, facts: Facts) -> Routed:
    """Return what follows a completed step."""
    edges = flow.find_edges_from(step_id)
    if not edges:
        return Routed(Onward(None))
    if len(edges) == 1 and edges[0].condition is None:
        return _follow_workflow(flow, edges[0].target, facts, [])
    decision = _take_decision(flow, step_id, facts, [])
    return (
        _follow_workflow(flow, decision.target, facts, [decision.told])
        if not decision.fault
        else decision.to_dead_end([])
    )


def list_choices(flow: Workflow, step_id: str) -> list[Step]:
    """List the steps that an agent may suggest as the next one: the targets of the decisions that follow its
    step.

    A suggestion counts only if no condition of its decision matches.
    """
    choices_by_id: dict[str, Step] = {}
    queue, visited = [step_id], set()
    while queue:
        current_id = queue.pop(0)
        edges = flow.find_edges_from(current_id)
        decides = len(edges) > 1 or any(edge.condition is not None for edge in edges)
        for edge in edges if current_id not in visited else ():
            target = flow.find_step(edge.target)
            if target is None:
                continue
            if decides:
                choices_by_id.setdefault(target.id, target)
            if target.step_type is StepType.DECISION:
                queue.append(target.id)
        visited.add(current_id)
    return list(choices_by_id.values())


def choice_fault(flow: Workflow, step_id: str, suggestion: object) -> str:
    """Why the suggested next step is not one of the choices.

    Empty if it is one, or if there is no suggestion.
    """
    if suggestion is None or (isinstance(suggestion, str) and not suggestion.strip()):
        return ""
    known = list_choices(flow, step_id)
    wanted = suggestion.strip().casefold() if isinstance(suggestion, str) else None
    if any(wanted in (step.id.casefold(), step.name.casefold()) for step in known):
        return ""
    ids = ", ".join(step.id for step in known)
    expectation = f"expected one of {ids}" if ids else "this step has no branches to choose from"
    return f"`suggested_next_stage` is {answer_faults.describe_value(suggestion)}; {expectation}"


def judge_condition(form: Any, facts: Facts) -> condition.ConditionVerdict:
    """Evaluate a condition on the data; an invalid condition does not match."""
    try:
        javascript = Rule.JAVASCRIPT_ORDER in facts.rules
        return condition.compile_condition(form, facts.roots, javascript=javascript).judge_data(facts.data)
    except condition.ConditionError as error:
        return condition.ConditionVerdict(False, error=str(error))


@dataclass(frozen=True)
class _TakenDecision:
    """What a decision leads to, or why it leads nowhere, and its record in the history."""

    told: JsonObject
    target: str = END
    fault: str = ""

    def to_dead_end(self, route: list[JsonObject]) -> Routed:
        """Return the route that ends here, because no branch was taken."""
        return Routed(Onward(None, self.fault), [*route, self.told])


def _follow_workflow(flow: Workflow, step_id: str, facts: Facts, route: list[JsonObject]) -> Routed:
    """Continue from a step: skip it, take its decision, or stop there."""
    loops = any(map(_is_loop, flow.steps))  # loops may be nested
    visits = MOST_CIRCLES if loops else sum(step.max_visits or 0 for step in flow.steps)
    most = len(flow.steps) + min(MOST_CIRCLES, visits)
    while step := flow.find_step(step_id):
        if len(route) > most:
            fault = f"endless loop: the decisions around {step.id!r} lead back without doing a step"
            return Routed(Onward(None, fault), route)
        verdict = (
            judge_condition(step.when, _select_facts(flow, step, facts, route))
            if step.when is not None
            else None
        )
        if verdict is not None and not verdict.taken:
            route.append(_record_skip(step, verdict))
            step_id = _find_skip_target(flow, step)
        elif step.step_type is StepType.DECISION:
            decision = _take_decision(flow, step_id, facts, route)
            if decision.fault:
                return decision.to_dead_end(route)
            route.append(decision.told)
            step_id = decision.target
        else:
            return Routed(Onward(step_id), route)
    return Routed(Onward(None), route)  # END is the only target that is not a step


def _find_skip_target(flow: Workflow, step: Step) -> str:
    """Return the id of the step that follows a skipped one, or END."""
    edges = flow.find_edges_from(step.id)
    if not edges:
        return END
    return next((edge for edge in edges if edge.condition is None), edges[0]).target


def _record_skip(step: Step, verdict: condition.ConditionVerdict) -> JsonObject:
    record: JsonObject = {"skipped": step.id, "condition": condition.render_condition(step.when)}
    reason = _unjudged_reason(verdict)
    return _add_values(record, verdict.values, {"condition": reason} if reason else {})


def _take_decision(flow: Workflow, step_id: str, facts: Facts, route: list[JsonObject]) -> _TakenDecision:
    """Take the first branch that matches, in the order of the diagram; else the suggestion; else the default.

    A decision that has reached its maximum number of visits always takes its default.
    """
    edges = flow.find_edges_from(step_id)
    facts = _select_facts(flow, flow.find_step(step_id), facts, route)
    default = next((edge for edge in edges if edge.condition is None), None)
    values: JsonObject = {}
    errors: dict[str, str] = {}
    chosen, suggestion_record = None, {}
    if not _has_reached_max_visits(flow.find_step(step_id), facts, route):
        chosen = _find_first_branch(edges, facts, values, errors)
        suggested_edge = _find_suggested_branch(flow, edges, facts.suggestion) if chosen is None else None
        chosen, suggestion_record = (
            chosen or suggested_edge,
            {"suggested": facts.suggestion} if suggested_edge else {},
        )
    chosen = chosen or default
    record: JsonObject = {
        "decision": step_id,
        "branch": chosen.target if chosen else None,
        **suggestion_record,
    }
    if chosen is not None:
        record["condition"] = (
            DEFAULT if chosen.condition is None else condition.render_condition(chosen.condition)
        )
    if chosen is default and _is_loop(flow.find_step(step_id)):
        record["leaves_loop"] = True
    record = _add_values(record, values, errors)
    return (
        _TakenDecision(record, chosen.target)
        if chosen
        else _TakenDecision(record, fault=_describe_no_branch(step_id, values, errors))
    )


def _is_loop(step: Step | None) -> bool:
    """Whether a decision controls a loop, so that it may be reached again."""
    return step is not None and step.id in step.rounds.values()


def _has_reached_max_visits(step: Step | None, facts: Facts, route: list[JsonObject]) -> bool:
    if step is None or step.max_visits is None:
        return False
    return _count_all_visits(facts, route)[step.id] >= step.max_visits


def _count_all_visits(facts: Facts, route: list[JsonObject]) -> Counter[str]:
    """Count how often each decision was taken, including this route."""
    return Counter(count_visits(facts.visits, route))


def count_visits(before: Mapping[str, int], route: list[JsonObject]) -> dict[str, int]:
    """Count how often each decision was taken, including a route; leaving a loop resets its count."""
    visits = dict(before)
    for record in route:
        if isinstance(decision := record.get("decision"), str):
            visits[decision] = 0 if record.get("leaves_loop") else visits.get(decision, 0) + 1
    return visits


def _select_facts(flow: Workflow, step: Step | None, facts: Facts, route: list[JsonObject]) -> Facts:
    """Return the facts for this step, with the rounds of only those loops that contain it."""
    names = {name for each in flow.steps for name in each.rounds}
    if step is None or not names:
        return facts
    rounds = data.number_rounds(flow, step, _count_all_visits(facts, route))
    other_data = {name: value for name, value in facts.data.items() if name not in names}
    return replace(facts, data={**other_data, **rounds})


def _find_first_branch(
    edges: list[Edge], facts: Facts, values: JsonObject, errors: dict[str, str]
) -> Edge | None:
    """Return the first edge whose condition matches; add the values and errors to `values` and `errors`."""
    for edge in edges:
        if edge.condition is None:
            continue
        verdict = judge_condition(edge.condition, facts)
        values.update(verdict.values)
        if reason := _unjudged_reason(verdict):
            errors[condition.render_condition(edge.condition)] = reason
        if verdict.taken:
            return edge
    return None


def _unjudged_reason(verdict: condition.ConditionVerdict) -> str:
    """Why a condition could not be evaluated; empty if it could.

    A missing bare name in an object condition counts as null, so that alone is not an error.
    """
    if verdict.error:
        return verdict.error
    saw_nothing = verdict.missing and not verdict.values
    return f"missing: {', '.join(verdict.missing)}" if saw_nothing and not verdict.taken else ""


def _find_suggested_branch(flow: Workflow, edges: list[Edge], name: str | None) -> Edge | None:
    """Return the edge to the step with this id or name, ignoring case."""
    wanted = (name or "").strip().casefold()
    for edge in edges if wanted else ():
        step = flow.find_step(edge.target)
        if step is not None and wanted in (step.id.casefold(), step.name.casefold()):
            return edge
    return None


def _add_values(told: JsonObject, values: JsonObject, errors: dict[str, str]) -> JsonObject:
    return {**told, **({"values": values} if values else {}), **({"errors": errors} if errors else {})}


def _describe_no_branch(step_id: str, values: JsonObject, errors: dict[str, str]) -> str:
    values_text = ", ".join(f"{name} = {value!r}" for name, value in values.items()) or "none"
    why = f"; {'; '.join(errors.values())}" if errors else ""
    return f"decision {step_id!r}: no branch matches and there is no default; values: {values_text}{why}"
