"""What people and the system ask of a job, as events of the state machine."""

from __future__ import annotations

from typing import Any

from logist.core import review
from logist.core.machine import advice, kinds, routing
from logist.core.machine.event import ANY_JOB, Action, Event, Who
from logist.core.machine.machine import next_place
from logist.core.machine.routing import Facts, Routed
from logist.core.machine.rules import TODAY, Rules
from logist.core.model import (
    HALTED,
    EffectiveSpec,
    JsonObject,
    Kind,
    Place,
    State,
    Status,
    Step,
    StepType,
    StuckKind,
    Workflow,
)
from logist.core.template import data

GATHERED = ("reached", "share", "conflict")


def decide(
    kind: Kind,
    here: Place | None,
    command: JsonObject,
    spec: EffectiveSpec,
    back_to: Place | None = None,
    routed: Routed | None = None,
    *,
    sent_back: bool = False,
    job: str = ANY_JOB,
) -> Place:
    """Where `command`, an interaction of `kind` that no agent made, leads.

    `command` holds what the interaction records: draft, limit, review, step, doubt, to, note; of `role`, who
    takes over from whom, which moves the job nowhere; of `approve`, whether it overrides a review, and who
    carries out the plan that it approves; of `spawn` and `collect`, the children and what was
    gathered. `back_to` is the place before interaction `to` of a restep; `routed` is where the workflow leads,
    if there is one (see `routed`); `sent_back` says that the last word on the work is a review that was against it. `job` is
    the id for the commands that a refusal names. Raises Refused, UsageError.
    """
    if kind in kinds.NOT_JUDGED:
        assert here is not None
        return here
    limit = str(command.get("limit"))
    event = Event(
        who=Who.SYSTEM if kind in kinds.BY_SYSTEM else Who.STEWARD,
        action=Action.OVERRIDE if overrides(kind, command) else kinds.ACTIONS[kind],
        role=str(command.get("to" if kind is Kind.ROLE else "role", "")),
        reason=str(command.get("note") or command.get("fault") or command.get("lack") or ""),
        draft=bool(command.get("draft")),
        limit=Status(limit) if limit in HALTED else None,
        to_review=bool(command.get("review")),
        to_step=command.get("step"),
        doubt=command.get("doubt"),
        back_to=back_to,
        onward=routed.onward if routed else None,
        carried_out=bool(command.get("carried_out_by")),
        sent_back=sent_back,
        children=len(command.get("children") or ()),
        fault=str(command.get("fault") or ""),
        gathered=command["gathered"] if command.get("gathered") in GATHERED else "reached",
        fits=not command.get("conflicts"),
        job=job,
    )
    return next_place(here, event, spec)


def next_command(state: State, job: str, *, running: bool = False) -> str:
    """The command that answers the state that `job` is in; `running`: an agent is at work on it."""
    return advice.answer(state.model_dump(mode="json"), job, running=running)


def overrides(kind: Kind, command: JsonObject) -> bool:
    """Whether a steward accepts what a review has sent back, or has not judged."""
    return kind is Kind.APPROVE and bool(command.get("override"))


def sent_back(state: State | None) -> bool:
    """Whether the job stands where the last review sent it back to."""
    return state is not None and state.place.attempts > 0 and review.sent_back(state)


def routed(
    kind: Kind, state: State | None, command: JsonObject, spec: EffectiveSpec, rules: Rules = TODAY
) -> Routed | None:
    """Where the workflow leads after `command`; None where there is no workflow, or it is not asked."""
    flow = spec.workflow
    if flow is None:
        return None
    if kind in kinds.STARTS:
        return routing.enter(flow, flow.start, Facts(data.of(spec, None), rules=rules))
    if state is None:
        return None
    if kind is Kind.RESUBMIT:
        return _put(flow, state, command, spec, rules)
    if overrides(kind, command) or (kind is Kind.APPROVE and state.place.awaiting in ("review", "manual")):
        return _after(flow, state, spec, rules, given(state, command))
    nothing_to_give = kind is Kind.SPAWN and not command.get("children") and not command.get("fault")
    if nothing_to_give or (kind is Kind.COLLECT and command.get("gathered") == "reached"):
        results = gathered(command)
        output = results[0] if command.get("single") and results else results
        return _after(flow, state, spec, rules, output, results, gathered_items(command))
    return None


def given(state: State, command: JsonObject) -> Any:
    """The output that a steward gives with an approval; that of the step stands where there is none."""
    if "output" in command:
        return command["output"]
    return None if state.place.awaiting == "manual" else data.UNCHANGED


def gathered(command: JsonObject) -> list[Any]:
    """What the children that succeeded, and whose work is not left out, gave, in the order of the items."""
    return [child.get("output") for child in fitting(command)]


def gathered_items(command: JsonObject) -> list[JsonObject] | None:
    """The item and the index of each of these results; None where a collect of an earlier version has none."""
    children = fitting(command)
    if not all("index" in child for child in children):
        return None
    return [{"item": child.get("item"), "index": child["index"]} for child in children]


def fitting(command: JsonObject) -> list[JsonObject]:
    """The children that succeeded, and whose work is not left out, as a collect records them."""
    children, left_out = command.get("children") or [], command.get("left_out") or {}
    good = (child for child in children if child.get("status") == Status.SUCCESS)
    return [child for child in good if child.get("id") not in left_out]


def share_wanted(flow: Workflow | None, step: Step) -> float:
    """Percent of the children that have to succeed: the step says so, or the join that follows it."""
    if flow is None or step.step_type is StepType.SUBFLOW:
        return 100.0
    following = [flow.step(edge.target) for edge in flow.leaving(step.id)]
    joins = [each for each in following if each is not None and each.step_type is StepType.JOIN]
    return min(each.min_success_percent for each in (step, *joins))


def _put(
    flow: Workflow, state: State, command: JsonObject, spec: EffectiveSpec, rules: Rules
) -> Routed | None:
    """Where a resubmit puts the job: to the step that got stuck, or to the one it names."""
    if command.get("review"):
        return None
    lost = state.place.stuck is not None and state.place.stuck.kind is StuckKind.NO_BRANCH
    step_id = command.get("step") or state.step
    if flow.step(step_id) is None:
        step_id = flow.start if lost else step_id
    return routing.enter(flow, step_id, Facts(data.of(spec, state), state.visits or {}, rules=rules))


def _after(
    flow: Workflow,
    state: State,
    spec: EffectiveSpec,
    rules: Rules,
    output: Any,
    results: list[Any] | None = None,
    items: list[JsonObject] | None = None,
) -> Routed:
    found = data.of(spec, state, state.step, output, results, items)
    return routing.after(flow, state.step, Facts(found, state.visits or {}, state.suggested, rules))
