"""Every history that a test of this folder makes is verified and replayed at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from logist.jobs.archive import archive_drift, archive_replay
from logist.jobs.base import job_reader
from logist.store import list_jobs
from tests.jobs.bench import Bench, Json

MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[MakeBench]:
    """Makes projects: `bench(answers, settings)`."""
    made: list[Bench] = []

    def make(answers: list[Json] | None = None, settings: dict[str, Any] | None = None) -> Bench:
        made.append(Bench(tmp_path / f"project-{len(made)}", answers or [], settings))
        return made[-1]

    yield make
    for one in made:
        for job_id in list_jobs(one.project.jobs_dir):
            job = one.project.open_job(job_id)
            if (job.path / "damaged-on-purpose").exists():
                continue
            assert job_reader.verify_job(one.project, job).problems == ()
            replayed = archive_replay.replay_job(
                one.project, job, prompts=archive_drift.build_drift_finder(one.project)
            )
            assert (replayed.differences, replayed.changed_rules) == ((), ())
            assert one.drifts or replayed.drifts == ()
            for entry in job_reader.read_interactions(job):
                if entry.request.command:
                    jsonschema.validate({"request": entry.request.command}, one.project.schema)
