"""Watches how much memory and how many processes a run uses: rarely
if little changes, at once if much changes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import field

from logist.agents.sandbox import processes
from logist.agents.sandbox.processes import RunningProcess, Table
from logist.quick_dataclass import dataclass

PERIOD = 0.25
"""Seconds between two checks of all processes on the machine."""
_FIRST = 0.05
"""Seconds before the first check: most commands have ended by then."""
_SUDDEN_THREADS = 48
_SUDDEN_SHARE = 16
"""Changes on the machine that cause a check: this many new threads, or this fraction of the memory limit used."""


@dataclass
class Watch:
    """Compares a run with its limits."""

    members: Callable[[Table], set[int]]
    tell: Callable[[int], None]
    """Sends a signal to the program's group."""
    memory_bytes: int
    most_processes: int
    seen: Sequence[RunningProcess] = ()
    """The processes that were alive at the last check."""
    _next: float = field(default_factory=lambda: time.monotonic() + _FIRST)
    _threads: int = field(default_factory=processes.count_threads)
    _available: int = 0
    _many: int = field(default_factory=processes.count_threads)
    """Threads on the machine at the last check that found no process limit exceeded."""

    def find_breach(self) -> str | None:
        """Return which limit is exceeded, in words; None if none is, or if no check was due."""
        # Reading two numbers for the machine takes microseconds; checking every process in /proc takes
        # milliseconds. So all processes are checked only if these numbers change much, or from time to time.
        threads, available = processes.count_threads(), processes.read_available_memory()
        sudden = (
            threads > self._threads + _SUDDEN_THREADS
            or available < self._available - self.memory_bytes // _SUDDEN_SHARE
        )
        if threads > self._many + max(_SUDDEN_THREADS, self.most_processes * 3 // 2):
            return self._check_while_stopped(threads)
        if not sudden and time.monotonic() < self._next:
            self._threads = min(threads, self._threads)
            self._available = max(available, self._available)
            return None
        self._threads, self._available = threads, available
        self._next = time.monotonic() + PERIOD
        return self.check_limits()

    def _check_while_stopped(self, threads: int) -> str | None:
        """Stop the program during the check: among a thousand busy processes a check takes so long that a
        fork bomb must be stopped first.
        """
        self.tell(signal.SIGSTOP)
        breach = self.check_limits()
        if breach is None:
            self.tell(signal.SIGCONT)
            self._many = threads
        return breach

    def check_limits(self) -> str | None:
        """Check all processes of the run now, and keep them in `seen`. Returns
        the exceeded limit, or None.
        """
        table = processes.read_table()
        alive = [table[pid] for pid in self.members(table) if table[pid].is_alive]
        self.seen = alive
        if len(alive) > self.most_processes:
            return f"more than {self.most_processes} processes"
        if sum(process.memory for process in alive) > self.memory_bytes:
            return f"more than {self.memory_bytes >> 20} MiB of memory"
        return None
