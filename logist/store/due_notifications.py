"""Notifications that are due: one empty file each, in `.notify` of the jobs directory.

The file is created before the history records the event, and removed after the hooks have run. So if a command is
killed in between, a later command finds it and runs the hooks. The command that works on a notification holds an
flock on its file, which the kernel releases when that command dies. The files are not in the jobs: copying, packing
or importing a job never repeats a notification, and deleting `.notify` only forgets those that are due.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from logist.core.text.ids import JOB_ID_PATTERN
from logist.lazy_patterns import compile_on_use
from logist.quick_tuple import NamedTuple
from logist.store import files

FOLDER = ".notify"
QUEUE_EMPTY = "queue_empty"
"""The only event that belongs to no job."""

_NAME = compile_on_use(
    rf"(?:(?P<job>{JOB_ID_PATTERN.strip('^$')})\.(?P<sequence>[1-9][0-9]{{0,15}})\.)?(?P<event>[a-z_]+)"
)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DueNotification(NamedTuple):
    """An event whose hooks have not run yet."""

    event: str
    job: str = ""
    sequence: int = 0
    """The interaction that caused the event."""

    @property
    def name(self) -> str:
        """The name of its file, which is also the id of the notification."""
        return f"{self.job}.{self.sequence}.{self.event}" if self.job else self.event


def add_due(jobs_dir: Path, due: DueNotification) -> int:
    """Create the file of a notification, durably, and return its locked descriptor.

    It gets its name only after it is locked: otherwise another command could take it before the event is recorded.
    """
    folder = jobs_dir / FOLDER
    files.ensure_directory(folder)
    with files.convert_os_errors(folder):
        temporary = folder / f".{os.urandom(6).hex()}{files.TEMPORARY}"
        fd = os.open(temporary, _CREATE, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.rename(temporary, folder / due.name)
            files.sync_directory(folder)
        except BaseException:
            os.close(fd)
            with suppress(OSError):
                os.unlink(temporary)
            raise
    return fd


def list_due(jobs_dir: Path) -> list[DueNotification]:
    """List the notifications that are due, also those that another command is working on."""
    try:
        names = sorted(os.listdir(jobs_dir / FOLDER))
    except OSError:
        return []
    matches = filter(None, map(_NAME.fullmatch, names))
    return [DueNotification(each["event"], each["job"] or "", int(each["sequence"] or 0)) for each in matches]


def claim_due(jobs_dir: Path, due: DueNotification) -> int | None:
    """Lock a notification; None if another command works on it, or it is no longer due."""
    path = jobs_dir / FOLDER / due.name
    try:
        fd = os.open(path, _OPEN)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.lstat(path), os.fstat(fd)):
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def remove_due(jobs_dir: Path, due: DueNotification, fd: int) -> None:
    """Remove a notification whose hooks have run, and release its lock."""
    with suppress(OSError):
        os.unlink(jobs_dir / FOLDER / due.name)
    os.close(fd)
