"""How much space jobs take on the disk. Imports next to nothing."""

from __future__ import annotations

import os
import re

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


def measure_folder(folder: str) -> int:
    """Measure a directory; 0 if it does not exist."""
    seen: set[tuple[int, int]] = set()
    try:
        with os.scandir(folder) as entries:
            return _count_bytes(os.lstat(folder), seen) + sum(
                _measure_tree(entry, seen)[0] for entry in entries
            )
    except OSError:
        return 0


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
