"""A slice of every case of the torture suite, short enough for the ordinary check."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.torture.suite import Case, Run, every_case, run_case

ALIKE = {"disk-paid", "kill-given-up", "kill-undone", "pay-both", "pay-tools"}
"""Cases with the longest preparation, which other cases here cover too: only scripts/torture runs them."""
NAMED = [(f"{part}-{case.name}", part, case) for part, case in every_case()]
ALL = [pytest.param(part, case, id=name) for name, part, case in NAMED if name not in ALIKE]


def test_what_is_left_out_is_there() -> None:
    assert {name for name, _, _ in NAMED} >= ALIKE


@pytest.mark.parametrize(("part", "case"), ALL)
def test_slice(part: str, case: Case, tmp_path: Path) -> None:
    result = run_case(part, case, Run(tmp_path, full=False))
    assert result.failures == ()
    if result.skipped:
        pytest.skip(result.skipped)
    assert result.checked > 0


def test_the_script_keeps_the_directory_of_installed_programs_and_no_key(tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/torture", tmp_path / "scripts/torture")
    for name, text in ((".venv/bin/python", "env"), ("scripts/environment", ":")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    env = os.environ | {"LOGIST_AGENTS": "/some where", "OPENAI_API_KEY": "sk-1"}
    command = [str(tmp_path / "scripts/torture"), "agents"]
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert "LOGIST_AGENTS=/some where" in shown.splitlines()
    assert "OPENAI" not in shown
