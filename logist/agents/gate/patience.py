"""Limits how long the gate waits for the other side of a connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread

_LOOK_SECONDS = 0.5


class Patience:
    """Shuts down connections that are waited for too long.

    One thread for all of them: to start one for each time would take longer than most servers need.
    """

    def __init__(self) -> None:
        self._ends: dict[socket.socket, float] = {}
        self._lock = Lock()
        self._is_over = Event()
        Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def limit(self, connection: socket.socket, seconds: float) -> Iterator[None]:
        """Shut the connection down if the block takes longer, by up to a second."""
        with self._lock:
            self._ends[connection] = time.monotonic() + seconds
        try:
            yield
        finally:
            with self._lock:
                self._ends.pop(connection, None)

    def end(self) -> None:
        """Stop watching."""
        self._is_over.set()

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            with self._lock:
                late = [each for each, end in self._ends.items() if end < time.monotonic()]
            for connection in late:
                with suppress(OSError):  # not by the method of a TLS socket, which isn't made for two threads
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)
