"""A cluster in this process: its machines are directories, its tasks threads. For tests, and as the plainest example."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, InvalidStateError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from pathlib import Path
from typing import Any

from logist.agents.remote.cluster import CALL_SECONDS, SchedulerLost, Worker, WorkerLost


class ThreadCluster:
    """Machines as directories of `folder`; each is the spool of the functions that run there, as their argument `spool`."""

    def __init__(self, folder: Path, count: int, threads: int = 1) -> None:
        self.address = f"threads:{folder}"
        self._folder, self._threads = folder, threads
        self._machines: dict[str, _Machine] = {}
        self._next = 0
        self._closed = False
        self._lock = threading.Lock()
        for _ in range(count):
            self.add_worker()

    def add_worker(self, name: str | None = None) -> Worker:
        """Add a worker; one of a machine that was there before, by its name, has a new address."""
        with self._lock:
            self._next += 1
            name = name or f"machine-{self._next}"
            spool = self._folder / name
            spool.mkdir(parents=True, exist_ok=True)
            worker = Worker(f"thread://{name}/{self._next}", name, self._threads)
            self._machines[worker.address] = _Machine(worker, str(spool))
            return worker

    def lose_worker(self, worker: Worker) -> None:
        """Do as if the network to a worker was gone: its functions continue, and nobody gets their results."""
        with self._lock:
            machine = self._machines.pop(worker.address)
        machine.leave(WorkerLost("the worker has left the cluster", where=worker.name))

    def lose_scheduler(self) -> None:
        """Do as if the scheduler had died."""
        with self._lock:
            self._closed = True
            machines = [*self._machines.values()]
        for machine in machines:
            machine.leave(self._build_lost_error())

    def find_loss(self) -> SchedulerLost | None:
        """Return an error once the scheduler was lost."""
        return self._build_lost_error() if self._closed else None

    def list_workers(self) -> list[Worker]:
        """Return the workers that were added and not lost."""
        with self._lock:
            if self._closed:
                raise self._build_lost_error()
            return [machine.worker for machine in self._machines.values()]

    def get_executor(self, worker: Worker) -> Executor:
        """Return the executor of a worker, which a lost one has too: its futures fail."""
        with self._lock:
            machine = self._machines.get(worker.address)
            if self._closed:
                return _Nowhere(self._build_lost_error())
        return machine or _Nowhere(_build_gone_error(worker))

    def call(
        self, worker: Worker, function: Callable[..., Any], *args: Any, seconds: float = CALL_SECONDS
    ) -> Any:
        """Call a function in a thread of its own."""
        with self._lock:
            machine = self._machines.get(worker.address)
            if self._closed:
                raise self._build_lost_error()
        if machine is None:
            raise _build_gone_error(worker)
        beside = ThreadPoolExecutor(1, "logist-call")
        try:
            return beside.submit(function, *args, spool=machine.spool).result(seconds)
        except FutureTimeout as error:
            raise WorkerLost(f"no answer within {seconds:g} seconds", where=worker.name) from error
        finally:
            beside.shutdown(wait=False)

    def close(self) -> None:
        """End like a scheduler; functions that run continue."""
        self.lose_scheduler()

    def _build_lost_error(self) -> SchedulerLost:
        return SchedulerLost("the cluster is closed", where=self.address)


def _build_gone_error(worker: Worker) -> WorkerLost:
    return WorkerLost("the worker has left the cluster", where=worker.name)


class _Machine(Executor):
    """Runs functions in threads, with the spool of its machine."""

    def __init__(self, worker: Worker, spool: str) -> None:
        self.worker, self.spool = worker, spool
        self._threads = ThreadPoolExecutor(worker.threads, f"logist-{worker.name}")
        self._pending: set[Future[Any]] = set()
        self._left: Exception | None = None
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function once, in a thread of this machine."""
        result: Future[Any] = Future()
        with self._lock:
            if self._left is not None:
                result.set_exception(self._left)
                return result
            self._pending.add(result)
        result.add_done_callback(self._pending.discard)
        self._threads.submit(_run, result, fn, args, kwargs | {"spool": self.spool})
        return result

    def leave(self, error: Exception) -> None:
        """Fail what is not done, and all that comes."""
        with self._lock:
            self._left, pending = error, [*self._pending]
        for each in pending:
            with suppress(InvalidStateError):
                each.set_exception(error)
        self._threads.shutdown(wait=False)


class _Nowhere(Executor):
    """Fails everything with the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return a future that has failed."""
        result: Future[Any] = Future()
        result.set_exception(self._error)
        return result


def _run(
    result: Future[Any], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Run a function for a future that may be canceled or failed meanwhile."""
    if result.done():
        return
    try:
        value = function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - it is the caller's
        with suppress(InvalidStateError):
            result.set_exception(error)
    else:
        with suppress(InvalidStateError):
            result.set_result(value)
