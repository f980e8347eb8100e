"""Turns the commands of people and of the system into events of the state machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from logist.core import review
from logist.core.machine import advice, kinds, machine, routing
from logist.core.machine.actions import Action, Who
from logist.core.machine.event import ANY_JOB, Event
from logist.core.machine.rules import TODAY, Rule, Rules
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
from logist.core.model.commands import (
    ApproveCommand,
    CollectCommand,
    CreateCommand,
    EndCommand,
    GatheredChild,
    HaltCommand,
    MergeCommand,
    NoteCommand,
    RecordedCommand,
    RerunCommand,
    RestepCommand,
    ResubmitCommand,
    RoleCommand,
    SpawnCommand,
    UpdateCommand,
)
from logist.core.template import data


def apply_command(
    kind: Kind,
    here: Place | None,
    command: RecordedCommand,
    spec: EffectiveSpec,
    back_to: Place | None = None,
    routed: routing.Routed | None = None,
    *,
    sent_back: bool = False,
    job: str = ANY_JOB,
) -> Place:
    """Return the place to which `command` leads, for an interaction of `kind` by a person or the system.

    `command` contains what the interaction records: draft, limit, review, step, doubt, to, note; for `role`,
    the old and the new role (the job does not move); for `approve`, whether it overrides a review, and
    which role carries out the approved plan; for `spawn` and `collect`, the children and their results.
    `back_to` is the place before interaction `to` of a restep; `routed` is where the workflow leads, if there
    is one (see `route_command`); `sent_back`: the last review rejected the work. `job` is the id for the
    commands in error messages.

    Raises Refused, UsageError.
    """
    if kind in kinds.NOT_JUDGED:
        assert here is not None
        return here
    event = Event(
        who=Who.SYSTEM if kind in kinds.BY_SYSTEM else Who.STEWARD,
        action=Action.OVERRIDE if is_override(command) else kinds.ACTIONS[kind],
        back_to=back_to,
        onward=routed.onward if routed else None,
        sent_back=sent_back,
        job=job,
    )
    return machine.next_place(here, _add_facts(event, command), spec)


def _add_facts(event: Event, command: RecordedCommand) -> Event:
    """Return the event with the facts of the command that the guards need."""
    match command:
        case CreateCommand():
            return replace(event, draft=bool(command.draft))
        case RoleCommand():
            return replace(event, role=command.to or "")
        case ApproveCommand():
            return replace(event, reason=command.note or "", carried_out=bool(command.carried_out_by))
        case ResubmitCommand():
            event = replace(event, to_review=bool(command.review), to_step=command.step, doubt=command.doubt)
            return replace(event, reason=command.note or "")
        case NoteCommand() | EndCommand() | RestepCommand() | RerunCommand():
            return replace(event, reason=command.note or "")
        case HaltCommand():
            return replace(event, limit=Status(command.limit) if command.limit in HALTED else None)
        case SpawnCommand():
            fault = command.fault or ""
            return replace(event, children=len(command.children), fault=fault, reason=fault)
        case CollectCommand():
            return replace(event, gathered=command.gathered or "reached", reason=command.lack or "")
        case MergeCommand() | UpdateCommand():
            return _add_merge_facts(event, command)
    return event


def _add_merge_facts(event: Event, command: MergeCommand | UpdateCommand) -> Event:
    lack = command.lack if isinstance(command, MergeCommand) else None
    return replace(event, fits=not command.conflicts, reason=lack or "")


def next_command(state: State, job: str, *, running: bool = False) -> str:
    """Return the next command for `job` in this state; `running`: an agent works on it."""
    return advice.advise_next_command(state.model_dump(mode="json"), job, running=running)


def is_override(command: RecordedCommand) -> bool:
    """Whether a steward accepts work that a review has sent back or has not reviewed yet."""
    return isinstance(command, ApproveCommand) and bool(command.override)


def is_sent_back(state: State | None) -> bool:
    """Whether the current place of the job is the result of a review that sent the work back."""
    return state is not None and state.place.attempts > 0 and review.has_rejected_work(state)


def route_command(
    kind: Kind, state: State | None, command: RecordedCommand, spec: EffectiveSpec, rules: Rules = TODAY
) -> routing.Routed | None:
    """Return where the workflow leads after `command`.

    None without a workflow, or if the command doesn't move along it.
    """
    flow = spec.workflow
    if flow is None:
        return None
    if kind in kinds.STARTS:
        return routing.enter_step(
            flow, flow.start, routing.Facts(data.build_step_data(spec, None), rules=rules)
        )
    if state is None:
        return None
    match command:
        case ResubmitCommand():
            return _route_resubmit(flow, state, command, spec, rules)
        case ApproveCommand() if is_override(command) or state.place.awaiting in ("review", "manual"):
            return _route_after_step(flow, state, spec, rules, find_approved_output(state, command))
        case SpawnCommand() if gives_nothing(command):
            return _route_after_step(flow, state, spec, rules, [], [], [])
        case CollectCommand() if command.gathered == "reached":
            results = list_gathered_outputs(command)
            output = results[0] if command.single and results else results
            return _route_after_step(flow, state, spec, rules, output, results, list_gathered_items(command))
    return None


def find_approved_output(state: State, command: ApproveCommand) -> Any:
    """Return the output that a steward supplies with an approval, or else the unchanged output of the step."""
    if command.gives_output:
        return command.output
    return None if state.place.awaiting == "manual" else data.UNCHANGED


def gives_nothing(command: SpawnCommand) -> bool:
    """Whether the step needs no child jobs, so that it is done."""
    return not command.children and not command.fault


def list_gathered_outputs(command: CollectCommand) -> list[Any]:
    """List the outputs of the children that succeeded and whose work is included, in the order of the items."""
    return [child.output for child in list_gathered_children(command)]


def list_gathered_items(command: CollectCommand) -> list[JsonObject] | None:
    """List the item and the index of each of these outputs; None for a collect of an earlier version."""
    children = list_gathered_children(command)
    if any(child.index is None for child in children):
        return None
    return [{"item": child.item, "index": child.index} for child in children]


def list_gathered_children(command: CollectCommand) -> list[GatheredChild]:
    """List the children that succeeded and whose work is included, as a collect records them."""
    left_out = command.left_out or {}
    return [
        child for child in command.children if child.status == Status.SUCCESS and child.id not in left_out
    ]


def required_success_percent(flow: Workflow | None, step: Step) -> float:
    """Return the percentage of children that must succeed, as set by the step or the join after it."""
    if flow is None or step.step_type is StepType.SUBFLOW:
        return 100.0
    next_steps = [flow.find_step(edge.target) for edge in flow.find_edges_from(step.id)]
    joins = [each for each in next_steps if each is not None and each.step_type is StepType.JOIN]
    return min(each.min_success_percent for each in (step, *joins))


def _route_resubmit(
    flow: Workflow, state: State, command: ResubmitCommand, spec: EffectiveSpec, rules: Rules
) -> routing.Routed | None:
    """Return where a resubmit leads: to the step that got stuck, or to the step that it names."""
    if command.review:
        return None
    has_no_branch = state.place.stuck is not None and state.place.stuck.kind is StuckKind.NO_BRANCH
    step_id = command.step or state.step
    if flow.find_step(step_id) is None:
        step_id = flow.start if has_no_branch else step_id
    build_data = data.build_step_data if Rule.SAME_STEP_DATA in rules else data.build_data_after_step
    step_data = build_data(spec, state, step_id)
    return routing.enter_step(flow, step_id, routing.Facts(step_data, state.visits or {}, rules=rules))


def _route_after_step(
    flow: Workflow,
    state: State,
    spec: EffectiveSpec,
    rules: Rules,
    output: Any,
    results: list[Any] | None = None,
    items: list[JsonObject] | None = None,
) -> routing.Routed:
    step_data = data.build_data_after_step(spec, state, state.step, output, results, items)
    return routing.route_after_step(
        flow, state.step, routing.Facts(step_data, state.visits or {}, state.suggested, rules)
    )
