"""Changes job.yaml: the task, the limits, the rank."""

from __future__ import annotations

from logist.core.machine import limits
from logist.core.machine.steward import next_command
from logist.core.model import TERMINAL, EffectiveSpec, State, Status
from logist.core.model.commands import SpecCommand
from logist.errors import Refused
from logist.jobs.base import specs
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import open_session
from logist.jobs.steward import approved_work
from logist.jobs.turn import answer_recording

DECIDES_MERGE = frozenset({"review_mode", "auto_merge", "approval", "review"})
"""Fields of job.yaml that decide whether the work is merged without a person."""


def configure_job(
    project: ProjectContext,
    job_id: str,
    changes: dict[tuple[str, ...], object | None],
    *,
    revision: int | None = None,
) -> CommandResult:
    """Set fields of job.yaml (None removes one), and record the new spec in the history.

    `revision`: refuse if the job is not at this revision any more; checked under the lock.
    Raises InvalidFile when the result is not valid; then nothing is written.
    """
    with open_session(project, job_id, "job config") as session:
        settled = answer_recording.record_pending_first(session)
        approved_work.require_revision(session, revision)
        if session.state.status in TERMINAL:
            fix = next_command(session.state, job_id)
            raise Refused(f"can't change the job: it is {session.state.status}", fix=fix)
        job_spec = specs.edit_spec(project, session.job, changes, draft=session.state.status is Status.DRAFT)
        spec, changed = session.detect_spec_change(SpecCommand(changed=[".".join(path) for path in changes]))
        recorded = session.record(*changed) if changed else []
        decides_merge = any(path[0] in DECIDES_MERGE for path in changes)
        warnings = (
            specs.merge_warnings(project, job_spec, session.state, spec.workflow) if decides_merge else ()
        )
        if ("files",) in changes:
            warnings += specs.file_warnings(project, project.open_workspace(session.job), spec.files)
        if any(path[0] == "limits" for path in changes):
            warnings += _warn_reached_limit(spec, session.state)
        return CommandResult(job_id, session.state, (*settled, *recorded), warnings=warnings)


def _warn_reached_limit(spec: EffectiveSpec, state: State) -> tuple[str, ...]:
    """Warn if a limit is below what the job has used already."""
    halt = limits.find_reached_limit(spec, state.usage)
    return (f"{halt.reason}: the next step halts the job unless you raise the limit",) if halt else ()


def set_rank(
    project: ProjectContext, job_id: str, value: int, *, revision: int | None = None
) -> CommandResult:
    """Set the job's position in the queue; a lower rank runs earlier."""
    return configure_job(project, job_id, {("rank",): value}, revision=revision)
