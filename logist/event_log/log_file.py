"""The file of `--log-file`: appended by any number of processes, rotated by size. A failure never stops the work."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from threading import RLock

LARGEST = 10_000_000
"""Bytes of the file from which it is rotated."""
KEPT = 4
"""How many earlier files are kept, as FILE.1 (the newest) to FILE.4."""
PATIENCE_SECONDS = 0.2
"""How long a line waits at most for other processes that write."""

_LOOK_SECONDS = 0.001
_APPENDING = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class LogFile:
    """Appends lines to a file; can be used from any thread.

    The file that the name means is looked up for each line, so that a rotation by another process, or by logrotate, needs
    no signal. A process holds an flock on the file while it writes a line or rotates.
    """

    def __init__(
        self, path: str, warn: Callable[[str], None], *, largest: int = LARGEST, kept: int = KEPT
    ) -> None:
        """`warn` gets one message if a line can't be written, and nothing for further failures."""
        self.path = os.path.abspath(path)
        self._warn, self._largest, self._kept = warn, largest, kept
        self._fd: int | None = None
        self._patience = PATIENCE_SECONDS
        self._has_warned = False
        self._one_at_a_time = RLock()

    def write(self, line: bytes) -> None:
        """Append a line; if that fails, warn once and go on."""
        with self._one_at_a_time:
            try:
                fd, is_locked = self._open_locked()
                try:
                    if is_locked and self._is_full(fd, line) and self._rotate():
                        fd, is_locked = self._open_locked()
                    _append(fd, line, heals=is_locked)
                finally:
                    if self._fd is not None:
                        fcntl.flock(self._fd, fcntl.LOCK_UN)
            except OSError as error:
                self._warn_once(error)

    def _open_locked(self) -> tuple[int, bool]:
        """Return the file that has the name now, and whether it is locked.

        It isn't if another process keeps the lock, because it was stopped in the middle of a line: better a line that may
        be mixed up than none.
        """
        deadline = time.monotonic() + self._patience
        while True:
            fd = self._open_current()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    self._patience = 0.0  # don't wait for the stopped process again with every line
                    return fd, False
                time.sleep(_LOOK_SECONDS)
                continue
            if self._is_current(fd):  # another process may have rotated it before this one had the lock
                self._patience = PATIENCE_SECONDS
                return fd, True

    def _open_current(self) -> int:
        if self._fd is not None and self._is_current(self._fd):
            return self._fd
        self._close()
        fd = os.open(self.path, _APPENDING, 0o600)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a regular file")
        self._fd = fd
        return fd

    def _is_current(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(fd))
        except FileNotFoundError:
            return False

    def _is_full(self, fd: int, line: bytes) -> bool:
        size = os.fstat(fd).st_size
        return size > 0 and size + len(line) > self._largest

    def _rotate(self) -> bool:
        """Rename the files; False if that is not possible: better a long file than none."""
        names = [self.path, *(f"{self.path}.{number}" for number in range(1, self._kept + 1))]
        try:
            for newer, older in reversed(list(pairwise(names))):
                with suppress(FileNotFoundError):
                    os.replace(newer, older)
        except OSError as error:
            self._warn_once(error, "rotate")
            return False
        return True

    def _warn_once(self, error: OSError, action: str = "write") -> None:
        if not self._has_warned:
            self._has_warned = True
            self._warn(f"can't {action} the log file {self.path}: {error.strerror}; the command continues")

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _append(fd: int, line: bytes, *, heals: bool) -> None:
    """Write a line. With `heals`, one that a full disk or a killed process has left half-written costs no other line."""
    size = os.fstat(fd).st_size
    data = b"\n" + line if heals and size and os.pread(fd, 1, size - 1) != b"\n" else line
    if os.write(fd, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
