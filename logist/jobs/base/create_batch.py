"""Creates many jobs that appear at the same time, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from logist.core.model import State
from logist.jobs.base import create, hooks, specs
from logist.jobs.base.create import FilledJob, PlannedJob
from logist.jobs.base.project import ProjectContext
from logist.quick_dataclass import dataclass
from logist.store import JobDir
from logist.workspace.checkpoint import kept_packs


@dataclass(frozen=True)
class CreatedJobs:
    """The jobs of a batch in their order, and warnings, each once."""

    states: dict[str, State]
    """By job id."""
    warnings: tuple[str, ...]
    """About the sources of the workspaces."""
    merge_warnings: tuple[str, ...]
    file_warnings: tuple[str, ...]
    """The `files` of the specs that no prompt can include."""


def create_jobs(
    project: ProjectContext, plans: Iterable[PlannedJob], on_filled: Callable[[], None] = lambda: None
) -> CreatedJobs:
    """Create all jobs of the plans; they become visible together, when the last one is complete and durable.

    `on_filled` is called after each job. If something fails, or the command is killed, none is created. Raises Refused if an
    id is taken.
    """
    states: dict[str, State] = {}
    warnings: dict[Path | None, tuple[str, ...]] = {}
    merge_warnings: dict[str, None] = {}
    file_warnings: list[str] = []
    last: FilledJob | None = None
    kept = create.find_kept_folder(project)
    create.ensure_home(project)
    with JobDir.create_batch(project.jobs_dir) as add_job:
        for plan in plans:
            job = add_job(plan.job_id)
            last = create.fill_job(project, job, plan, kept)
            # In the batch, because that of the project must not have packs before they are durable.
            kept = job.path.parent / kept_packs.FOLDER
            create.keep_packs(kept, job, last)
            states[plan.job_id] = last.state
            if plan.source not in warnings:
                warnings[plan.source] = create.warn_about_source(plan.source, last)
            merge_warnings |= dict.fromkeys(specs.merge_warnings(project, plan.spec, last.state, plan.flow))
            file_warnings += [f"{plan.job_id}: {text}" for text in last.file_warnings]
            on_filled()
    if last is not None:
        create.keep_packs(create.find_kept_folder(project), project.open_job(next(reversed(states))), last)
    for job_id, state in states.items():
        # Not held before the jobs appear, as for a single job: each takes an open file. So those that are not sent yet are
        # lost if the command is killed now. The jobs are in the inbox all the same.
        held = hooks.hold_notification(project, job_id, state, hooks.find_event(None, state))
        hooks.send_notifications(project, held)
    return CreatedJobs(
        states,
        tuple(text for texts in warnings.values() for text in texts),
        tuple(merge_warnings),
        tuple(file_warnings),
    )
