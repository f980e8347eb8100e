"""The progress of a job's workflow, as commands and the page show it. Writes nothing, and imports only what a listing
may load.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from logist.core.drawing import Mark
from logist.core.machine.job_row import RUNNING, build_job_row
from logist.core.model import MAX_DEPTH, Edge, State, Step, StuckKind, Workflow
from logist.errors import LogistError
from logist.jobs import workflow_progress
from logist.jobs.workflow_progress import Asked, ProgressRecord, SeenChild
from logist.quick_dataclass import dataclass
from logist.store import JobDir
from logist.store.settled_state import load_settled_state

STORED_ONLY = ("head", "logist", "checksum")
UNKNOWN = "?"
"""Status of a child whose state can't be read."""


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


def read_step_task(job: JobDir, state: State) -> str:
    """Return the task of the current step, with its placeholders filled; "" in the built-in workflow."""
    if state.workflow is None:
        return ""
    try:
        progress = workflow_progress.read_progress(job.read_entries())
    except ValueError:
        return ""  # a workflow of a newer Logist
    task = workflow_progress.describe_manual_step(progress.spec, state) if progress is not None else None
    return task.prompt if task is not None else ""


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
        return SeenChild(job_id, UNKNOWN, reason="can't read its state")
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
    from logist.jobs.base.stored_records import build_current_state, dump_state  # noqa: PLC0415 - few children need it

    job = JobDir.open(Path(jobs_dir), job_id)
    loaded = job.load()
    return dump_state(build_current_state(job, loaded), loaded.position)


def is_running(job: JobDir, status: str) -> bool:
    """True if an agent is working on the job."""
    sent = status in RUNNING and os.path.exists(job.inflight / "1.request")
    return sent and job.find_lock_holder() is not None


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


def suggest_command(child: SeenChild, found: Followed) -> str:
    """Return the command for the current status of a child job."""
    if child.status == workflow_progress.NOT_MADE:
        return f"logist job step --job {found.job_id}"
    if child.status == UNKNOWN:
        return f"logist job verify --job {child.id}"
    return child.next_command
