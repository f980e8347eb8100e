"""The recipe of the docs copies a project while Logist works: every copy verifies, and no call is made again without a person."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import support
from tests.cli.desk import Desk, command
from tests.cli.test_interrupted import paid
from tests.cli.test_progress import SETTINGS
from tests.loopback import Loopback

PAGE = (support.ROOT / "docs" / "housekeeping.md").read_text("utf-8")
RECIPE = re.findall(r"```sh\n(.*?)```", PAGE.partition("## Back up")[2], re.DOTALL)[0]
MORE = {"text": command("RETRY"), "usage": {"input": 1000, "output": 100}, "delay": 0.3}


def copy_project(desk: Desk, target: Path) -> Path:
    """Copy the project as the docs say; returns the jobs directory of the copy."""
    script = RECIPE.replace("$HOME/backups/shop-$(date +%F)", str(target)).replace(
        "$HOME/shop", str(desk.place)
    )
    assert str(target) in script
    assert str(desk.place) in script
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, timeout=support.CRASHED, check=False
    )
    assert done.returncode == 0, done.stderr
    return target / ".logist" / "jobs"


@pytest.fixture
def server(desk: Desk) -> Iterator[Loopback]:
    with Loopback(MORE) as server:
        limits = "limits: {max_attempts: 1000, max_allowed_iterations: 1000, cost_threshold: 100000}\n"
        desk.settings(SETTINGS.replace("{url}", server.url) + limits)
        desk.create("j1")
        desk.create("idle")
        yield server


def test_copies_made_during_a_run_verify_and_lack_only_what_was_under_way(
    desk: Desk, server: Loopback, tmp_path: Path
) -> None:
    with desk.started(
        "job", "run", "j1", env=paid(desk), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            for number in range(8 if support.is_deep() else 3):
                server.wait_for(2 * number + 2)
                recorded = desk.state("j1")["revision"]
                jobs = copy_project(desk, tmp_path / f"copy-{number}")
                for job in ("j1", "idle"):
                    verified = desk("job", "verify", job, "--jobs-dir", str(jobs))
                    assert verified.code == 0, verified
                status = desk("job", "status", "j1", "--jobs-dir", str(jobs), "--json").json["data"]
                assert status["revision"] >= recorded
        finally:
            running.kill()
    # The courier may still work; the last copy has its call in flight, or nothing.
    asked = len(server.requests)
    sent = [jobs / "j1" / "inflight" / name for name in ("1.sent", "1.response")]
    if sent[0].exists() and not sent[1].exists():
        ran = desk("job", "step", "j1", "--jobs-dir", str(jobs), env=paid(desk))
        assert (ran.code, "in doubt" in ran.out + ran.err) == (3, True), ran
        assert len(server.requests) <= asked + 1  # that of the courier that was left


def test_a_call_in_flight_is_in_doubt_in_the_copy_and_not_asked_again(desk: Desk, tmp_path: Path) -> None:
    gate = threading.Event()
    with Loopback(MORE | {"gate": gate, "delay": 0}) as server:
        desk.settings(SETTINGS.replace("{url}", server.url))
        desk.create("j1")
        started = desk.started(
            "job", "step", "j1", env=paid(desk), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        server.wait_for(1)
        jobs = copy_project(desk, tmp_path / "copy")
        assert desk("job", "verify", "j1", "--jobs-dir", str(jobs)).code == 0
        gate.set()
        started.wait(support.CRASHED)
        answered = copy_project(desk, tmp_path / "later")
        for folder, code in ((jobs, 3), (answered, 0)):
            ran = desk("job", "step", "j1", "--jobs-dir", str(folder), env=paid(desk))
            assert ran.code == code, ran
            assert desk("job", "verify", "j1", "--jobs-dir", str(folder)).code == 0
        assert len(server.requests) == 2  # the second is the next step of the copy that was made later


def test_a_plain_copy_whose_state_is_ahead_of_its_history_is_not_taken_for_whole(
    desk: Desk, tmp_path: Path
) -> None:
    desk.create("j1")
    copied = tmp_path / "jobs" / "j1"
    shutil.copytree(desk.job("j1"), copied, symlinks=True)
    desk("job", "step", "j1")
    shutil.copy2(desk.job("j1") / "state.json", copied / "state.json")
    (copied / "damaged-on-purpose").touch()
    ran = desk("job", "verify", "j1", "--jobs-dir", str(copied.parent))
    assert (ran.code, "included in state.json" in ran.out + ran.err) == (10, True), ran
    assert desk("doctor", "--fix", "--jobs-dir", str(copied.parent)).code == 10


def test_a_merge_after_the_backup_is_noticed(desk: Desk, tmp_path: Path) -> None:
    desk.place.joinpath("a.txt").write_text("a\n", "utf-8")
    for args in (
        ["init", "-q"],
        ["add", "a.txt"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *args], cwd=desk.place, check=True, env=support.process_environment())
    desk.settings("review: {enabled: false}\n")
    desk.create("j1")
    (desk.job("j1") / "workspace" / "a.txt").write_text("b\n", "utf-8")
    jobs = copy_project(desk, tmp_path / "copy")
    assert desk("job", "step", "j1").code == 11
    assert desk("job", "approve", "j1").code == 0
    assert desk("job", "merge", "j1").code == 0
    ran = desk("job", "verify", "j1", "--jobs-dir", str(jobs))
    assert (
        ran.code,
        "on the branch logist/j1, but the history has no such interaction" in ran.out + ran.err,
    ) == (
        10,
        True,
    ), ran
    merged_at = desk.history()[-1]["timestamp"]
    while datetime.now(UTC) < datetime.fromisoformat(merged_at) + timedelta(seconds=1):
        time.sleep(0.05)  # the same work, approved in the same second, could be what was merged
    shutil.rmtree(desk.job("j1"))
    shutil.copytree(jobs / "j1", desk.job("j1"), symlinks=True)
    (desk.job("j1") / "workspace" / "a.txt").write_text("c\n", "utf-8")
    assert desk("job", "step", "j1").code == 11
    assert desk("job", "approve", "j1").code == 0
    ran = desk("job", "merge", "j1")
    assert (ran.code, "perhaps it was restored from an older backup" in ran.err) == (8, True), ran
    subprocess.run(
        ["git", "branch", "-qd", "logist/j1"], cwd=desk.place, check=True, env=support.process_environment()
    )
    assert desk("job", "verify", "j1").code == 0
