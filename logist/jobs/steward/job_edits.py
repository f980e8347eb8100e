"""Changing what was asked: job.yaml, its limits, its rank."""

from __future__ import annotations

from logist.core.machine.steward import next_command
from logist.core.model import TERMINAL, Status
from logist.core.model.commands import SpecCommand
from logist.errors import Refused
from logist.jobs.base import specs
from logist.jobs.base.project import Project
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import changing
from logist.jobs.turn import answer_recording

DECIDES_MERGE = frozenset({"review_mode", "auto_merge", "approval", "review"})
"""Fields of job.yaml that decide whether the work is merged without a person."""


def configure(project: Project, job_id: str, changes: dict[tuple[str, ...], object | None]) -> CommandResult:
    """Sets fields of job.yaml (None removes one), and records the new spec in the history.

    Raises InvalidFile when the result does not validate; then nothing is written.
    """
    with changing(project, job_id, "job config") as session:
        settled = answer_recording.settle_first(session)
        if session.state.status in TERMINAL:
            fix = next_command(session.state, job_id)
            raise Refused(f"the job has ended: {session.state.status}", fix=fix)
        asked = specs.edit(project, session.job, changes, draft=session.state.status is Status.DRAFT)
        spec, changed = session.changed_spec(SpecCommand(changed=[".".join(path) for path in changes]))
        recorded = session.record(*changed) if changed else []
        decides_merge = any(path[0] in DECIDES_MERGE for path in changes)
        warned = specs.merge_warnings(project, asked, session.state, spec.workflow) if decides_merge else ()
        if ("files",) in changes:
            warned += specs.file_warnings(project, project.workspace(session.job), spec.files)
        return CommandResult(job_id, session.state, (*settled, *recorded), warnings=warned)


def rank(project: Project, job_id: str, value: int) -> CommandResult:
    """The job's place in the queue; lower runs earlier."""
    return configure(project, job_id, {("rank",): value})
