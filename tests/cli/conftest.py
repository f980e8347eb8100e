"""The desk: a project, and commands run in it."""

from __future__ import annotations

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
    for history in sorted(tmp_path.glob("**/.logist/jobs/*/jobHistory.json")):
        job = JobDir(history.parent, history.parent.name)
        if (job.path / "damaged-on-purpose").exists() or job.verify():
            continue
        assert archive_replay.replay_file(SCHEMA, job.path).differences == ()
