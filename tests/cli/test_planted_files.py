"""Pipes, devices, links and huge files in the place of files of a job or a project: no command hangs on them.

Each could come with a clone or an archive. The commands have an address space that holds none of the huge ones.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import support
from tests.cli.desk import Desk
from tests.support import Ran

HUGE = 6 << 30
MEMORY = 3 << 29


def huge(path: Path) -> None:
    """A file of gigabytes that takes no room, with what was there as its beginning."""
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.truncate(path, HUGE)


@pytest.fixture(autouse=True)
def _nothing_huge_stays(desk: Desk) -> Iterator[None]:
    """What every test leaves is read, to look for secrets in it."""
    yield
    for path in desk.home.rglob("*"):
        if path.lstat().st_size == HUGE:
            path.unlink()


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def link_to_device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


PLANTED = pytest.mark.parametrize("plant", [pipe, link_to_device, huge])


def limited(desk: Desk, *args: str) -> Ran:
    """Runs a command as a process with little memory; TimeoutExpired where it hangs."""
    process = desk.started(
        *args,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    try:
        out, err = process.communicate(timeout=support.CRASHED)
    finally:
        process.kill()
    assert b"MemoryError" not in err
    return Ran(process.returncode, out.decode(), err.decode())


@PLANTED
def test_the_selected_job(desk: Desk, plant: Callable[[Path], None]) -> None:
    desk.create()
    assert desk("job", "select", "j1").code == 0
    plant(desk.home / "current_job")
    for words in (("job", "status"), ("job", "select")):
        ran = limited(desk, *words)
        assert (ran.code, "missing job (pass a job id, or run: logist job select JOB)" in ran.err) == (
            2,
            True,
        )


def test_doctor_and_a_huge_choice(desk: Desk) -> None:
    huge(desk.home / "current_job")
    ran = limited(desk, "doctor")
    assert (ran.code, "current_job doesn't contain a job id" in ran.out) == (0, True)


@pytest.mark.deep
@PLANTED
def test_the_history(desk: Desk, plant: Callable[[Path], None]) -> None:
    desk.create()
    plant(desk.job() / "jobHistory.json")
    ran = limited(desk, "job", "status", "j1")
    assert (ran.code, ran.out) == (10, "")
    ran = limited(desk, "job", "list")
    assert (ran.code, ran.out.split("\t")[:2], "unreadable" in ran.err) == (0, ["j1", "PENDING"], False)
    assert "warning: " in ran.err


@pytest.mark.parametrize("plant", [pipe, pytest.param(link_to_device, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "name",
    [
        "config",
        *(
            pytest.param(name, marks=pytest.mark.deep)
            for name in ("packed-refs", "objects/pack/pack-1.idx", "refs/heads/checkpoints")
        ),
    ],
)
def test_the_repository_of_checkpoints(desk: Desk, name: str, plant: Callable[[Path], None]) -> None:
    """git itself opens these, and would wait for a pipe, or read a device, for ever."""
    desk.create()
    plant(desk.job() / "git" / name)
    (desk.job() / "git/objects/pack/pack-1.pack").touch()
    ran = limited(desk, "job", "verify", "j1")
    assert (ran.code, "not a regular file" in ran.out + ran.err) == (10, True), ran
    ran = limited(desk, "job", "fork", "j1")
    assert (ran.code, "not a regular file" in ran.err) == (10, True), ran


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("state.json", 10, ["job", "status", "j1"]),
        ("inflight/1.request", 10, ["job", "step", "j1"]),
        ("restoring", 10, ["job", "step", "j1"]),
        ("workflow.json", 5, ["job", "step", "j1"]),
        ("logs/000001.kept.json", 0, ["job", "step", "j1"]),
    ],
)
def test_a_huge_file_of_a_job_is_refused_by_its_size(
    desk: Desk, name: str, code: int, words: list[str]
) -> None:
    desk.create()
    huge(desk.job() / name)
    ran = limited(desk, *words)
    assert ran.code == code, ran.err
    assert code == 0 or "larger than" in ran.err


def test_of_a_huge_lock_only_the_signatures_are_read(desk: Desk) -> None:
    desk.create()
    huge(desk.job() / "lock")
    assert limited(desk, "job", "status", "j1").code == 0
    assert desk("job", "step", "j1").code == 0


def test_one_huge_state_hides_no_other_job(desk: Desk) -> None:
    desk.create("j1")
    desk.create("j2")
    huge(desk.job("j1") / "state.json")
    ran = limited(desk, "job", "list")
    assert [line.split("\t")[:2] for line in ran.out.splitlines()] == [["j1", "?"], ["j2", "PENDING"]]
    assert "j1: state.json can't be read: larger than 134,217,728 bytes" in ran.err


def test_a_pipe_in_the_place_of_a_lock_hides_no_other_job(desk: Desk) -> None:
    desk.create("j1")
    desk.create("j2")
    (desk.job("j1") / "inflight").mkdir()
    (desk.job("j1") / "inflight" / "1.request").touch()
    pipe(desk.job("j1") / "lock")
    ran = limited(desk, "job", "list")
    assert (ran.code, ran.out.count("\n")) == (0, 2)
    assert "j1: not a regular file" in ran.err


@pytest.mark.deep
def test_a_large_state_takes_no_quadratic_time(desk: Desk) -> None:
    desk.create()
    state = desk.state() | {"more": "x" * 40_000_000}  # 40 MB took over a minute in pieces of 64 KB
    (desk.job() / "state.json").write_text(json.dumps(state), "utf-8")
    assert limited(desk, "job", "list").out.startswith("j1\tPENDING")


def test_a_link_in_a_repository_makes_no_file_elsewhere(desk: Desk, tmp_path: Path) -> None:
    desk.create()
    clock = desk.job() / "git" / "logist-clock"
    clock.symlink_to(tmp_path / "elsewhere")
    (desk.job() / "workspace" / "new.txt").write_text("x", "utf-8")
    ran = limited(desk, "job", "step", "j1")
    assert (ran.code, "logist-clock" in ran.err, (tmp_path / "elsewhere").exists()) == (1, True, False)


def test_doctor_and_a_pipe_in_the_place_of_the_branch_of_checkpoints(desk: Desk) -> None:
    desk.create()
    pipe(desk.job() / "git" / "refs" / "heads" / "checkpoints")
    ran = limited(desk, "doctor")
    assert (ran.code, "refs/heads/checkpoints is unreadable" in ran.out) == (10, True)
