"""`logist gc` as a person and cron run it: what it says, when it is killed, on a full disk, and beside a run; and
`min_free_bytes`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logist.store.cleaned import NAME, UNDER_WAY
from tests import support
from tests.cli.desk import Desk, command
from tests.cli.terminal import CTRL_C, Terminal
from tests.torture.disk_mounts import Filler, mounted
from tests.torture.suite import Skip
from tests.torture.tracer import Trace, kill_before, trace

KEEP = ("gc", "--older-than", "0d", "--keep-history")
LEAST = 1 << 20


def ended(desk: Desk, *names: str) -> None:
    """Jobs that have succeeded, without changes."""
    for name in names:
        desk.create(name, "--no-review", "--approval", "none", "--no-repo")
        assert desk("job", "run", name).code == 0


@contextmanager
def small_disk(scratch: Path) -> Iterator[Path]:
    try:
        with mounted("tmpfs", scratch) as place:
            yield place
    except Skip as reason:
        pytest.skip(str(reason))


def test_it_says_what_it_removes_and_what_it_keeps(desk: Desk) -> None:
    ended(desk, "old", "edited")
    desk.create("open")
    (desk.job("edited") / "workspace" / "by-hand.txt").write_text("x")
    before = desk.tree()
    ran = desk(*KEEP, "--dry-run")
    lines = ran.out.splitlines()
    assert (ran.code, lines[0].split("\t")[2]) == (0, "old")
    assert lines[1].startswith("would remove the files of 1 job: ")
    assert lines[2:] == ["kept open: it is PENDING"]
    assert ran.err.startswith("warning: kept edited: it has changes that are not merged: by-hand.txt (")
    assert desk.tree() == before
    planned = desk(*KEEP, "--dry-run", "--json").json["data"]
    ran = desk(*KEEP, "--json")
    data = ran.json["data"]
    assert data == planned | {"dry_run": False}
    assert [(each["job"], each["reason"]) for each in data["kept"]] == [
        ("edited", "unmerged"),
        ("open", "not_ended"),
    ]
    assert data["freed"]["total"] == sum(each["freed"] for each in data["removed"]) > 0
    ran = desk("gc", "--older-than", "0d")
    assert ran.out.splitlines()[1:] == [
        f"removed 1 job: {ran.out.split(chr(9))[0]}",
        "kept jobs: 1 not ended yet",
    ]
    assert not desk.job("old").exists()
    assert desk("gc", "--older-than", "30d").out == (
        "nothing to remove\nkept jobs: 1 not ended yet, 1 ended later than that\n"
    )


def test_a_directory_without_jobs_is_named(desk: Desk) -> None:
    """As in a cron line that begins in the wrong directory."""
    for options in ((), ("--dry-run",)):
        ran = desk("gc", "--older-than", "30d", *options)
        assert (ran.code, ran.out) == (0, "nothing to remove\n")
        assert ran.err.startswith(f"{desk.jobs}: no jobs found (")
    ran = desk("run")
    assert (ran.code, ran.out) == (0, "no ready jobs\n")
    assert ran.err.startswith(f"{desk.jobs}: no jobs found (")


@pytest.mark.parametrize("age", ["", "30", "d", "-1d", "30d ago", "1y"])
def test_a_duration_has_a_unit(desk: Desk, age: str) -> None:
    ran = desk("gc", f"--older-than={age}")
    assert ran.code == 2
    assert ran.err == f"error: --older-than: not a duration: {age!r} (for example: 30d, 2w, 12h)\n"


def test_a_job_without_files_says_so_everywhere(desk: Desk) -> None:
    ended(desk, "j1")
    assert desk(*KEEP).code == 0
    said = "the workspace, the checkpoints and the logs were removed by ada at "
    for args in (
        ("status", "j1"),
        ("show", "j1"),
        ("history", "j1"),
        ("verify", "j1"),
        ("replay", "j1"),
        ("export", "j1", "--fixture", "out"),
    ):
        ran = desk("job", *args)
        assert (ran.code, said in ran.out + ran.err) == (0, True), args
    assert "next: logist job show --job j1" in desk("job", "status", "j1").out
    assert desk("stats").code == 0
    assert desk("replay").code == 0
    assert desk("doctor", "--deep").code == 0
    removed = desk("job", "status", "j1", "--json").json["data"]["removed_files"]
    assert (removed["by"], len(removed["at"])) == ("ada", 20)
    for refused in (
        ("restep", "--to", "2", "--job", "j1"),
        ("rerun", "j1"),
        ("fork", "--job", "j1"),
        ("merge", "j1"),
        ("merge", "j1", "--dry-run"),
        ("diff", "j1"),
        ("open", "j1"),
        ("pack", "j1"),
    ):
        ran = desk("job", *refused)
        assert (ran.code, ran.err.count("\n"), said in ran.err) == (8, 1, True), ran.err
        assert "its history is kept: logist job show --job j1" in ran.err
    assert desk("inbox", "note", "j1", "Kept for the audit.").code == 0
    assert desk("job", "verify", "j1").code == 0
    assert desk("job", "delete", "j1", "--yes").code == 0


def test_unreadable_jobs_are_skipped_and_named(desk: Desk) -> None:
    ended(desk, "bad", "good")
    (desk.job("bad") / "state.json").write_text("?")
    ran = desk("gc", "--older-than", "0d")
    assert (ran.code, desk.job("good").exists(), desk.job("bad").exists()) == (10, False, True)
    assert ran.err.startswith("error: kept bad: state.json is not valid JSON (")


def test_a_person_at_a_terminal_is_asked(desk: Desk) -> None:
    ended(desk, "j1")
    desk("job", "select", "j1")
    for keys, code in ((b"n\n", 8), (b"y\n", 0)):
        with Terminal(desk, "gc", "--older-than", "0d") as terminal:
            terminal.wait_for("delete 1 job with all files (")
            terminal.wait_for("): j1?")
            terminal.type(keys)
            assert terminal.process.wait(support.CRASHED) == code
        assert desk.job("j1").exists() is (code == 8)
    assert not (desk.home / "current_job").exists()
    with Terminal(desk, "gc", "--older-than", "0d") as terminal:
        terminal.wait_for("nothing to remove")


def test_stopped_at_the_question_the_message_has_its_own_line(desk: Desk) -> None:
    ended(desk, "j1")
    with Terminal(desk, "gc", "--older-than", "0d") as terminal:
        terminal.wait_for("): j1?")
        terminal.type(CTRL_C)
        assert terminal.process.wait(support.CRASHED) == 130
        terminal.wait_for("\nerror: stopped")


def traced(desk: Desk, *args: str, n: int | None = None) -> Trace:
    environment = support.process_environment() | desk.env | {"PYTHONDONTWRITEBYTECODE": "1"}
    argv = [*support.logist_command(), *args]
    try:
        return trace(argv, cwd=desk.place, env=environment, act=None if n is None else kill_before(n))
    except Skip as reason:
        pytest.skip(str(reason))


def find_points(ran: Trace, desk: Desk, *, every: bool) -> list[int]:
    """The calls before which it is killed: all that change the job, or some of them."""
    inside = [call.index for call in ran.calls if any(str(desk.jobs) in path for path in call.paths)]
    named = [
        call.index
        for call in ran.calls
        if call.name.startswith(("rename", "fsync")) or any(UNDER_WAY in path for path in call.paths[:1])
    ]
    return inside if every else sorted({*named[:: max(1, len(named) // 6)], inside[-1]})


@pytest.mark.disk
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.deep)])
@pytest.mark.parametrize("options", [("--keep-history",), ()], ids=["files", "jobs"])
def test_a_killed_gc_is_finished_by_the_next(desk: Desk, options: tuple[str, ...], *, every: bool) -> None:
    ended(desk, "j1")
    (desk.job("j1") / "workspace" / "node_modules").mkdir()
    shutil.copytree(desk.home, desk.place / "before", symlinks=True)
    args = ("gc", "--older-than", "0d", *options)
    whole = traced(desk, *args)
    assert whole.code == 0, whole.err
    for n in find_points(whole, desk, every=every):
        shutil.rmtree(desk.home)
        shutil.copytree(desk.place / "before", desk.home, symlinks=True)
        traced(desk, *args, n=n)
        if desk.job("j1").exists():
            for name in ("status", "verify", "replay", "history"):
                ran = desk("job", name, "j1")
                assert ran.code == 0, (n, ran.err)
        ran = desk(*args)
        assert ran.code == 0, (n, ran.err)
        names = sorted(path.name for path in desk.jobs.iterdir())
        assert names == (["j1"] if options else []), n
        if options:
            assert not {UNDER_WAY, "workspace", "git"} & {path.name for path in desk.job("j1").iterdir()}
            assert (desk.job("j1") / NAME).is_file()
            assert desk("job", "verify", "j1").code == 0


@pytest.mark.parametrize("options", [("--keep-history",), ()], ids=["files", "jobs"])
def test_it_works_on_a_full_disk(desk: Desk, tmp_path: Path, options: tuple[str, ...]) -> None:
    desk.settings("min_free_bytes: 0\n")
    with small_disk(tmp_path) as place:
        jobs = place / "jobs"
        jobs.mkdir()
        env = {"LOGIST_JOBS_DIR": str(jobs)}
        for name in ("j1", "j2"):
            args = ("--no-review", "--approval", "none", "--no-repo")
            assert desk("job", "create", "--id", name, "--prompt", "x", *args, env=env).code == 0
            assert desk("job", "run", name, env=env).code == 0
        filler = Filler(place / "filler")
        filler.fill()
        assert os.statvfs(place).f_bavail == 0
        assert desk("inbox", "note", "j1", "No room.", env=env).code == 1
        ran = desk("gc", "--older-than", "0d", *options, "--json", env=env)
        assert ran.code == 0, ran.err
        assert {each["job"] for each in ran.json["data"]["removed"]} == {"j1", "j2"}
        assert os.statvfs(place).f_bavail * 4096 > ran.json["data"]["freed"]["total"] // 2
        names = sorted(path.name for path in jobs.iterdir())
        assert names == (["j1", "j2"] if options else [])
        for name in names:
            assert desk("job", "verify", name, env=env).code == 0


def test_a_scrub_on_a_full_disk_names_the_place_and_changes_nothing(desk: Desk, tmp_path: Path) -> None:
    with small_disk(tmp_path) as place:
        jobs = place / "jobs"
        jobs.mkdir()
        env = {"LOGIST_JOBS_DIR": str(jobs)}
        assert (
            desk("job", "create", "--id", "j", "--prompt", "By Anna Schmidt.", "--no-repo", env=env).code == 0
        )
        before = (jobs / "j" / "jobHistory.json").read_bytes()
        Filler(place / "filler").fill()
        ran = desk("job", "scrub", "j", "--pattern", "Anna Schmidt", "--yes", env=env)
        assert ran.code == 1
        assert ran.err.startswith(f"error: {jobs}"), ran.err
        assert "No space left on device (free some disk space and run the command again" in ran.err
        assert (jobs / "j" / "jobHistory.json").read_bytes() == before
        assert desk("job", "verify", "j", env=env).code == 0


def test_it_works_beside_a_run(desk: Desk) -> None:
    ended(desk, "old")
    for number in range(6):
        desk.create(f"new-{number}", "--no-review", "--approval", "none", "--no-repo")
    running = desk.started("run", "--parallel", "2", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while running.poll() is None:
        ran = desk("gc", "--older-than", "0d", "--keep-history")
        assert ran.code == 0, ran.err
    out, err = running.communicate()
    assert running.returncode == 0, (out, err)
    assert desk(*KEEP).code == 0
    names = [f"new-{number}" for number in range(6)]
    for name in names:
        assert desk.state(name)["status"] == "SUCCESS"
        assert desk("job", "verify", name).code == 0
        assert not (desk.job(name) / "git").exists()


class TestMinFreeBytes:
    """More than any disk has, or a disk that is small."""

    def test_no_step_begins_and_it_says_why(self, desk: Desk) -> None:
        desk.settings("min_free_bytes: 900000000000000000\n")
        desk.create("j1")
        desk.create("j2")
        before = desk.history("j1")
        for args in (("job", "step", "j1"), ("job", "run", "j1"), ("run",)):
            ran = desk(*args)
            assert ran.code == 8, ran.err
            assert "no step was started: " in ran.err
            assert "min_free_bytes is 900000.0 TB (to see what takes space: logist du" in ran.err
            assert ran.err.count("\n") == 1
        data = desk("run", "--json").json
        assert {row["error"]["code"] for row in data["data"]["jobs"]} == {"low_on_space"}
        assert (desk.history("j1"), desk.state("j1")["status"]) == (before, "PENDING")
        ran = desk("doctor")
        assert "warning disk: no step begins until there is more space: " in ran.out
        desk.settings("min_free_bytes: 0\n")
        assert desk("job", "step", "j1").code == 0
        assert "min_free_bytes" not in desk("doctor").out

    def test_a_paid_answer_is_recorded_all_the_same(self, desk: Desk) -> None:
        desk.create("j1", "--no-review", "--approval", "none")
        text = command(summary="By hand.")
        desk.settings("min_free_bytes: 900000000000000000\n")
        ran = desk("job", "poststep", "j1", "--response-string", text)
        assert (ran.code, desk.state("j1")["status"]) == (0, "SUCCESS"), ran.err

    def test_a_watch_continues_when_there_is_space(self, desk: Desk, tmp_path: Path) -> None:
        desk.settings(
            f"min_free_bytes: {LEAST}\npoll_interval_seconds: 0.05\nreview: {{enabled: false}}\napproval: none\n"
        )
        with small_disk(tmp_path) as place:
            jobs = place / "jobs"
            jobs.mkdir()
            env = {"LOGIST_JOBS_DIR": str(jobs)}
            for name in ("j1", "j2"):
                args = ("--prompt", "x", "--no-repo")
                assert desk("job", "create", "--id", name, *args, env=env).code == 0
            filler = Filler(place / "filler")
            filler.fill()
            filler.give_back(40)
            watching = desk.started("run", "--watch", env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
            assert watching.stderr is not None
            first = watching.stderr.readline()
            assert b"no step was started" in first
            time.sleep(0.3)  # some more rounds, which print nothing
            filler.remove()
            while _status(jobs / "j1") != "SUCCESS" or _status(jobs / "j2") != "SUCCESS":
                assert watching.poll() is None
            watching.send_signal(signal.SIGTERM)
            _, err = watching.communicate()
            assert (watching.returncode, b"no step was started" in err) == (143, False)


def _status(folder: Path) -> str:
    return str(json.loads((folder / "state.json").read_bytes())["status"])
