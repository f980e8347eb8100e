"""Changing what was asked: job.yaml, its limits, its rank."""

from __future__ import annotations

from logist.core.machine import next_command
from logist.core.model import TERMINAL, Status
from logist.errors import Refused
from logist.jobs import settling, specs
from logist.jobs.project import Project
from logist.jobs.result import Result
from logist.jobs.session import changing


def configure(project: Project, job_id: str, changes: dict[tuple[str, ...], object | None]) -> Result:
    """Sets fields of job.yaml (None removes one), and records the new spec in the history.

    Raises InvalidFile when the result does not validate; then nothing is written.
    """
    with changing(project, job_id, "job config") as session:
        settled = settling.settle_first(session)
        if session.state.status in TERMINAL:
            fix = next_command(session.state.place(), job_id)
            raise Refused(f"the job has ended: {session.state.status}", fix=fix)
        specs.edit(project, session.job, changes, draft=session.state.status is Status.DRAFT)
        _, changed = session.changed_spec({"changed": [".".join(path) for path in changes]})
        recorded = session.record(*changed) if changed else []
        return Result(job_id, session.state, (*settled, *recorded))


def rank(project: Project, job_id: str, value: int) -> Result:
    """The job's place in the queue; lower runs earlier."""
    return configure(project, job_id, {("rank",): value})
