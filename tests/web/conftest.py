"""The page's tests: projects with jobs, a client in this process, a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.desk import Desk
from tests.support import RunLogist
from tests.web.example_jobs import copy_examples
from tests.web.running_server import RunningServer
from tests.web.visitor import Visitor, enter


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    """A project without jobs; commands run in this process."""
    return Desk(tmp_path / "project", cli)


@pytest.fixture
def examples(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """The project `desk` with a job in every state: `example_jobs.EXAMPLES`."""
    copy_examples(tmp_path_factory.getbasetemp() / "examples-of-jobs", desk)
    return desk


@pytest.fixture
def visitor(examples: Desk) -> Visitor:
    """A person at the page of the examples, without a browser."""
    return enter(examples)


@pytest.fixture
def server(examples: Desk) -> Iterator[RunningServer]:
    """`logist serve` as a process, for the examples."""
    with RunningServer(examples) as running:
        yield running
