"""`logist demo`: the whole story, as a newcomer sees it."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support import RunLogist, process_environment


@pytest.mark.deep
def test_the_demo_runs_and_leaves_its_directory(run_logist: RunLogist, tmp_path: Path) -> None:
    place = tmp_path / "demo"
    done = run_logist("demo", str(place))
    assert done.code == 0, done.err
    assert "No model is called: " in done.err
    for told in (
        "COMPLETED",
        "RETRY",
        "is STUCK",
        "is APPROVAL_REQUIRED",
        "is SUCCESS",
        "replay with the same result",
    ):
        assert told in done.err
    assert (place / ".logist" / "jobs" / "shout" / "workspace" / "test_greet.py").is_file()
    assert (place / "greet.py").read_text("utf-8").count("shout") == 0  # the repository is untouched
    for line in (line.strip() for line in done.out.splitlines() if line.startswith("  ")):
        if line.startswith(("cd", "ls")):
            continue
        words = shlex.split(line, comments=True)
        ran = subprocess.run(words, cwd=place, env=process_environment(), capture_output=True, check=False)
        assert ran.returncode == 0, line


def test_a_directory_that_is_not_empty_is_refused(run_logist: RunLogist, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = run_logist("demo", str(tmp_path))
    assert (done.code, "not empty" in done.err) == (2, True)
