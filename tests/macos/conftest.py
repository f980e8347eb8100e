"""The emulated Mac of a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.macos.mac import Mac


@pytest.fixture
def mac(tmp_path: Path) -> Mac:
    """A project on an emulated Mac."""
    return Mac(tmp_path)
