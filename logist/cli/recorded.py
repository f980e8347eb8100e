"""Finds the recorded jobs for a command: by paths, or all jobs of the project."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from logist.cli.current_job import get_current_directory
from logist.config.environment import Environment
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.jobs.archive.recorded_jobs import Archive


def list_recorded(environment: Environment, paths: Sequence[str], jobs_dir: str | None) -> list[Archive]:
    """Return the histories without reading them. Raises UsageError if there are none."""
    from logist.jobs.archive.recorded_jobs import Archive, find_histories
    from logist.store import JobDir, list_jobs

    if paths and jobs_dir:
        raise UsageError("can't use paths and --jobs-dir together", where="--jobs-dir")
    jobs = environment.jobs_dir(jobs_dir, Path(get_current_directory()))
    if paths:
        try:
            return list(find_histories(paths))
        except UsageError as error:
            matching = [name for name in paths if not os.path.lexists(name) and name in list_jobs(jobs)]
            if not matching:
                raise
            fix = (
                f"for the job of that id, use {os.path.relpath(jobs / matching[0], get_current_directory())}"
            )
            raise UsageError(f"history not found: {matching[0]}", where=error.where, fix=fix) from None
    ids = list(list_jobs(jobs))
    if not ids:
        fix = "pass a job directory, a jobHistory.json, or a folder that contains them"
        raise UsageError("no recorded jobs found", where=str(jobs), fix=fix)
    return [Archive.from_job(JobDir.open(jobs, job_id)) for job_id in ids]


def find_recorded_job(environment: Environment, name: str, jobs_dir: str | None) -> Archive:
    """Return the history of the job with that id, else the history at that path.

    Raises UsageError if there is neither.
    """
    from logist.jobs.archive.recorded_jobs import find_history

    job = _find_job(environment.jobs_dir(jobs_dir, Path(get_current_directory())), name)
    if job is not None:
        return job
    if not os.path.lexists(name):
        fix = "run 'logist job list' to see the jobs; a path must be a job directory, a fixture or a history file"
        raise UsageError(f"no job or file named {name!r}", fix=fix)
    return find_history(Path(name))


def find_recorded_jobs(environment: Environment, names: Sequence[str], jobs_dir: str | None) -> list[Archive]:
    """Return the histories for ids of jobs and for paths, each once; without names, those of all jobs of the
    project.
    """
    from logist.jobs.archive.recorded_jobs import find_histories

    if not names:
        return list_recorded(environment, (), jobs_dir)
    jobs = environment.jobs_dir(jobs_dir, Path(get_current_directory()))
    archives: dict[str, Archive] = {}
    for name in names:
        job = _find_job(jobs, name)
        for archive in (job,) if job is not None else find_histories([name]):
            archives.setdefault(os.path.realpath(archive.path), archive)
    return list(archives.values())


def _find_job(jobs: Path, name: str) -> Archive | None:
    from logist.core.text.ids import is_job_id
    from logist.jobs.archive.recorded_jobs import Archive
    from logist.store import JobDir
    from logist.store.listing import find_job_id

    job_id = name if os.path.lexists(name) else find_job_id(str(jobs), name)  # a file before a part of an id
    if not is_job_id(job_id) or not os.path.isdir(jobs / job_id):
        return None
    return Archive.from_job(JobDir.open(jobs, job_id))
