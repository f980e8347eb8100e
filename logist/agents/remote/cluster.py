"""What a dispatcher needs from an engine that carries tasks to workers, and how it opens one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from logist.errors import ProviderError, UsageError
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from concurrent.futures import Executor

CALL_SECONDS = 30.0
"""How long a worker may take to answer a call beside its tasks."""
DASK = "dask"


class Worker(NamedTuple):
    """A process that runs tasks; a machine may have several."""

    address: str
    """Where the engine reaches it, unique in the cluster; another one after a restart."""
    name: str
    """For people."""
    threads: int
    """How many tasks it runs at the same time."""


class WorkerLost(ProviderError):
    """A worker has left the cluster, or did not answer in time. Its task may still be running."""


class WorkerUnfit(ProviderError):
    """A worker can't run tasks of this Logist at all: it has none, or one that is too old."""


class SchedulerLost(ProviderError):
    """The scheduler can't be reached, or not any more. Tasks may still be running on workers."""


class Cluster(Protocol):
    """Workers, and the ways to reach them. All methods may be called from any thread."""

    address: str
    """Of the scheduler."""

    def find_loss(self) -> SchedulerLost | None:
        """Return why the scheduler can't be reached any more; None as long as it answers. Never waits."""
        ...

    def list_workers(self) -> list[Worker]:
        """Return the workers that can get tasks now. Raises SchedulerLost."""
        ...

    def get_executor(self, worker: Worker) -> Executor:
        """Return an executor whose tasks run on this worker only, and are not started again after a failure.

        Its futures raise WorkerLost, WorkerUnfit, SchedulerLost, or what the function raised. A future that is canceled
        doesn't begin if it waits; one that runs continues, and its result is dropped.
        """
        ...

    def call(
        self, worker: Worker, function: Callable[..., Any], *args: Any, seconds: float = CALL_SECONDS
    ) -> Any:
        """Call a function on a worker beside its tasks, also if all its threads are busy, and return the result.

        Raises WorkerLost, also if there is no answer in time, WorkerUnfit, SchedulerLost, or what the function raised.
        """
        ...

    def close(self) -> None:
        """Leave the cluster, quickly and silently. Futures that are not done raise SchedulerLost."""
        ...


def open_cluster(
    on: str,
    scheduler: str | None = None,
    parallel: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Cluster:
    """Open the cluster that `logist run --on` names: `dask` with a scheduler's address, or `dask:N`, N processes here.

    `parallel`: how many tasks a local cluster runs at the same time, at least; by default one for each process.
    `environment`: the variables of the processes of a local cluster. Raises UsageError, ProviderError or SchedulerLost.
    """
    count = parse_engine(on, scheduler)
    dask_cluster = _load_dask()
    if scheduler is not None:
        return dask_cluster.DaskCluster.connect(scheduler)  # type: ignore[no-any-return]
    assert count is not None
    threads = -(-max(parallel or 0, count) // count)
    return dask_cluster.DaskCluster.start(count, threads, environment or {})  # type: ignore[no-any-return]


def parse_engine(on: str, scheduler: str | None) -> int | None:
    """Return how many processes a local cluster is to have; None for a cluster that runs already. Raises UsageError."""
    name, colon, count = on.partition(":")
    if name != DASK:
        raise UsageError(
            f"unknown engine: {on!r}",
            where="--on",
            fix="use dask with --scheduler, or dask:4 for 4 processes here",
        )
    if not colon:
        if scheduler is None:
            fix = "add --scheduler tcp://HOST:8786, or use dask:4 for 4 processes on this machine"
            raise UsageError("no scheduler for the engine dask", where="--on", fix=fix)
        return None
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= MOST_LOCAL):
        fix = f"use a number from 1 to {MOST_LOCAL}, such as dask:4"
        raise UsageError(f"not a number of processes: {count!r}", where="--on", fix=fix)
    if scheduler is not None:
        fix = f"leave out --scheduler, or use --on {DASK}"
        raise UsageError(f"{on} starts a scheduler of its own", where="--scheduler", fix=fix)
    return int(count)


MOST_LOCAL = 256
"""So many processes of a local cluster are surely a typo."""


def _load_dask() -> Any:
    try:
        from logist.agents.remote import dask_cluster
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "logist":
            raise
        fix = "install Logist with the extra `dask`: see Install in its README"
        message = f"Dask needs the package {error.name}, which is not installed"
        raise ProviderError(message, where="--on", fix=fix) from None
    return dask_cluster
