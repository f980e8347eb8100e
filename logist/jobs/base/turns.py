"""Lets the jobs of a run compute one after the other, instead of all at the same time.

Python computes only one thread at a time. Jobs that begin together would share it in slices: all of them would be
ready to call their models only when the last one is, be answered together, and compete again. In turns, the first
job's call is on its way while the next one is planned.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 0.1
"""Seconds that a job waits for its turn at most; then it goes on without. So a job that computes for long delays the
others only this much, and jobs that wait for each other's files can't block each other."""


class Turns:
    """The turns of one run; can be used from any thread."""

    def __init__(self) -> None:
        self._taken = threading.Lock()
        self._thread = threading.local()

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for a turn, and end it after the block."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let others have the turn of this thread during the block, in which it waits for something else.

        Does nothing in a thread that has taken none.
        """
        if not self._end():
            yield
            return
        try:
            yield
        finally:
            self._begin()

    def _begin(self) -> None:
        self._thread.takes_turns = True
        self._thread.has_turn = self._taken.acquire(timeout=PATIENCE)

    def _end(self) -> bool:
        """End the turn; False if this thread has taken none."""
        if getattr(self._thread, "has_turn", False):
            self._taken.release()
        takes_turns = getattr(self._thread, "takes_turns", False)
        self._thread.takes_turns = self._thread.has_turn = False
        return takes_turns
