"""The fields of the state that only jobs with a workflow have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logist.core.machine import routing, rules, steward
from logist.core.model.command_kinds import is_approve, is_ask, is_booking, is_collect, is_resubmit, is_spawn
from logist.core.model.plain import make_like
from logist.core.model.words import ExitAction, Kind, Phase, Status

if TYPE_CHECKING:
    from logist.core.model import Doer, Interaction, Last, Spawned, State
    from logist.core.model.commands import (
        ApproveCommand,
        AskCommand,
        CollectCommand,
        RecordedCommand,
        SpawnCommand,
    )

JOB = ""
"""The key in `State.doers` for steps without a role of their own."""

SWITCH = "switch"
"""The source of a role that the steward switched to."""

ASSIGNEE = "assignee"
"""The value of `Doer.source` if a manual step names a person instead of a role."""

LONGEST_SUMMARY = 200
"""The number of characters of a step's summary that later steps see."""


def apply_workflow(before: State, after: State, entry: Interaction, command: RecordedCommand) -> State:
    """Return `after`, the state after an entry, with updated workflow fields."""
    changes: dict[str, Any] = {**_apply_visits(after, entry)}
    if after.asked > before.asked:
        step_id, counts = entry.step or before.step, before.asked_at or {}
        changes["asked_at"] = {**counts, step_id: counts.get(step_id, 0) + 1}
    if is_ask(command):
        changes |= _apply_answer(after, entry, command)
    elif is_approve(command) and (before.place.awaiting == "manual" or "output" in command.model_fields_set):
        changes |= _apply_approval(after, before, entry, command)
    elif is_resubmit(command):
        changes |= {"forced": command.force or None}
        changes |= {} if after.status is Status.WAITING else {"children": []}
    elif is_spawn(command):
        changes |= _apply_spawn(after, before, entry, command)
    elif is_collect(command):
        changes |= _apply_collect(after, before, entry, command)
    changes |= _apply_step_starts(before, after.model_copy(update=changes), entry, command)
    changes |= _keep_spawned_items(after.model_copy(update=changes))
    if after.step != before.step or entry.spec is not None or entry.kind is Kind.ROLE:
        changes |= _apply_doer(after)
    return after.model_copy(update=changes) if changes else after


def _keep_spawned_items(after: State) -> dict[str, Any]:
    """If a step spawns children again, its items still come from the step before it."""
    spawned = after.spawned
    if spawned is None or not after.place.spawns or not after.output_of == spawned.step == after.step:
        return {}
    return {"output_of": spawned.output_of}


def _apply_step_starts(
    before: State, after: State, entry: Interaction, command: RecordedCommand
) -> dict[str, Any]:
    """Remember what a step began with as soon as its own output changes that, until the workflow leads to it again."""
    starts, step = dict(before.step_starts or {}), before.step
    # In histories of earlier versions, a step that is done again has its own output as the last one.
    is_kept = rules.Rule.SAME_STEP_DATA in rules.find_recorded_rules(entry)
    if is_kept and step not in starts and _can_complete(command) and _has_output_changed(before, after):
        own_output = before.outputs.get(step)
        starts[step] = make_like(entry, "StepStart", output_of=before.output_of, own_output=own_output)
    if _is_led_to_step(before, after, entry, command):
        starts.pop(after.step, None)
    return {"step_starts": starts or None}


def _can_complete(command: RecordedCommand) -> bool:
    return is_ask(command) or is_approve(command) or is_spawn(command) or is_collect(command)


def _has_output_changed(before: State, after: State) -> bool:
    step = before.step
    return after.output_of != before.output_of or after.outputs.get(step) != before.outputs.get(step)


def _is_led_to_step(before: State, after: State, entry: Interaction, command: RecordedCommand) -> bool:
    """Whether the workflow leads to the beginning of a step, perhaps of the same one, which then has new data."""
    place = after.place
    if place.status is not Status.PENDING and place.awaiting != "manual":
        return False
    if is_resubmit(command):
        return bool(entry.route)  # without a decision, a person repeats the step
    if after.step != before.step:
        return True
    if is_ask(command) and entry.response.actions != [ExitAction.COMPLETED]:
        return False
    if is_approve(command) and command.carried_out_by:
        return False
    return _can_complete(command) and place.attempts == 0  # a review that sends work back counts an attempt


def _apply_visits(after: State, entry: Interaction) -> dict[str, Any]:
    has_decision = any(isinstance(told.get("decision"), str) for told in entry.route)
    return {"visits": routing.count_visits(after.visits or {}, entry.route)} if has_decision else {}


def _apply_answer(after: State, entry: Interaction, command: AskCommand) -> dict[str, Any]:
    """Return the changes by an answer. The output of a completed step becomes the last output, even if it is empty."""
    observed, actions = entry.observed, entry.response.actions
    if observed is None or observed.phase is not Phase.DOER or actions != [ExitAction.COMPLETED]:
        return {}
    suggestion = (entry.response.metadata or {}).get("suggested_next_stage")
    step = entry.step or after.step
    return {
        **_apply_output(after, step, entry.response.output),
        **_apply_supplied_results(command),
        **_apply_summary(after, step, entry.response.summary_for_supervisor),
        "unsure": command.unsure or None,
        "why_unsure": command.why_unsure,
        "suggested": suggestion if isinstance(suggestion, str) else None,
    }


def _apply_summary(after: State, step: str, summary: str) -> dict[str, Any]:
    """Add the summary of a completed step at the end of the summaries."""
    others = {name: said for name, said in (after.summaries or {}).items() if name != step}
    return {"summaries": {**others, step: summary[:LONGEST_SUMMARY]}}


def _apply_approval(
    after: State, before: State, entry: Interaction, command: ApproveCommand
) -> dict[str, Any]:
    """Return the changes by the output that a steward supplies with an approval."""
    output = command.output
    changes = {**_apply_output(after, before.step, output), **_apply_supplied_results(command)}
    if before.place.awaiting != "manual":
        last = before.last and before.last.model_copy(update={"output": output})
        return {**changes, "last": last}
    name, note = (entry.steward.name, entry.steward.note) if entry.steward else ("a steward", None)
    summary = note or f"done by {name}"
    return {
        **changes,
        **_apply_summary(after, before.step, summary),
        "last": _build_last(entry, name, summary, output),
    }


def _apply_supplied_results(command: AskCommand | ApproveCommand) -> dict[str, Any]:
    """Return the results that a steward supplied in place of child jobs, as the entry records them."""
    return {} if command.results is None else {"results": command.results, "result_items": None}


def _build_last(
    entry: Interaction,
    who: str,
    said: str,
    output: Any,
    evidence: Sequence[str] = (),
    missing: Sequence[str] = (),
) -> Last:
    """Build the answer that the next prompt quotes for a step that no agent of this job did."""
    last: Last = make_like(
        entry,
        "Last",
        sequence=entry.sequence,
        phase=Phase.DOER,
        role=who,
        action=ExitAction.COMPLETED,
        summary=said,
        evidence_files=list(evidence),
        missing=list(missing),
        output=output,
    )
    return last


def _apply_output(after: State, step: str, output: Any) -> dict[str, Any]:
    return {"outputs": {**after.outputs, step: output}, "output_of": step}


def _apply_spawn(after: State, before: State, entry: Interaction, command: SpawnCommand) -> dict[str, Any]:
    children = command.children
    if command.fault:
        return {"results": None, "result_items": None, "children": [], "spawned": None}
    spawned: Spawned = make_like(
        entry,
        "Spawned",
        sequence=entry.sequence,
        step=before.step,
        tag=command.tag,
        total=len(children),
        checkpoint=entry.checkpoint_after or "",
        output_of=before.output_of,
    )
    if not children:
        nothing: dict[str, Any] = {"results": [], "result_items": None, "children": []}
        return {**_apply_output(after, before.step, []), **nothing, "spawned": spawned}
    ids = [child.id for child in children]
    return {"children": ids, "spawned": spawned, "results": None, "result_items": None, "forced": None}


def _apply_collect(
    after: State, before: State, entry: Interaction, command: CollectCommand
) -> dict[str, Any]:
    if command.gathered != "reached":
        return {}
    results = steward.list_gathered_outputs(command)
    single = bool(command.single and results)
    output = results[0] if single else results
    children = command.children
    summary = f"{len(results)} of {len(children)} jobs succeeded"
    succeeded = steward.list_gathered_children(command)
    evidence = dict.fromkeys(path for child in succeeded for path in child.evidence_files)
    missing = dict.fromkeys(path for child in succeeded for path in child.missing or [])
    who = "one job" if len(children) == 1 else f"{len(children)} jobs"
    return {
        **_apply_output(after, before.step, output),
        **_apply_summary(after, before.step, summary),
        "last": _build_last(entry, who, summary, output if single else None, list(evidence), list(missing)),
        "artefacts": list(dict.fromkeys([*after.artefacts, *evidence])),
        "results": results,
        "result_items": steward.list_gathered_items(command),
        "children": [],
        "forced": None,
    }


def count_children_runs(command: RecordedCommand) -> int:
    """Return how many agent runs of the children this entry counts.

    A spawn without children counts as one run, so that the limit stops an endless loop of such steps.
    """
    if is_spawn(command):
        return int(not command.children)
    return (command.runs or 0) if is_booking(command) else 0


def find_step_role(doers: Mapping[str, Doer], step: str) -> Doer | None:
    """Return the role that a step names; None if it names none, or a person."""
    doer = doers.get(step)
    return None if doer is None or doer.source == ASSIGNEE else doer


def _apply_doer(after: State) -> dict[str, Any]:
    """Return who does the current step; a switch by the steward applies to all steps."""
    doers = after.doers or {}
    doer = find_step_role(doers, after.step) or doers.get(JOB)
    if doer is None or after.agent_role_source == SWITCH or after.status is Status.DRAFT:
        return {}
    return {
        "agent_role": doer.role,
        "agent_role_source": doer.source,
        "badge": doer.badge or "",
        "color": doer.color,
    }
