"""Lock files, so that two commands change the same settings file one after the other."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from logist.errors import Busy, InvalidFile, StorageError, storage_advice

PATIENCE_SECONDS = 20.0
"""Seconds that a command waits for another one; each holds the lock for a fraction of a second."""


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`, which is never deleted.

    The system releases the lock if the process is killed.

    Raises Busy if another process keeps it, InvalidFile if something other than a regular file is in its
    place.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415 - it imports asyncio, which most commands don't need

    _require_regular(path)
    # Readable and writable for all: otherwise the owner of the directory couldn't use a lock file that root created.
    lock = FileLock(path, timeout=PATIENCE_SECONDS, mode=0o666, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        message = "another command is changing the settings"
        raise Busy(
            message, where=str(path), fix="run the command again when that command has finished"
        ) from error
    except OSError as error:
        message = f"can't lock: {error.strerror or error}"
        raise StorageError(message, where=str(path), fix=storage_advice(error.errno)) from error
    try:
        yield
    finally:
        lock.release()


def _require_regular(path: Path) -> None:
    """Raise InvalidFile for a file that is not regular, such as a pipe that came with a clone.

    Opening the file doesn't follow links either.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise InvalidFile("the lock file is not a regular file", where=str(path), fix="move it away")
