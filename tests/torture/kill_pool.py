"""Tries the points one after the other in a slice, two at a time in a full run."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.torture.suite import Run, Skip
from tests.torture.tracing import ptrace

Item = TypeVar("Item")

WORKERS = 2
_PARENT_DEATH_SIGNAL = 1
SHOWN = 2000
"""Characters of one problem that are kept; it may contain a complete history."""


class Tried(NamedTuple):
    """The result at one point."""

    problems: list[str]
    where: str
    reached: bool = True
    """Whether the point was reached: the order of two processes' calls differs between runs."""


def each(run: Run, work: Callable[[Path, Item], Tried], items: Sequence[Item]) -> None:
    """Do the work for each item in an empty directory, and count what was reached.

    In a full run, `work` and the items must be picklable.
    """
    started = partial(_in_a_place, work, run.scratch)
    for tried in _in_parallel(started, items) if run.full else map(started, items):
        if tried.reached:
            run.check([problem[:SHOWN] for problem in tried.problems], tried.where)


def _in_parallel(work: Callable[[Item], Tried], items: Sequence[Item]) -> Iterable[Tried]:
    forking = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(WORKERS, forking, initializer=_die_with_the_parent) as pool:
        yield from pool.map(work, items)


def _die_with_the_parent() -> None:
    ptrace.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _in_a_place(work: Callable[[Path, Item], Tried], scratch: Path, item: Item) -> Tried:
    with _place(scratch) as place:
        try:
            return work(place, item)
        except Skip:
            raise
        except Exception:  # noqa: BLE001  the other points continue
            return Tried([traceback.format_exc()[-SHOWN:]], str(item))


@contextmanager
def _place(scratch: Path) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(dir=scratch))
    try:
        yield place / "w"
    finally:
        shutil.rmtree(place)
