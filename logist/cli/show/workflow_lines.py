"""Workflow part of the output of `job show` and `job status`."""

from __future__ import annotations

from typing import Any

from logist.core.drawing import Mark
from logist.core.model import END, Edge, Status, Step, StepType, StuckKind
from logist.jobs import workflow_progress
from logist.jobs.followed_workflow import Followed, format_condition, get_kind, suggest_command
from logist.jobs.workflow_progress import SeenChild

_GIVEN_AWAY = (StepType.FOREACH, StepType.SUBFLOW)
NAMED = 20
"""Maximum number of steps listed in the meaning of a command."""


def build_workflow_data(found: Followed) -> dict[str, Any]:
    """Return the workflow and its progress as JSON."""
    request, marks = found.manual_request, found.marks
    return {
        "name": found.flow.name,
        "description": found.flow.description,
        "input": found.told.spec.input,
        "step": _build_step_row(found),
        "steps": [_build_mark_row(step, marks.get(step.id)) for step in found.flow.steps],
        "children": [_build_child_row(child, found) for child in found.children],
        "asked": None if request is None else {"prompt": request.prompt, "inputs": request.inputs},
        "onward": [_build_edge_row(edge) for edge in list_onward(found)],
        "commands": [{"command": command, "meaning": meaning} for command, meaning in list_commands(found)],
    }


def suggest_next_command(found: Followed, advised: str) -> str:
    """Return the command that continues the job; `advised` is the default for its status."""
    wanting = [below for child in found.children for below in child.waiting_for_steward]
    if found.state.status is not Status.WAITING or not found.children:
        return advised
    if any(child.is_open for child in found.children):
        return f"logist job run --job {found.job_id}"
    return suggest_command(wanting[0], found) if wanting else advised


def list_commands(found: Followed) -> list[tuple[str, str]]:
    """Return the commands that a person may run here, and what each means."""
    job, here = found.job_id, found.state.step
    if found.state.place.awaiting == "manual":
        return [
            (
                f"logist job approve --job {job} --output '{{...}}'",
                "the step is done; later steps read the output",
            ),
            (f'logist job reject --job {job} --note "..."', "the step can't be done: the job becomes STUCK"),
        ]
    again = f"logist job resubmit --job {job}"
    if found.stuck_kind is StuckKind.NO_BRANCH:
        return [
            (f'{again} --note "..."', f"run {here} again"),
            (f"{again} --to STEP", f"continue at a step: {_format_targets(found)}"),
        ]
    if found.stuck_kind in (StuckKind.SHARE, StuckKind.CONFLICT):
        return [
            (again, "check the child jobs again, after you have resolved them"),
            (f"{again} --force", "continue with the finished child jobs, without the rest"),
            (f"{again} --to {here}", "run the step again with new child jobs"),
        ]
    if found.stuck_kind is StuckKind.AGENT and found.step is not None and found.step.step_type in _GIVEN_AWAY:
        source = found.state.output_of
        return [
            (again, "create the child jobs again, after you have fixed the cause"),
            *(
                [(f'{again} --to {source} --note "..."', f"run {source} again, which produced the items")]
                if source
                else []
            ),
        ]
    return []


def _format_targets(found: Followed) -> str:
    """Return the targets of the decision without a matching branch, or all steps."""
    lost = workflow_progress.find_decision_without_branch(found.state, found.told.way)
    ways = [edge.target for edge in found.flow.find_edges_from(lost)] if lost else []
    ids = [target for target in ways if target != END] or [step.id for step in found.flow.steps]
    return ", ".join(dict.fromkeys(ids[:NAMED]))


def list_onward(found: Followed) -> list[Edge]:
    """Return the branches from which the output of a manual step selects one."""
    return (
        workflow_progress.list_next_branches(found.flow, found.state.step)
        if found.state.place.awaiting == "manual"
        else []
    )


def _build_edge_row(edge: Edge) -> dict[str, Any]:
    return {"condition": format_condition(edge), "target": edge.target or None}


def _build_step_row(found: Followed) -> dict[str, Any] | None:
    step = found.step
    if step is None:
        return None
    place = workflow_progress.find_step_number(found.flow, step.id)
    return {
        "id": step.id,
        "name": step.name,
        "kind": get_kind(step),
        "number": place,
        "of": len(found.flow.steps),
    }


def _build_mark_row(step: Step, mark: Mark | None) -> dict[str, Any]:
    children = [
        {"id": child.name, "state": child.state, "text": child.text}
        for child in (mark.children if mark else ())
    ]
    return {
        "id": step.id,
        "name": step.name,
        "kind": get_kind(step),
        "state": mark.state if mark else None,
        "text": mark.text if mark else "",
        "children": children,
    }


def _build_child_row(child: SeenChild, found: Followed) -> dict[str, Any]:
    return {
        "id": child.id,
        "name": child.name or None,
        "status": child.status,
        "awaiting": child.awaiting,
        "stuck_kind": child.stuck_kind,
        "reason": child.reason,
        "next_command": suggest_command(child, found),
        "children": [_build_child_row(below, found) for below in child.children],
    }
