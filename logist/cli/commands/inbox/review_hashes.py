"""Finds the review hashes of the jobs in an inbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from logist.cli.context import open_plain_project
from logist.errors import LogistError
from logist.jobs.base.plain_reader import read_settled_state
from logist.jobs.steward.review_hash import find_review_hash

if TYPE_CHECKING:
    from logist.config.environment import Environment
    from logist.core.model import State
    from logist.jobs.base.plain_project import JobFiles, PlainProject
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.steward.inbox import InboxItem
    from logist.store import JobDir


def find_review_hashes(
    environment: Environment, jobs_dir: str | None, items: Sequence[InboxItem]
) -> dict[tuple[str, str], str | None]:
    """Return the review hash of each job that waits for approval, by directory and id; the others need none."""
    plain_project = open_plain_project(environment, jobs_dir)
    projects: dict[str, ProjectContext] = {}
    hashes: dict[tuple[str, str], str | None] = {}
    for item in items:
        if item.status != "APPROVAL_REQUIRED":
            continue
        try:
            project, job, state = _open_plainly(plain_project, item) or _open_with_project(
                environment, jobs_dir, item, projects
            )
            review_hash = find_review_hash(project, job, state)
        except LogistError:  # the job or its project can't be read: the list of jobs stays useful
            review_hash = None
        hashes[item.jobs_dir, item.job] = review_hash
    return hashes


def _open_plainly(project: PlainProject | None, item: InboxItem) -> tuple[JobFiles, JobDir, State] | None:
    """Open a job of this project; None if its settings or the state of the job need the models."""
    if project is None or item.project is not None:
        return None
    job = project.open_job(item.job)
    state = read_settled_state(job)
    return None if state is None else (project, job, state)


def _open_with_project(
    environment: Environment, jobs_dir: str | None, item: InboxItem, projects: dict[str, ProjectContext]
) -> tuple[JobFiles, JobDir, State]:
    from logist.cli.commands.inbox.one_by_one import open_item_project
    from logist.jobs.base.session import load_session

    if item.jobs_dir not in projects:
        projects[item.jobs_dir] = open_item_project(environment, jobs_dir, item)
    project = projects[item.jobs_dir]
    job = project.open_job(item.job)
    return project, job, load_session(project, job).state
