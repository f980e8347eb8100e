"""Ends a courier: asks first, then kills. Only a process that is certainly the one that signed the lock."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from logist.agents.protocol import COURIER, GRACE
from logist.store import LockProcess
from logist.store.lock import is_at_work, read_host_name

LEAVE_SECONDS = GRACE + 5.0
"""How long a courier that was asked to end may take: its grace, and writing what it has."""
POLL_SECONDS = 0.05
_NAMES = frozenset({COURIER.encode(), b"logist.agents.courier.process"})
"""How a courier is started; the second is how a version before this one started it."""


def is_here(process: LockProcess, folder: Path) -> bool:
    """Whether it is alive on this machine, has the job in `folder` open, and is a courier at all.

    Anyone with write access to the job can write the file of signatures.
    """
    return process.host == read_host_name() and is_at_work(process, folder) and _is_courier(process.pid)


def _is_courier(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
        return not _NAMES.isdisjoint(words) and os.getsid(pid) == pid
    except OSError:
        return False


def end_courier(process: LockProcess, folder: Path, seconds: float = LEAVE_SECONDS) -> bool:
    """Ask it to end, wait, then kill it; return once it is gone.

    False if it was not running, or not on this machine.
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
    # A courier leads a session, so its pid names its group; while it lives, no other can have that.
    if not is_here(process, folder):
        return False
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
        return True
    return False
