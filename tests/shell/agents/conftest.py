"""A workspace with tools on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shell.agents.tool_bench import Bench, bench


@pytest.fixture
def tools(tmp_path: Path) -> Bench:
    """Every permission, default rules, an empty workspace, a sandbox that only pretends."""
    return bench(tmp_path / "job")
