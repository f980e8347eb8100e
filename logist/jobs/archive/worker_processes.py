"""Does the same work for many items in several processes, and returns the results in the order of the items.

The standard pools don't fit: `multiprocessing.Pool` waits forever for a worker that was killed, and
`concurrent.futures` can't stop a worker in the middle of its work, as Ctrl-C must.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from logist.errors import StorageError

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 16
"""How many results of each process may wait for an earlier one; they are in memory."""


def map_in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> Iterator[Result]:
    """Yield `work(item)` for every item, in order; results are pickled, but neither the work nor the items.

    If the caller stops early, so do the processes. `work` raises nothing that anybody expects. Raises StorageError if a
    process ends anyway, for example because it is killed for its memory, or if there can't be so many.
    """
    workers = [_Worker(work, items) for _ in range(min(processes, len(items)))]
    try:
        for number, worker in enumerate(workers):
            try:
                worker.start(workers[:number])
            except OSError as error:  # too many open files or processes, no memory
                message = f"can't start worker process {number + 1}: {error.strerror}"
                raise StorageError(message, fix="use fewer --jobs") from error
        yield from _collect_in_order(workers, len(items), AHEAD * len(workers))
    finally:
        for worker in workers:
            worker.stop()


def _collect_in_order(workers: list[_Worker[Item, Result]], count: int, ahead: int) -> Iterator[Result]:
    results: dict[int, Result] = {}
    assigned = 0
    for due in range(count):
        while due not in results:
            for worker in workers:
                if worker.is_idle and assigned < min(count, due + ahead):
                    worker.assign(assigned)
                    assigned += 1
            working = {worker.connection: worker for worker in workers if not worker.is_idle}
            for connection in wait(list(working)):
                number, result = working[connection].receive()  # type: ignore[index]
                results[number] = result
        yield results.pop(due)


class _Worker(Generic[Item, Result]):
    """One process. It gets numbers of items, and sends back each number with its result."""

    def __init__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self.is_idle = True
        self._work = work
        self._items = items
        self._process: BaseProcess | None = None

    def start(self, earlier: Sequence[_Worker[Item, Result]]) -> None:
        """Fork the process, after those of `earlier`, whose connections it must not keep open."""
        self.connection, far_end = multiprocessing.Pipe()
        inherited = [self.connection, *(worker.connection for worker in earlier)]
        # A fork has the modules, the roles and the items already.
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=self._run, args=(far_end, inherited), daemon=True)
        # Until the process ignores Ctrl-C, it must not get one: it would print a traceback.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        far_end.close()

    def assign(self, number: int) -> None:
        """Let it work on the item with this number."""
        self.is_idle = False
        try:
            self.connection.send(number)
        except OSError as error:
            raise self._describe_death() from error

    def receive(self) -> tuple[int, Result]:
        """Return the number of its item, and the result."""
        try:
            received: tuple[int, Result] = self.connection.recv()
        except (EOFError, OSError) as died:
            raise self._describe_death() from died
        self.is_idle = True
        return received

    def stop(self) -> None:
        """End the process, also in the middle of its work: it writes nothing."""
        if self._process is not None and self._process.pid is not None:
            self.connection.close()
            self._process.terminate()
            self._process.join()

    def _describe_death(self) -> StorageError:
        return StorageError(
            "a worker process ended unexpectedly",
            fix="if memory is short, use fewer --jobs; then run the command again",
        )

    def _run(self, far_end: Connection, inherited: Sequence[Connection]) -> None:
        # Ctrl-C is sent to all processes of the terminal; the first one stops the others.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        for connection in inherited:
            connection.close()
        while True:
            try:
                number = far_end.recv()
                far_end.send((number, self._work(self._items[number])))
            except (EOFError, OSError):  # the first process has ended
                return
