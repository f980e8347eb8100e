"""The scripts that people run in a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from tests.support import ROOT


def test_an_active_environment_is_created_again(tmp_path: Path) -> None:
    """Its own Python comes first in PATH, and is removed before the new environment is made."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "environment", tmp_path / "scripts")
    (tmp_path / "logist").mkdir()
    (tmp_path / "logist" / "version.py").touch()
    (tmp_path / "pyproject.toml").write_text('name = "example"\n')
    (tmp_path / "lock.txt").touch()
    venv.create(tmp_path / ".venv", symlinks=True)
    done = subprocess.run(
        ["scripts/environment", ".venv", "lock.txt", "--bare"],
        cwd=tmp_path,
        check=False,
        env={"PATH": f"{tmp_path}/.venv/bin:{os.environ['PATH']}", "HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (done.returncode, done.stderr) == (
        0,
        "creating .venv from lock.txt (needs the network once)\n",
    )
    subprocess.run([tmp_path / ".venv" / "bin" / "python", "-m", "pip", "--version"], check=True)


@pytest.mark.parametrize("name", ["lock", "test", "torture", "try-install"])
def test_help_changes_nothing(name: str) -> None:
    done = subprocess.run([ROOT / "scripts" / name, "--help"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"\nusage: scripts/{name} [" in done.stdout
