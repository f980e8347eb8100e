"""Work in several processes: the order of the results, stops in the middle, and workers that are killed."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from logist.errors import StorageError
from logist.jobs.archive.worker_processes import AHEAD, map_in_processes
from tests import support

SLEEPING = """
from logist.jobs.archive.worker_processes import map_in_processes
from tests.jobs.test_worker_processes import sleep_unless_first
for each in map_in_processes(sleep_unless_first, [0, 1, 2], 2):
    print(each, flush=True)
"""


def sleep_unless_first(item: int) -> int:
    time.sleep(600 * bool(item))
    return item


def test_results_come_in_the_order_of_the_items() -> None:
    released = multiprocessing.get_context("fork").Event()

    def work(item: int) -> tuple[int, int]:
        if item:
            released.set()
        else:
            released.wait(30)  # the first one is done after another one
        return item, os.getpid()

    results = list(map_in_processes(work, range(5), 2))
    assert [item for item, _ in results] == list(range(5))
    assert os.getpid() not in {pid for _, pid in results}
    assert len({pid for _, pid in results}) == 2


def test_a_result_that_is_late_lets_only_some_others_wait() -> None:
    done = multiprocessing.get_context("fork").Semaphore(0)

    def work(item: int) -> int:
        if item:
            done.release()
        else:
            for _ in range(2 * AHEAD - 1):
                done.acquire(timeout=30)
            assert not done.acquire(timeout=0.2)  # nothing more was begun
        return item

    assert list(map_in_processes(work, range(100), 2)) == list(range(100))


def test_a_caller_that_stops_ends_the_processes() -> None:
    results = map_in_processes(sleep_unless_first, [0, 1, 2], 2)
    assert next(results) == 0
    assert len(multiprocessing.active_children()) == 2
    results.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_a_killed_worker_is_an_error() -> None:
    with pytest.raises(StorageError, match="a worker process ended unexpectedly"):
        list(map_in_processes(lambda item: os.kill(os.getpid(), signal.SIGKILL), [0, 1, 2], 2))
    assert multiprocessing.active_children() == []


def test_more_processes_than_there_can_be_are_an_error() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
    try:
        with pytest.raises(StorageError, match=r"start worker process .*: Too many open files"):
            list(map_in_processes(lambda item: item, range(200), 200))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert multiprocessing.active_children() == []


def test_workers_ignore_ctrl_c() -> None:
    def work(item: int) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return item

    assert list(map_in_processes(work, [1, 2, 3], 2)) == [1, 2, 3]


def test_ctrl_c_ends_all_processes_and_only_one_tells() -> None:
    argv = [sys.executable, "-c", SLEEPING]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, cwd=support.ROOT, stdout=pipe, stderr=pipe, start_new_session=True
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"0\n"
        os.killpg(started.pid, signal.SIGINT)
        told = started.communicate(timeout=60)[1]
    assert told.count(b"Traceback") == 1
    with pytest.raises(ProcessLookupError):
        os.killpg(started.pid, 0)
