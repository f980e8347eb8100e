"""Dask distributed as the engine. Only its scheduler is reached from here; workers get calls, and return results, through it.

Dask writes the text of arguments and errors to its logs and pages. So calls and results travel as bytes.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import pickle
import secrets
import threading
import warnings
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import dask.config
import distributed
from distributed.scheduler import KilledWorker
from distributed.versions import VersionMismatchWarning

from logist.agents.remote.cluster import CALL_SECONDS, SchedulerLost, Worker, WorkerLost, WorkerUnfit
from logist.agents.remote.local_cluster import LocalCluster, start_local_cluster
from logist.agents.remote.parcels import RAISED, UNFIT, pack_parcel
from logist.errors import LogistError, UsageError

if TYPE_CHECKING:
    from distributed.security import Security

CONNECT_SECONDS = 5.0
SCHEDULER_SECONDS = 30.0
"""How long the scheduler may take to answer: a busy one takes seconds."""
WATCH_SECONDS = 1.0
"""Seconds between two looks at which workers there are."""
LEAVE_SECONDS, LOST_SECONDS = 2.0, 0.1
"""How long saying goodbye may take; to a scheduler that is lost: Dask would try to reach it again."""


class DaskCluster:
    """A connection to a Dask scheduler, kept by a separate thread, and the local cluster if one was started here."""

    def __init__(
        self, address: str, security: Security | None = None, local: LocalCluster | None = None
    ) -> None:
        self.address, self.is_local = address, local is not None
        self._security, self._local = security, local
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._leaving = asyncio.Event()
        self._lost: SchedulerLost | None = None
        self._departures: dict[str, asyncio.Future[None]] = {}
        """For each worker with tasks: a future that is done when the worker has left."""
        self._connected: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._serve, name="logist-dask", daemon=True)

    @classmethod
    def connect(cls, address: str, security: Security | None = None) -> DaskCluster:
        """Connect to a scheduler, with the TLS settings of Dask's own configuration. Raises SchedulerLost."""
        cluster = cls(address, security)
        cluster._begin()
        return cluster

    @classmethod
    def start(cls, count: int, threads: int, environment: Mapping[str, str]) -> DaskCluster:
        """Start a scheduler and workers on this machine, which end with this process. Raises ProviderError."""
        local = start_local_cluster(count, threads, environment)
        cluster = cls(local.address, local.build_security(), local)
        try:
            cluster._begin()
        except SchedulerLost:
            local.close()
            raise
        return cluster

    def find_loss(self) -> SchedulerLost | None:
        """Return why the scheduler is lost; it is asked once a second."""
        return self._lost

    def list_workers(self) -> list[Worker]:
        """Return the workers that the scheduler knows."""
        identity = self._wait(self._ask_scheduler("identity"))
        return [
            Worker(address, str(each["name"]), int(each["nthreads"]))
            for address, each in sorted(identity["workers"].items())
        ]

    def get_executor(self, worker: Worker) -> concurrent.futures.Executor:
        """Return an executor for this worker."""
        return _PinnedExecutor(self, worker)

    def submit(self, worker: Worker, key: str, parcel: bytes) -> concurrent.futures.Future[Any]:
        """Run a parcel once on a worker."""
        if self._lost is not None:
            failed: concurrent.futures.Future[Any] = concurrent.futures.Future()
            failed.set_exception(self._lost)
            return failed
        return asyncio.run_coroutine_threadsafe(self._follow(worker, key, parcel), self._loop)

    def call(
        self, worker: Worker, function: Callable[..., Any], *args: Any, seconds: float = CALL_SECONDS
    ) -> Any:
        """Call a function on a worker in a thread beside its tasks."""
        return self._wait(self._call(worker, pack_parcel(function, args, {}), seconds))

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # the loop ended by itself
                self._loop.call_soon_threadsafe(self._leaving.set)
            self._thread.join(LEAVE_SECONDS * 2)
        if self._local is not None:
            self._local.close()

    def _begin(self) -> None:
        self._thread.start()
        self._connected.result()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._keep_connection())
        finally:
            self._lost = self._lost or self._build_lost_error("the connection is closed")
            _cancel_all(self._loop)
            self._loop.close()

    async def _keep_connection(self) -> None:
        options = {} if self._security is None else {"security": self._security}
        try:
            self._client = distributed.Client(
                self.address, asynchronous=True, set_as_default=False, timeout=CONNECT_SECONDS, **options
            )
            # Dask's own limit doesn't cover a server of another kind, which accepts the connection.
            await asyncio.wait_for(self._client, CONNECT_SECONDS * 1.5)
        except Exception as error:  # noqa: BLE001 - whatever answers at a wrong address
            self._connected.set_exception(self._explain_connecting(error))
            await self._close_client(LOST_SECONDS)
            return
        self._connected.set_result(None)
        watching = asyncio.ensure_future(self._watch())
        await asyncio.wait(
            {watching, asyncio.ensure_future(self._leaving.wait())}, return_when="FIRST_COMPLETED"
        )
        seconds = LEAVE_SECONDS if self._lost is None else LOST_SECONDS
        self._lose_scheduler("the connection is closed")
        await asyncio.sleep(0)  # those who wait get the error first
        await self._close_client(seconds)

    async def _close_client(self, seconds: float) -> None:
        if self._client is not None:
            with suppress(Exception):
                await asyncio.wait_for(self._client.close(), seconds)
            self._client.status = (
                "closed"  # else, when it is deleted, it tries again in a loop that has ended
            )

    def _explain_connecting(self, error: Exception) -> LogistError:
        if isinstance(error, ValueError):  # of Dask's own reading of addresses
            fix = "use tcp://HOST:8786, or tls://HOST:8786"
            return UsageError(f"not a scheduler's address: {_describe(error)}", where="--scheduler", fix=fix)
        if "TLS" in str(error):
            fix = "name them in Dask's configuration: see TLS in docs/cluster.md"
            return UsageError("no certificates for a scheduler with TLS", where=self.address, fix=fix)
        return self._build_lost_error(_describe(error))

    async def _watch(self) -> None:
        """Notice which workers have left, until the scheduler is lost."""
        while self._lost is None:
            try:
                present = await self._ask_scheduler("ncores")
            except SchedulerLost:
                return
            for address in [each for each in self._departures if each not in present]:
                self._departures.pop(address).set_result(None)
            await asyncio.sleep(WATCH_SECONDS)

    async def _ask_scheduler(self, operation: str) -> Any:
        if self._lost is not None:
            raise self._lost
        if self._client.status != "running":
            raise self._lose_scheduler("the connection broke")
        try:
            return await asyncio.wait_for(getattr(self._client.scheduler, operation)(), SCHEDULER_SECONDS)
        except (OSError, TimeoutError) as error:
            raise self._lose_scheduler(_describe(error)) from error

    def _lose_scheduler(self, why: str) -> SchedulerLost:
        self._lost = self._lost or self._build_lost_error(why)
        for departure in self._departures.values():
            departure.set_exception(self._lost)
            departure.exception()  # it may have no reader
        self._departures.clear()
        return self._lost

    def _build_lost_error(self, why: str) -> SchedulerLost:
        fix = "check that `dask scheduler` runs there and can be reached, then run the command again"
        return SchedulerLost(f"can't reach the Dask scheduler: {why}", where=self.address, fix=fix)

    async def _follow(self, worker: Worker, key: str, parcel: bytes) -> Any:
        if worker.address not in await self._ask_scheduler("ncores"):
            raise _build_gone_error(worker)  # Dask would wait for it without an end
        departure = self._departures.get(worker.address)
        if departure is None:
            departure = self._departures[worker.address] = self._loop.create_future()
        task = self._client.submit(
            pickle.loads,
            parcel,
            key=key,
            workers=[worker.address],
            allow_other_workers=False,
            retries=0,
            pure=False,
        )
        result = asyncio.ensure_future(_fetch(task))
        try:
            waited: list[asyncio.Future[Any]] = [result, departure]
            await asyncio.wait(waited, return_when="FIRST_COMPLETED")
            if result.done():
                return _unpack(worker, await self._explain(worker, result))
            departure.result()
            raise _build_gone_error(worker)
        finally:
            result.cancel()
            if self._lost is None:
                with suppress(Exception):
                    await task.cancel()

    async def _call(self, worker: Worker, parcel: bytes, seconds: float) -> Any:
        if worker.address not in await self._ask_scheduler("ncores"):
            raise _build_gone_error(worker)
        asked = self._client.run(asyncio.to_thread, pickle.loads, parcel, workers=[worker.address])
        try:
            answers = await asyncio.wait_for(asked, seconds)
        except TimeoutError as error:
            await self._ask_scheduler("ncores")
            raise WorkerLost(f"no answer within {seconds:g} seconds", where=worker.name) from error
        except (OSError, ModuleNotFoundError, AttributeError) as error:
            await self._ask_scheduler("ncores")
            raise _translate(worker, error) from error
        return _unpack(worker, answers[worker.address])

    async def _explain(self, worker: Worker, result: asyncio.Future[bytes]) -> bytes:
        """Return the result of a task. Raises the reason if there is none."""
        try:
            return result.result()
        except (asyncio.CancelledError, concurrent.futures.CancelledError) as error:
            raise self._lose_scheduler("the connection broke") from error
        except Exception as error:  # whatever Dask raises
            await self._ask_scheduler("ncores")
            raise _translate(worker, error) from error

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        if self._lost is not None:
            work.close()
            raise self._lost
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _PinnedExecutor(concurrent.futures.Executor):
    def __init__(self, cluster: DaskCluster, worker: Worker) -> None:
        self._cluster, self._worker = cluster, worker

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """Run a function once on the worker. Its task has the key of the argument, if that is a dict with one."""
        named = args[0].get("key") if args and isinstance(args[0], dict) else None
        key = named if isinstance(named, str) else f"logist-{secrets.token_hex(16)}"
        return self._cluster.submit(self._worker, key, pack_parcel(fn, args, kwargs))


async def _fetch(task: Any) -> bytes:
    result = await task
    assert isinstance(result, bytes)
    return result


def _unpack(worker: Worker, answer: bytes) -> Any:
    kind, value = pickle.loads(answer)  # noqa: S301 - from our own function
    if kind == RAISED:
        raise value
    if kind == UNFIT:
        raise _build_unfit_error(worker, value)
    return value


def _translate(worker: Worker, error: BaseException) -> Exception:
    if isinstance(error, ModuleNotFoundError | AttributeError):
        return _build_unfit_error(worker, str(error))
    if isinstance(error, KilledWorker):
        return WorkerLost("the worker died while it ran the task", where=worker.name)
    return WorkerLost(f"can't reach the worker: {_describe(error)}", where=worker.name)


def _build_unfit_error(worker: Worker, why: str) -> WorkerUnfit:
    fix = "install the Logist of this machine in the Python environment that runs `dask worker` there"
    return WorkerUnfit(f"this worker has no Logist, or another version: {why}", where=worker.name, fix=fix)


def _build_gone_error(worker: Worker) -> WorkerLost:
    return WorkerLost("the worker has left the cluster", where=worker.name)


def _describe(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    text = str(error).partition("\n")[0]
    if text.startswith("in <"):  # `in <TCP (closed) ... local=... remote=...>: `, and then the reason
        text = text.rpartition(">: ")[2]
    return text or type(error).__name__


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """End what is left of a loop, so that nothing is reported about it later."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=LEAVE_SECONDS))


def _silence() -> None:
    """Keep what Dask would print off the terminal; each problem that matters raises an error here."""
    for name in ("distributed", "dask", "tornado", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [logging.NullHandler()]
        logger.propagate = False
    for name in [*logging.root.manager.loggerDict]:
        if name.startswith("distributed."):
            logger = logging.getLogger(name)
            logger.handlers.clear()
            logger.propagate = True
    warnings.filterwarnings("ignore", category=VersionMismatchWarning)
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"})


_silence()
