"""The workers of a run on other machines: which of them has a free place, and which can't do what."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from logist.errors import LogistError, ProviderError
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from logist.agents.protocol import CodePaths
    from logist.agents.remote.cluster import Cluster, Worker
    from logist.core.text.json_object import JsonObject

POLL_SECONDS = 0.1
LIST_SECONDS = 1.0
"""How long one list of workers is used."""
UNFIT_SECONDS = 60.0
"""How long a worker that has refused a task, or did not answer, gets no other one of this kind."""


class PreparedCopy(NamedTuple):
    """A copy of a workspace on the machine of a worker, after its setup."""

    address: str
    commit: str
    code: CodePaths
    has_sandbox: bool
    """Whether commands run in a sandbox there."""


def build_failure_error(worker: Worker, error: Exception) -> ProviderError:
    """Return what to report of an unexpected error in a function of a worker."""
    return ProviderError(f"{type(error).__name__} on the worker: {error}", where=worker.name)


class NoFitWorker(ProviderError):
    """No worker can do a task; so none can do the same for other jobs."""


class WorkerPool:
    """The workers of one run. Its methods may be called from several threads."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._running: Counter[str] = Counter()
        self._unfit: dict[tuple[str, str], tuple[float, str]] = {}
        """By address and kind of task: until when, and why."""
        self._listed: tuple[float, list[Worker]] = (float("-inf"), [])
        self._last: dict[str, str] = {}
        """The address of the worker that had a job last, by the id of the job."""
        self.prepared: dict[str, PreparedCopy] = {}
        """The workspaces that were set up and not used since, by the id of the job."""
        self._machines: dict[str, str] = {}
        """The names of machines, by the addresses of their workers, as far as they are known."""
        self._changed = threading.Condition()

    @contextmanager
    def take_worker(self, kind: str, on_poll: Callable[[], None], job_id: str = "") -> Iterator[Worker]:
        """Hold a place of a worker inside the block; waits until there is one.

        It is the worker that had this job last, if it has a free place: it has the files of the job. Otherwise, it is the one
        with the most free places. `kind`: of the task; workers that have refused one of this kind are left out. `on_poll`
        may raise to give up. Raises NoFitWorker, SchedulerLost.
        """
        worker = self._wait_for_place(kind, on_poll, job_id)
        self._last[job_id] = worker.address
        try:
            yield worker
        finally:
            with self._changed:
                self._running[worker.address] -= 1
                self._changed.notify_all()

    def _wait_for_place(self, kind: str, on_poll: Callable[[], None], job_id: str) -> Worker:
        while True:
            on_poll()
            with self._changed:
                workers = self._list_workers()
                fit = [each for each in workers if self._find_reason(each, kind) is None]
                if not fit:
                    raise self._build_error(workers, kind)
                best = max(fit, key=lambda each: self._rank(each, job_id))
                if best.threads > self._running[best.address]:
                    self._running[best.address] += 1
                    return best
                self._changed.wait(POLL_SECONDS)

    def _rank(self, worker: Worker, job_id: str) -> tuple[bool, int, str]:
        free = worker.threads - self._running[worker.address]
        return (free > 0 and worker.address == self._last.get(job_id), free, worker.address)

    def refuse(self, worker: Worker, kind: str, reason: str) -> None:
        """Give a worker no tasks of this kind for a while."""
        with self._changed:
            self._unfit[worker.address, kind] = (time.monotonic() + UNFIT_SECONDS, reason)
            self._listed = (float("-inf"), [])  # it may be gone

    def has_fit_worker(self, kind: str) -> bool:
        """Whether any worker may get a task of this kind, at once or later. Raises SchedulerLost."""
        with self._changed:
            return any(self._find_reason(each, kind) is None for each in self._list_workers())

    def call(self, worker: Worker, function: Callable[..., Any], *args: Any, seconds: float = 30.0) -> Any:
        """Call a function on a worker beside its tasks: see `Cluster.call`. Raises only LogistErrors."""
        try:
            return self.cluster.call(worker, function, *args, seconds=seconds)
        except LogistError:
            raise
        except Exception as error:  # of another machine, such as one of its disk
            raise build_failure_error(worker, error) from error

    def describe_machine(self, worker: Worker, seconds: float = 30.0) -> JsonObject:
        """Return what a worker says about its machine. Raises WorkerLost, SchedulerLost, and what it raises."""
        from logist.agents.remote import worker as work  # noqa: PLC0415 - only a run with workers needs it

        machine: JsonObject = self.call(worker, work.describe_machine, seconds=seconds)
        with self._changed:
            self._machines[worker.address] = machine["machine"]
        return machine

    def find_machine(self, name: str) -> Worker | None:
        """Return a worker on a machine; None if none answers now. Raises SchedulerLost."""
        from logist.agents.remote.cluster import SchedulerLost  # noqa: PLC0415

        for worker in self.cluster.list_workers():
            try:
                if self._machines.get(worker.address, name) != name:
                    continue
                if self.describe_machine(worker, 5.0)["machine"] == name:
                    return worker
            except SchedulerLost:
                raise
            except LogistError:
                continue
        return None

    def count_all_places(self) -> int:
        """Return how many tasks all workers run at the same time. Raises SchedulerLost."""
        return sum(each.threads for each in self.list_workers())

    def count_places(self, worker: Worker) -> tuple[int, int]:
        """Return how many tasks the workers on the machine of this one run at the same time, and how many all do."""
        workers = self.list_workers()
        machine = self._machines.get(worker.address)
        here = sum(
            each.threads
            for each in workers
            if each.address == worker.address or (machine and self._machines.get(each.address) == machine)
        )
        return max(here, worker.threads), max(sum(each.threads for each in workers), worker.threads)

    def list_workers(self) -> list[Worker]:
        """Return the workers. Raises SchedulerLost."""
        with self._changed:
            return self._list_workers()

    def _list_workers(self) -> list[Worker]:
        at, workers = self._listed
        if time.monotonic() > at + LIST_SECONDS:
            workers = self.cluster.list_workers()
            self._listed = (time.monotonic(), workers)
        return workers

    def _find_reason(self, worker: Worker, kind: str) -> str | None:
        until, reason = self._unfit.get((worker.address, kind), (0.0, ""))
        return reason if time.monotonic() < until else None

    def _build_error(self, workers: list[Worker], kind: str) -> NoFitWorker:
        if not workers:
            message = f"the scheduler at {self.cluster.address} has no workers; nothing was sent"
            return NoFitWorker(message, fix="start workers for it, then run the command again")
        reasons = dict.fromkeys(filter(None, (self._find_reason(each, kind) for each in workers)))
        return NoFitWorker(
            f"no worker can do this; nothing was sent: {'; '.join(reasons)}",
            fix="correct this on one of these machines, then run the command again",
        )
