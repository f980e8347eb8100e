"""Ends a courier: SIGTERM first, then SIGKILL. Only if the process is certainly the courier that holds the lock."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from logist import systems
from logist.agents.own_process import COURIER
from logist.agents.protocol import GRACE
from logist.store import LockProcess
from logist.store.lock import is_at_work, read_host_name

LEAVE_SECONDS = GRACE + 5.0
"""Seconds that a courier may take to end after SIGTERM: its grace period, and writing its results."""
POLL_SECONDS = 0.05
_NAMES = frozenset({COURIER.encode(), b"logist.agents.courier.process"})
"""Module names in a courier's command line; the second is that of earlier versions."""


def is_here(process: LockProcess, folder: Path) -> bool:
    """Whether the process is alive on this machine, has the job in `folder` open, and is a courier.

    The checks are needed because anyone with write access to the job can write that file.
    """
    return process.host == read_host_name() and is_at_work(process, folder) and _is_courier(process.pid)


def _is_courier(pid: int) -> bool:
    try:
        return not _NAMES.isdisjoint(systems.read_command_line(pid)) and os.getsid(pid) == pid
    except OSError:
        return False


def end_courier(process: LockProcess, folder: Path, seconds: float = LEAVE_SECONDS) -> bool:
    """Terminate the courier, wait, then kill it; return when it is gone.

    Returns False if it was not running, or not on this machine.
    """
    if not _signal_courier(process, folder, signal.SIGTERM):
        return False
    until = time.monotonic() + seconds
    while is_here(process, folder):
        if time.monotonic() > until:
            _signal_courier(process, folder, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    return True


def _signal_courier(process: LockProcess, folder: Path, number: int) -> bool:
    # A courier leads a session, so its pid is its group's id; no other group can have it while it lives.
    if not is_here(process, folder):
        return False
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
        return True
    return False
