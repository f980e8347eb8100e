"""Workflow part of the output of `job show` and `job status`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from logist.cli.show import glance
from logist.core.drawing import Mark
from logist.core.machine.job_row import RUNNING, build_job_row
from logist.core.model import (
    END,
    MAX_DEPTH,
    Edge,
    State,
    Status,
    Step,
    StepType,
    StuckKind,
    Workflow,
)
from logist.errors import LogistError
from logist.jobs import workflow_progress
from logist.jobs.workflow_progress import Asked, ProgressRecord, SeenChild
from logist.quick_dataclass import dataclass
from logist.store import JobDir
from logist.store.settled_state import load_settled_state

STORED_ONLY = ("head", "checksum")
_GIVEN_AWAY = (StepType.FOREACH, StepType.SUBFLOW)
NAMED = 20
"""Maximum number of steps listed in the meaning of a command."""


@dataclass(frozen=True)
class Followed:
    """A job's workflow and its progress."""

    job_id: str
    flow: Workflow
    state: State
    told: ProgressRecord
    children: tuple[SeenChild, ...]
    running: bool = False

    @property
    def step(self) -> Step | None:
        return self.flow.find_step(self.state.step)

    @property
    def stuck_kind(self) -> StuckKind | None:
        return self.state.place.stuck.kind if self.state.place.stuck else None

    @property
    def marks(self) -> dict[str, Mark]:
        return workflow_progress.mark_steps(
            self.flow, self.state, self.told.way, self.children, running=self.running
        )

    @property
    def manual_request(self) -> Asked | None:
        """The task for the person who does the step."""
        return (
            workflow_progress.describe_manual_step(self.told.spec, self.state)
            if self.state.place.awaiting == "manual"
            else None
        )


def read_followed(job: JobDir, state: dict[str, Any], *, running: bool = False) -> Followed | None:
    """Return the progress of a job's workflow; None for the built-in workflow. `state` is its state.json.

    Raises Damaged for an unreadable history, ValueError for one that needs a newer Logist.
    """
    if state.get("workflow") is None:
        return None
    progress = workflow_progress.read_progress(job.read_entries())
    if progress is None or progress.spec.workflow is None:
        return None
    own = State.model_validate({name: value for name, value in state.items() if name not in STORED_ONLY})
    children = tuple(
        replace(child, name=progress.names.get(child.id, ""))
        for child in _read_children(str(job.path.parent), own.children, MAX_DEPTH)
    )
    return Followed(job.id, progress.spec.workflow, own, progress, children, running)


def _read_children(jobs_dir: str, ids: Iterable[str], depth: int) -> tuple[SeenChild, ...]:
    return tuple(_read_child(jobs_dir, job_id, depth) for job_id in ids)


def _read_child(jobs_dir: str, job_id: str, depth: int) -> SeenChild:
    folder = os.path.join(jobs_dir, job_id)
    if not os.path.exists(folder):
        return SeenChild(job_id, workflow_progress.NOT_MADE)
    try:
        state = load_settled_state(folder) or _rebuild_child_state(jobs_dir, job_id)
        row = build_job_row(job_id, state, running=is_running(JobDir(Path(folder), job_id), state["status"]))
    except (LogistError, AttributeError, KeyError, TypeError, ValueError):
        return SeenChild(job_id, glance.UNKNOWN, reason="can't read its state")
    below = (
        _read_children(jobs_dir, state.get("children") or (), depth - 1)
        if depth and row["status"] == "WAITING"
        else ()
    )
    return SeenChild(
        job_id,
        row["status"],
        row["awaiting"],
        row["stuck_kind"],
        str(state.get("reason") or ""),
        below,
        row["next_command"],
    )


def _rebuild_child_state(jobs_dir: str, job_id: str) -> dict[str, Any]:
    from logist.cli.rebuilt_state import rebuild_state

    return rebuild_state(jobs_dir, job_id)[0]


def is_running(job: JobDir, status: str) -> bool:
    """True if an agent is working on the job."""
    sent = status in RUNNING and os.path.exists(job.inflight / "1.request")
    return sent and job.find_lock_holder() is not None


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


def format_condition(edge: Edge) -> str:
    """Return the condition of a branch, as written in the workflow."""
    if edge.condition is None:
        return edge.label or "default"
    return (
        edge.condition if isinstance(edge.condition, str) else json.dumps(edge.condition, ensure_ascii=False)
    )


def get_kind(step: Step) -> str:
    """Return the kind of a step; a task that a person does is `manual`."""
    return "manual" if step.is_manual else str(step.step_type)


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


def suggest_command(child: SeenChild, found: Followed) -> str:
    """Return the command for the current status of a child job."""
    if child.status == workflow_progress.NOT_MADE:
        return f"logist job step --job {found.job_id}"
    if child.status == glance.UNKNOWN:
        return f"logist job verify --job {child.id}"
    return child.next_command
