"""The desk: a project, and commands run in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from logist.jobs.archive import archive_replay
from logist.resources import load_schema
from logist.store import JobDir
from tests.cli.desk import Desk
from tests.support import RunLogist

SCHEMA = load_schema("llm-chat-schema")


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    """A project without jobs; commands run in this process."""
    return Desk(tmp_path / "project", cli)


@pytest.fixture(autouse=True)
def replayed(tmp_path: Path) -> Iterator[None]:
    """Every history that a test of this folder makes is replayed at its end, unless the test damaged it."""
    yield
    for folder in find_jobs(tmp_path):
        job = JobDir(folder, folder.name)
        if (job.path / "damaged-on-purpose").exists() or job.verify():
            continue
        assert archive_replay.replay_file(SCHEMA, job.path).differences == ()


def find_jobs(place: Path) -> list[Path]:
    """The jobs of all projects below a directory.

    Not by glob: it fails if a courier that a test has left removes a directory at that moment.
    """
    homes = [Path(folder) for folder, names, _ in os.walk(place) if ".logist" in names]
    return sorted(path.parent for home in homes for path in home.glob(".logist/jobs/*/jobHistory.json"))
