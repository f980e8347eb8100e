"""The recorded jobs that a command is about: by paths, or all of the project."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from logist.cli.options import here
from logist.config.environment import Environment
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.jobs.archives import Archive


def recorded(environment: Environment, paths: Sequence[str], jobs_dir: str | None) -> list[Archive]:
    """Where the histories lie; nothing of them is read. UsageError where there is none."""
    from logist.jobs.archives import Archive, find
    from logist.store import JobDir, list_jobs

    if paths and jobs_dir:
        raise UsageError("name paths or --jobs-dir, not both", where="--jobs-dir")
    jobs = environment.jobs_dir(jobs_dir, Path(here()))
    if paths:
        try:
            return list(find(paths))
        except UsageError as error:
            named = [name for name in paths if not os.path.lexists(name) and name in list_jobs(jobs)]
            if not named:
                raise
            fix = f"the job of that name is {os.path.relpath(jobs / named[0], here())}"
            raise UsageError(f"no history at {named[0]}", where=error.where, fix=fix) from None
    ids = list(list_jobs(jobs))
    if not ids:
        fix = "name a job directory, its jobHistory.json, or a folder that holds such"
        raise UsageError("no recorded jobs here", where=str(jobs), fix=fix)
    return [Archive.of(JobDir.open(jobs, job_id)) for job_id in ids]
