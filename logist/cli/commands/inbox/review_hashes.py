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
    from logist.jobs.base.plain_project import PlainProject
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.steward.inbox import InboxItem


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
            review_hash = _find_plainly(plain_project, item)
            if review_hash is None:
                review_hash = _find_with_project(environment, jobs_dir, item, projects)
        except LogistError:  # the job or its project can't be read: the list of jobs stays useful
            review_hash = None
        hashes[item.jobs_dir, item.job] = review_hash
    return hashes


def _find_plainly(project: PlainProject | None, item: InboxItem) -> str | None:
    """Return the review hash of a job of this project, if neither its settings nor the job need pydantic."""
    if project is None or item.project is not None:
        return None
    job = project.open_job(item.job)
    state = read_settled_state(job)
    return None if state is None else find_review_hash(project, job, state)


def _find_with_project(
    environment: Environment, jobs_dir: str | None, item: InboxItem, projects: dict[str, ProjectContext]
) -> str | None:
    from logist.cli.commands.inbox.one_by_one import open_item_project
    from logist.jobs.base.session import load_session

    if item.jobs_dir not in projects:
        projects[item.jobs_dir] = open_item_project(environment, jobs_dir, item)
    project = projects[item.jobs_dir]
    job = project.open_job(item.job)
    return find_review_hash(project, job, load_session(project, job).state)
