"""How much space jobs take on the disk. Imports next to nothing."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress

from logist.quick_tuple import NamedTuple

_BLOCK = 512
"""The unit of st_blocks, whatever the block size of the file system is."""
_PARTS = {"workspace": "workspace", "git": "checkpoints", "logs": "logs", "attachments": "attachments"}
_HISTORY = re.compile(r"jobHistory\.(\d+\.)?json(\.gz)?")


class DiskUsage(NamedTuple):
    """The bytes on the disk of the parts of a job."""

    job: str
    workspace: int = 0
    checkpoints: int = 0
    history: int = 0
    logs: int = 0
    attachments: int = 0
    other: int = 0
    unread: int = 0
    """Directories that can't be read, so the rest is a minimum."""

    @property
    def total(self) -> int:
        """All parts together."""
        return self.workspace + self.checkpoints + self.history + self.logs + self.attachments + self.other


def measure_job(jobs_dir: str, job_id: str, seen: set[tuple[int, int]]) -> DiskUsage:
    """Measure a job. A file with several names counts once: jobs share the packs of their checkpoints.

    `seen` has the device and inode of such files that were counted for other jobs; those of this job are added.
    """
    sizes = dict.fromkeys((*_PARTS.values(), "history", "other"), 0)
    folder = os.path.join(jobs_dir, job_id)
    sizes["other"] += _count_bytes(os.lstat(folder), seen)
    unread = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            part = "history" if _HISTORY.fullmatch(entry.name) else _PARTS.get(entry.name, "other")
            size, failed = _measure_tree(entry, seen)
            sizes[part] += size
            unread += failed
    return DiskUsage(job_id, unread=unread, **sizes)


def measure_folder(folder: str, seen: set[tuple[int, int]]) -> int:
    """Measure a directory; 0 if it does not exist. `seen` as in `measure_job`."""
    try:
        with os.scandir(folder) as entries:
            return _count_bytes(os.lstat(folder), seen) + sum(
                _measure_tree(entry, seen)[0] for entry in entries
            )
    except OSError:
        return 0


class FreedSpace:
    """Counts the bytes that removing files frees. A file with several names is freed with the last of them, so one
    object counts what is removed together.
    """

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], int] = {}

    def add(self, path: str) -> int:
        """Return what removing a file, or a directory with everything in it, frees beyond what was added before."""
        freed = 0
        for status in _walk_tree(path):
            count = 1
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                file = (status.st_dev, status.st_ino)
                count = self._names[file] = self._names.get(file, 0) + 1
            if count == status.st_nlink or stat.S_ISDIR(status.st_mode):
                freed += status.st_blocks * _BLOCK
        return freed

    def has_other_names(self, path: str) -> bool:
        """Whether a file also has names that were not added, besides this one."""
        status = os.lstat(path)
        return status.st_nlink > 1 + self._names.get((status.st_dev, status.st_ino), 0)


def _walk_tree(path: str) -> Iterator[os.stat_result]:
    """Yield the status of everything below a path, and of itself; what can't be read is left out."""
    pending = [path]
    while pending:
        each = pending.pop()
        with suppress(OSError):
            status = os.lstat(each)
            yield status
            if stat.S_ISDIR(status.st_mode):
                with os.scandir(each) as below:
                    pending += [entry.path for entry in below]


def _measure_tree(first: os.DirEntry[str], seen: set[tuple[int, int]]) -> tuple[int, int]:
    """Return the bytes of a file or a directory, and how many directories can't be read."""
    size = unread = 0
    pending = [first]
    while pending:
        entry = pending.pop()
        try:
            size += _count_bytes(entry.stat(follow_symlinks=False), seen)
            if entry.is_dir(follow_symlinks=False):
                with os.scandir(entry.path) as below:
                    pending += below
        except FileNotFoundError:
            pass  # an agent at work has removed it
        except OSError:
            unread += 1
    return size, unread


def _count_bytes(status: os.stat_result, seen: set[tuple[int, int]]) -> int:
    if status.st_nlink > 1:
        file = (status.st_dev, status.st_ino)
        if file in seen:
            return 0
        seen.add(file)
    return status.st_blocks * _BLOCK
