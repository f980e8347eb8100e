"""Dask as the engine, with real processes: tasks stay with their worker, and each loss is an error here, soon and in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from logist.agents.remote.cluster import Cluster, SchedulerLost, Worker, WorkerLost, WorkerUnfit, open_cluster
from logist.agents.remote.dask_cluster import DaskCluster
from logist.agents.remote.threads import ThreadCluster
from logist.errors import UsageError
from tests.dask_bench import DaskProcesses, is_running, list_below, list_listening, stop, wait_until
from tests.support import process_environment

WAIT = 60.0
SECRET = "an-argument-that-nobody-is-to-read"


def named(cluster: Cluster, *names: str) -> list[Worker]:
    """Wait until exactly these workers are there."""

    def find() -> list[Worker] | None:
        by_name = {worker.name: worker for worker in cluster.list_workers()}
        return [by_name[name] for name in names] if set(by_name) == set(names) else None

    return wait_until(find)


def begin(
    cluster: Cluster, worker: Worker, seconds: float, function: Callable[..., int] | None = None
) -> Future[Any]:
    """Begin a task, and return when it runs."""
    before = cluster.call(worker, count_sleepers)
    task = cluster.get_executor(worker).submit(function or sleep, seconds)
    wait_until(lambda: cluster.call(worker, count_sleepers) > before)
    return task


def lost(task: Future[Any]) -> Exception:
    error = task.exception(WAIT)
    assert isinstance(error, Exception)
    return error


# The functions that workers run; they import this module.
SLEEPERS: list[float] = []
WOKEN = threading.Event()


def sleep(seconds: float, spool: str | None = None) -> int:
    SLEEPERS.append(seconds)
    time.sleep(seconds)
    return os.getpid()


def sleep_until_woken(seconds: float, spool: str | None = None) -> int:
    SLEEPERS.append(seconds)
    assert WOKEN.wait(seconds)
    return os.getpid()


def wake(spool: str | None = None) -> None:
    WOKEN.set()


def count_sleepers(spool: str | None = None) -> int:
    return len(SLEEPERS)


def tell_process(spool: str | None = None) -> int:
    return os.getpid()


def tell_environment(spool: str | None = None) -> dict[str, str]:
    return dict(os.environ)


def fail(text: object, spool: str | None = None) -> None:
    raise UsageError(f"no {text}", where="here", fix="do better")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dask")


@pytest.fixture(scope="module")
def local(folder: Path) -> Iterator[DaskCluster]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "MY_KEY": "k"}
    with closing(DaskCluster.start(2, 1, environment)) as cluster:
        yield cluster


def test_a_task_runs_on_its_worker_and_a_call_beside_it(local: DaskCluster) -> None:
    first, second = named(local, *(worker.name for worker in local.list_workers()))
    assert (first.threads, second.threads) == (1, 1)
    task = begin(local, first, WAIT, sleep_until_woken)
    queued = local.get_executor(first).submit(sleep, 0.0)
    pid = local.call(first, tell_process)
    assert not task.done()
    local.call(first, wake)
    assert task.result(WAIT) == pid == queued.result(WAIT)
    assert (
        local.get_executor(second).submit(sleep, 0.0).result(WAIT) == local.call(second, tell_process) != pid
    )


def test_what_a_function_raises_comes_back_whole(local: DaskCluster) -> None:
    worker = local.list_workers()[0]
    assert str(lost(local.get_executor(worker).submit(fail, "luck"))) == "here: no luck (do better)"
    with pytest.raises(UsageError, match=r"^here: no luck \(do better\)$"):
        local.call(worker, fail, "luck")


def test_local_workers_have_only_the_given_variables(local: DaskCluster, folder: Path) -> None:
    environment = local.call(local.list_workers()[0], tell_environment)
    own = {name for name in environment if not name.endswith("_NUM_THREADS")}
    dask = {"__DASK_PARENT_PID", "MALLOC_TRIM_THRESHOLD_", "PYTHONHASHSEED", "PYTHONPATH", "LC_CTYPE"}
    assert own - dask == {"PATH", "HOME", "TMPDIR", "MY_KEY"}


def test_a_local_cluster_listens_on_this_machine_only_and_without_its_key_nobody_gets_in(
    local: DaskCluster,
) -> None:
    assert local._local is not None
    pids = list_below(local._local.pid)
    addresses = list_listening(pids)
    assert len(pids) >= 3
    assert len(addresses) >= 3
    assert {address.partition(":")[0] for address in addresses} == {"0100007F"}
    for address in (local.address, local.address.replace("tls", "tcp")):
        with pytest.raises((SchedulerLost, UsageError)):
            DaskCluster.connect(address)


def test_a_killed_worker_is_lost_and_another_takes_its_place(local: DaskCluster) -> None:
    worker = local.list_workers()[0]
    task = begin(local, worker, 600.0)
    os.kill(local.call(worker, tell_process), signal.SIGKILL)
    assert isinstance(lost(task), WorkerLost)
    wait_until(lambda: len(local.list_workers()) == 2 and worker not in local.list_workers())
    assert isinstance(lost(local.get_executor(worker).submit(sleep, 0.0)), WorkerLost)
    with pytest.raises(WorkerLost):
        local.call(worker, tell_process)


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("end", ["killed", "close"])
def test_the_processes_of_a_local_cluster_end(tmp_path: Path, end: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    cluster = DaskCluster.start(1, 1, environment)
    assert cluster._local is not None
    pids = list_below(cluster._local.pid)
    task = begin(cluster, cluster.list_workers()[0], 600.0)
    if end == "killed":
        os.kill(cluster._local.pid, signal.SIGKILL)
        assert isinstance(lost(task), SchedulerLost)
    cluster.close()
    wait_until(lambda: not any(map(is_running, pids)))
    assert isinstance(lost(task), SchedulerLost)
    with pytest.raises(SchedulerLost):
        cluster.list_workers()
    cluster.close()


def test_a_foreign_scheduler_and_everything_that_gets_lost(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        DaskProcesses(tmp_path) as dask,
        closing(open_cluster("dask", dask.address)) as cluster,
    ):
        killed, hanging, idle = (dask.start_worker(name) for name in ("a", "b", "c"))
        first, second, third = named(cluster, "a", "b", "c")

        # Arguments, results and errors are in no log and on no page.
        task = cluster.get_executor(third).submit(fail, {"key": "job/1/ticket", "key_of": SECRET})
        assert SECRET in str(lost(task))

        # Killed: by itself, Dask would wait for a worker with this address.
        task = begin(cluster, first, 60.0)
        killed.kill()
        assert isinstance(lost(task), WorkerLost)

        # Stopped: a call fails in its time, a task when the scheduler gives the worker up. Awake again, it ends.
        task = begin(cluster, second, 4.0)
        stop(hanging)
        with pytest.raises(WorkerLost, match="no answer within 1 seconds"):
            cluster.call(second, tell_process, seconds=1.0)
        assert isinstance(lost(task), WorkerLost)
        hanging.send_signal(signal.SIGCONT)
        assert hanging.wait(WAIT) == 0
        assert [worker.name for worker in cluster.list_workers()] == ["c"]

        # The scheduler: all tasks at once, and its workers end by themselves.
        tasks = [begin(cluster, third, 4.0), cluster.get_executor(third).submit(sleep, 0.0)]
        assert cluster.find_loss() is None
        dask.scheduler.kill()
        assert [type(lost(task)) for task in tasks] == [SchedulerLost, SchedulerLost]
        assert cluster.find_loss() is not None
        with pytest.raises(SchedulerLost, match="can't reach the Dask scheduler"):
            cluster.call(third, tell_process)
        assert idle.wait(WAIT) == 0
        assert SECRET not in dask.read_log("worker") + dask.read_log("scheduler")
    assert capfd.readouterr() == ("", "")


def test_a_worker_without_logist_is_named(tmp_path: Path) -> None:
    with (
        DaskProcesses(tmp_path) as dask,
        closing(open_cluster("dask", dask.address)) as cluster,
    ):
        dask.start_worker("bare", PYTHONPATH=str(dask.without_logist))
        (worker,) = named(cluster, "bare")
        message = "^bare: this worker has no Logist, or another version"
        with pytest.raises(WorkerUnfit, match=message):
            cluster.get_executor(worker).submit(sleep, 0.0).result(WAIT)
        with pytest.raises(WorkerUnfit, match=message):
            cluster.call(worker, tell_process)
        assert cluster.list_workers() == [worker]


def test_a_worker_keeps_its_own_logs() -> None:
    """What is silenced here must not be silenced there: a worker doesn't load the module that does so."""
    code = "import sys, logist.agents.remote.worker, logist.agents.remote.parcels; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=process_environment(), capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "logist.agents.remote.parcels" in loaded
    assert not {"dask", "distributed", "logist.agents.remote.dask_cluster"} & set(loaded)


@pytest.mark.deep
def test_large_arguments_and_results(local: DaskCluster) -> None:
    executor = local.get_executor(local.list_workers()[0])
    assert executor.submit(len, bytes(200 << 20)).result(300) == 200 << 20
    assert len(executor.submit(bytes, 200 << 20).result(300)) == 200 << 20


def test_threads_behave_like_an_engine(tmp_path: Path) -> None:
    cluster = ThreadCluster(tmp_path, 2)
    first, second = cluster.list_workers()
    assert cluster.get_executor(first).submit(tell_process).result(WAIT) == os.getpid()
    task = cluster.get_executor(first).submit(fail, "luck")
    assert str(lost(task)) == "here: no luck (do better)"
    task = begin(cluster, second, 1.0)
    cluster.lose_worker(second)
    assert isinstance(lost(task), WorkerLost)
    assert isinstance(lost(cluster.get_executor(second).submit(sleep, 0.0)), WorkerLost)
    again = cluster.add_worker(second.name)
    assert (again.name, again.address != second.address) == (second.name, True)
    task = begin(cluster, again, 1.0)
    cluster.close()
    assert isinstance(lost(task), SchedulerLost)
    assert cluster.find_loss() is not None
    with pytest.raises(SchedulerLost):
        cluster.call(first, tell_process)
