"""The lock: one at a time, told apart by process, shared with a courier, never in a reader's way."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from logist.errors import Busy, UsageError
from logist.store import Holder, JobDir, LockProcess
from logist.store.lock import _UNSURE_SECONDS, _write_signature, claim_unfinished_job
from logist.systems import read_start_time
from logist.timestamps import format_local
from tests import support

pytestmark = pytest.mark.disk

SINCE = "2026-01-02T03:04:05Z"

STEPPER = """
import sys
from pathlib import Path
from logist.errors import Busy
from logist.store import JobDir
job = JobDir.open(Path(sys.argv[1]), "job")
sys.stdin.readline()
try:
    with job.hold_lock(command="job step", since="2026-01-02T03:04:05Z"):
        print("held", flush=True)
        sys.stdin.readline()
except Busy:
    print("busy", flush=True)
"""

COURIER = """
import os, sys
from logist.store import Lock
if sys.argv[2] == "signs":
    Lock.from_inherited_fd(int(sys.argv[1]))
print(os.getpid(), os.get_inheritable(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""

# Starts a courier with the lock and its own standard streams, then waits for its end.
STARTER = """
import subprocess, sys
from pathlib import Path
from logist.store import JobDir
job = JobDir.open(Path(sys.argv[1]), "job")
with job.hold_lock(command="job step", since="2026-01-02T03:04:05Z") as lock:
    command = [sys.executable, "-c", sys.argv[2], str(lock.fd), sys.argv[3]]
    courier = subprocess.Popen(command, pass_fds=[lock.fd], start_new_session=True)
    if sys.argv[3] == "noted":
        lock.sign_for_courier(courier.pid)
        print("noted", flush=True)
    if sys.argv[3] == "leaves":
        lock.sign_for_courier(courier.pid)
    else:
        courier.wait()
"""


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    with JobDir.create_job(tmp_path, "job") as job:
        pass
    return job


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program that ends, at the latest, when the test does."""
    command = [sys.executable, "-c", *arguments]
    env = support.process_environment()
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def stop(process: subprocess.Popen[str]) -> None:
    """End of input: what a courier in these tests waits for."""
    assert process.stdin is not None
    process.stdin.close()


def test_a_lock_is_free_held_and_free_again(job: JobDir) -> None:
    idle = job.lock_file.read_bytes()
    assert job.find_lock_holder() is None
    with job.hold_lock(command="job step", since=SINCE) as lock:
        me = LockProcess(
            os.getpid(), read_start_time(os.getpid()) or 0, os.uname().nodename, "job step", SINCE
        )
        assert job.find_lock_holder() == Holder(me, None)
        assert not lock.waited_for_courier
        assert not os.get_inheritable(lock.fd)
    assert job.find_lock_holder() is None
    assert job.lock_file.read_bytes() == idle


def test_an_error_lets_go(job: JobDir) -> None:
    with pytest.raises(KeyboardInterrupt), job.hold_lock(command="job step", since=SINCE):
        raise KeyboardInterrupt
    with job.hold_lock(command="job step", since=SINCE):
        pass


def test_the_lock_is_not_in_a_file_that_can_be_removed(job: JobDir) -> None:
    with job.hold_lock(command="job step", since=SINCE):
        job.lock_file.unlink()
        with pytest.raises(Busy), job.hold_lock(command="job step", since=SINCE):
            raise AssertionError("not reached")


def test_the_lock_goes_with_a_job_that_is_moved(job: JobDir, tmp_path: Path) -> None:
    with job.hold_lock(command="job step", since=SINCE):
        job.path.rename(tmp_path / "moved")
        moved = JobDir.open(tmp_path, "moved")
        with pytest.raises(Busy, match="job step"), moved.hold_lock(command="job step", since=SINCE):
            raise AssertionError("not reached")
        holder = moved.find_lock_holder()
        assert holder is not None
        assert holder.stepper is not None
        with pytest.raises(UsageError, match="no longer exists"), job.hold_lock(command="x", since=SINCE):
            raise AssertionError("not reached")
    with moved.hold_lock(command="job step", since=SINCE):
        pass


def test_a_job_that_is_replaced_while_its_lock_is_waited_for_is_another_job(
    job: JobDir, tmp_path: Path
) -> None:
    looks = []

    def swap() -> None:
        looks.append(1)
        if len(looks) == 1:
            job.path.rename(tmp_path / "moved")
            held.close()
            (tmp_path / "job").mkdir()

    held = ExitStack()
    held.enter_context(job.hold_lock(command="job step", since=SINCE))
    with job.hold_lock(command="x", since=SINCE, wait=60, on_poll=swap) as lock:
        assert os.path.samestat(os.fstat(lock.fd), (tmp_path / "job").stat())


def test_a_job_in_the_making_is_told_from_one_that_was_left(tmp_path: Path) -> None:
    left = tmp_path / ".new-x-1"
    left.mkdir()
    with (
        JobDir.create_job(tmp_path, "job") as job,
        claim_unfinished_job(job.path) as ours,
        claim_unfinished_job(left) as its,
    ):
        assert (ours, its) == (False, True)
    with claim_unfinished_job(tmp_path / "gone") as its:
        assert not its


def test_the_file_is_made_where_it_is_missing_and_never_replaced(job: JobDir) -> None:
    job.lock_file.unlink()
    assert job.find_lock_holder() is None
    with job.hold_lock(command="job step", since=SINCE):
        number = job.lock_file.stat().st_ino
    with job.hold_lock(command="job step", since=SINCE):
        assert job.lock_file.stat().st_ino == number
    assert job.lock_file.stat().st_mode & 0o777 == 0o600


def test_a_live_stepper_makes_others_busy_and_is_named(job: JobDir, tmp_path: Path) -> None:
    with running(STEPPER, str(tmp_path)) as other:
        say(other)
        assert hear(other) == "held"
        with pytest.raises(Busy) as caught, job.hold_lock(command="job step", since=SINCE):
            raise AssertionError("not reached")
        assert f"job step (pid {other.pid}, since {format_local(SINCE)})" in caught.value.message
        assert caught.value.where == str(job.path)
        assert "--wait" in (caught.value.fix or "")
        assert caught.value.exit_code == 8


def test_of_two_that_race_one_is_busy(tmp_path: Path, job: JobDir) -> None:
    with running(STEPPER, str(tmp_path)) as one, running(STEPPER, str(tmp_path)) as two:
        for process in (one, two):
            say(process)
        assert sorted([hear(one), hear(two)]) == ["busy", "held"]
    assert job.find_lock_holder() is None


def test_waiting_ends_when_the_stepper_does(job: JobDir, tmp_path: Path) -> None:
    told: list[Holder] = []
    with running(STEPPER, str(tmp_path)) as other:
        say(other)
        assert hear(other) == "held"

        def let_go(holder: Holder) -> None:
            told.append(holder)
            say(other)

        with job.hold_lock(command="job step", since=SINCE, wait=60, on_wait=let_go) as lock:
            assert not lock.waited_for_courier
        assert [holder.stepper.pid for holder in told if holder.stepper] == [other.pid]


def test_waiting_for_a_courier_does_not_mean_waiting_for_a_stepper(job: JobDir, tmp_path: Path) -> None:
    with running(STEPPER, str(tmp_path)) as other:
        say(other)
        assert hear(other) == "held"
        for wait in (0, 0.1):
            with (
                pytest.raises(Busy, match="job step"),
                job.hold_lock(command="job step", since=SINCE, wait=wait, wait_for_courier=True),
            ):
                raise AssertionError("not reached")


def test_a_killed_stepper_lets_go_at_once_even_before_it_is_reaped(job: JobDir, tmp_path: Path) -> None:
    with running(STEPPER, str(tmp_path)) as other:
        say(other)
        assert hear(other) == "held"
        other.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # dead, and left as a zombie
        assert read_start_time(other.pid) is None
        assert job.find_lock_holder() is None
        with job.hold_lock(command="job step", since=SINCE):
            pass


@pytest.mark.parametrize("way", ["signs", "noted"])
def test_a_courier_goes_on_with_the_lock_when_its_stepper_is_killed(
    job: JobDir, tmp_path: Path, way: str
) -> None:
    with running(STARTER, str(tmp_path), COURIER, way) as stepper:
        heard = sorted([hear(stepper), hear(stepper)] if way == "noted" else [hear(stepper)])
        courier = int(heard[0].split()[0])
        assert heard[0].split()[1] == str(way != "signs")
        found = job.find_lock_holder()
        assert found is not None
        assert found.stepper is not None
        assert found.courier is not None
        assert (found.stepper.pid, found.courier.pid) == (stepper.pid, courier)
        assert not found.is_courier_alone
        stepper.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, stepper.pid, os.WEXITED | os.WNOWAIT)
        alone = Holder(None, found.courier)
        assert job.find_lock_holder() == alone
        assert job.find_lock_holder() == alone
        check_courier_alone(job, alone, stepper)


def check_courier_alone(job: JobDir, alone: Holder, stepper: subprocess.Popen[str]) -> None:
    """Busy for those who do not want to wait; those who do get the lock when the courier ends."""
    with (
        pytest.raises(Busy, match=r"the job is busy: (an agent \(courier pid|a running agent)") as caught,
        job.hold_lock(command="x", since=SINCE),
    ):
        raise AssertionError("not reached")
    assert "job step" in (caught.value.fix or "")
    told: list[Holder] = []

    def let_go(holder: Holder) -> None:
        told.append(holder)
        stop(stepper)

    with job.hold_lock(command="x", since=SINCE, wait_for_courier=True, on_wait=let_go) as lock:
        assert lock.waited_for_courier
        assert told == [alone]
        found = job.find_lock_holder()
        assert found is not None
        assert found.courier is None


def test_a_courier_that_did_not_come_to_sign_is_waited_for_too(job: JobDir, tmp_path: Path) -> None:
    with running(STARTER, str(tmp_path), COURIER, "silent") as stepper:
        hear(stepper)
        stepper.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, stepper.pid, os.WEXITED | os.WNOWAIT)
        with (
            pytest.raises(Busy, match=r"the job is busy: (an agent \(courier pid|a running agent)"),
            job.hold_lock(command="x", since=SINCE),
        ):
            raise AssertionError("not reached")
        threading.Timer(0.5, stop, [stepper]).start()
        with job.hold_lock(command="x", since=SINCE, wait_for_courier=True) as lock:
            assert not lock.waited_for_courier


def test_a_stepper_that_is_about_to_sign_is_not_taken_for_a_courier(job: JobDir) -> None:
    fd = os.open(job.path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    first = LockProcess(os.getpid(), read_start_time(os.getpid()) or 0, os.uname().nodename, "x", SINCE)
    _write_signature(fd, "stepper", first)
    began, told, ended = time.monotonic(), list[Holder](), list[bool]()

    def poll() -> None:
        if ended:
            _write_signature(fd, "stepper", first)
            os.close(fd)
        elif time.monotonic() - began > 2 * _UNSURE_SECONDS:
            _write_signature(fd, "stepper", None)
            ended.append(True)

    with job.hold_lock(
        command="y", since=SINCE, wait=60, wait_for_courier=True, on_wait=told.append, on_poll=poll
    ) as lock:
        assert told == [Holder(first, None)]
        assert not lock.waited_for_courier


def test_a_stepper_that_leaves_does_not_take_the_lock_from_its_courier(job: JobDir, tmp_path: Path) -> None:
    with running(STARTER, str(tmp_path), COURIER, "leaves") as stepper:
        courier = int(hear(stepper).split()[0])
        os.waitid(os.P_PID, stepper.pid, os.WEXITED | os.WNOWAIT)
        found = job.find_lock_holder()
        assert found is not None
        assert found.courier is not None
        assert (found.stepper, found.courier.pid) == (None, courier)
        check_courier_alone(job, found, stepper)


def test_a_pid_that_was_given_away_again_is_another_process(job: JobDir) -> None:
    with job.hold_lock(command="job step", since=SINCE):
        record = job.lock_file.read_bytes()
        born = str(read_start_time(os.getpid())).encode()
    job.lock_file.write_bytes(record.replace(born, b"1".ljust(len(born))))
    assert job.find_lock_holder() is None


def test_a_stepper_in_another_container_counts_as_alive_while_it_has_the_lock(job: JobDir) -> None:
    with job.hold_lock(command="job step", since=SINCE):
        host = os.uname().nodename.encode()
        record = job.lock_file.read_bytes()
        assert record.count(host) == 1
        job.lock_file.write_bytes(record.replace(host, b"X" * len(host)))
        found = job.find_lock_holder()
        assert found is not None
        assert found.stepper is not None
        with (
            pytest.raises(Busy, match="job step"),
            job.hold_lock(command="job step", since=SINCE, wait_for_courier=True),
        ):
            raise AssertionError("not reached")
        left = job.lock_file.read_bytes()
    job.lock_file.write_bytes(left)
    assert job.find_lock_holder() is None


def test_a_lock_file_with_anything_in_it_locks_as_well(job: JobDir) -> None:
    for content in (b"", b"{", b"[]", b'{"stepper":{"pid":1}}', b"\xff" * 5000):
        job.lock_file.write_bytes(content)
        assert job.find_lock_holder() is None
        with job.hold_lock(command='a "long" command ' * 100, since=SINCE):
            assert job.find_lock_holder() is not None


@pytest.mark.deep
def test_looking_never_makes_a_stepper_fail(job: JobDir) -> None:
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            job.find_lock_holder()

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(300):
            with job.hold_lock(command="job step", since=SINCE):
                pass
    finally:
        done.set()
        for reader in readers:
            reader.join()


def test_running_is_an_exchange_and_a_held_lock(job: JobDir) -> None:
    assert not job.has_running_agent()
    with job.hold_lock(command="job step", since=SINCE):
        assert not job.has_running_agent()
        job.begin_exchange(1, {})
        assert job.has_running_agent()
    assert not job.has_running_agent()
