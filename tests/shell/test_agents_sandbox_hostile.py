"""A slice of the hostile commands, under each sandbox that works here, as this user and as nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from logist.agents import sandbox
from logist.agents.sandbox import launcher
from tests.support import CRASHED, ROOT
from tests.torture.hostile_commands import ATTEMPTS, SHARING, TUNING, Attempt
from tests.torture.hostile_stage import KEY, PATH

SLICE = [attempt for attempt in ATTEMPTS if attempt.quick]
FEW = SLICE[::4]
"""For the further kinds and users: `scripts/torture hostile` tries all with each."""
CONTROLS = [attempt for attempt in ATTEMPTS if attempt.control and attempt.quick][::2]
NEIGHBOURS = [*TUNING, *SHARING]
BATCH = ("sh", "-c", 'echo 1000 > /proc/self/oom_score_adj; exec nice -n 15 "$@"', "sh")
"""As batch systems and containers run a program: root has set what an ordinary user can't take back."""
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
SYSTEM_PYTHON = "/usr/bin/python3"


def tried(
    kind: str, attempts: Sequence[Attempt], place: Path, *, nobody: bool = False, start: Sequence[str] = ()
) -> dict[str, Any]:
    """What each attempt got, by name; tried by a process with a key in its environment, started by `start`."""
    done = subprocess.run(
        [
            *start,
            *(NOBODY if nobody else ()),
            SYSTEM_PYTHON if nobody else sys.executable,
            *("-m", "tests.torture.hostile_stage", kind),
            *(attempt.name for attempt in attempts),
        ],
        cwd=ROOT,
        env={
            "PATH": PATH,
            "TMPDIR": "/tmp" if nobody else str(place),
            "PYTHONDONTWRITEBYTECODE": "1",
            KEY: "sk-stage-0123456789",
        },
        capture_output=True,
        timeout=CRASHED,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["sandbox"] for line in lines} == {kind}
    return {line["name"]: line["problems"] for line in lines}


def needs(kind: str) -> None:
    found = sandbox.detect_sandbox()
    if kind == "bubblewrap" and found.kind != kind:
        pytest.skip("; ".join(found.details))
    if kind == "landlock" and launcher.read_landlock_version() < launcher.SCOPES_SINCE:
        pytest.skip(
            f"Landlock version {launcher.read_landlock_version()}: it has more gaps than the table says"
        )


def needs_nobody() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can try as nobody")
    look = "import sys; assert sys.version_info >= (3, 11); import tests.torture.hostile_stage"
    can = subprocess.run(
        [*NOBODY, SYSTEM_PYTHON, "-B", "-c", look], cwd=ROOT, capture_output=True, check=False
    )
    if can.returncode:
        pytest.skip(f"nobody can't run these tests: {can.stderr.decode()[-200:]}")


@pytest.mark.deep
@pytest.mark.parametrize("nobody", [False, True], ids=["self", "nobody"])
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_nothing_outside_is_read_written_reached_or_left(kind: str, nobody: bool, tmp_path: Path) -> None:
    needs(kind)
    if nobody:
        needs_nobody()
    attempts = SLICE if (kind, nobody) == ("bubblewrap", False) else FEW
    attempts = [attempt for attempt in attempts if kind not in attempt.gaps]
    found = tried(kind, attempts, tmp_path, nobody=nobody)
    assert found == {attempt.name: [] for attempt in attempts}


@pytest.mark.deep_beyond(2)
@pytest.mark.parametrize("nobody", [False, True], ids=["self", "nobody"])
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_no_other_process_is_slowed_or_limited_and_no_shared_memory_removed(
    kind: str, nobody: bool, tmp_path: Path
) -> None:
    needs(kind)
    if nobody:
        needs_nobody()
    assert tried(kind, NEIGHBOURS, tmp_path, nobody=nobody) == {each.name: [] for each in NEIGHBOURS}


@pytest.mark.deep
def test_other_processes_and_shared_memory_are_there_where_nothing_holds_back(tmp_path: Path) -> None:
    found = tried("none", NEIGHBOURS, tmp_path)
    assert [name for name, problems in found.items() if not problems] == []


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock", "none"])
def test_programs_start_at_the_lowest_priority(kind: str, tmp_path: Path) -> None:
    needs(kind)
    if os.getuid() == 0:
        needs_nobody()
    attempts = [attempt for attempt in ATTEMPTS if attempt.name == "nice"]
    assert tried(kind, attempts, tmp_path, nobody=os.getuid() == 0, start=BATCH) == {"nice": []}


@pytest.mark.deep
def test_the_same_attempts_get_out_where_nothing_holds_them(tmp_path: Path) -> None:
    found = tried("none", CONTROLS, tmp_path)
    assert [name for name, problems in found.items() if not problems] == []
    assert len(found) == len(CONTROLS) > 8


def test_the_table_is_as_large_as_it_has_to_be() -> None:
    names = [attempt.name for attempt in ATTEMPTS]
    assert len(names) == len(set(names)) >= 110
    assert 25 <= len(SLICE) <= 50
    assert sum("landlock" in attempt.gaps for attempt in ATTEMPTS) <= 9
    assert not any("bubblewrap" in attempt.gaps for attempt in ATTEMPTS)
