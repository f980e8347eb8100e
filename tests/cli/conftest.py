"""The desk: a project, and commands run in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.desk import Desk
from tests.support import RunLogist


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    """A project without jobs; commands run in this process."""
    return Desk(tmp_path / "project", cli)
