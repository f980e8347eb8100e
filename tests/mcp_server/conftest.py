"""A project with a cost limit, and the MCP server for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.desk import Desk
from tests.support import RunLogist


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A project whose config has a cost limit; the server in this process sees it as its own."""
    desk = Desk(tmp_path / "project", cli)
    desk.settings("limits:\n  cost_threshold: 200\n")
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    return desk
