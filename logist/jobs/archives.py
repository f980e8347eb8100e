"""Recorded jobs to read, wherever they lie: job directories, history files, folders of them, globs."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from logist.core.model import Interaction
from logist.errors import UsageError
from logist.jobs.session import interaction_of
from logist.store import JobDir

HISTORY = "jobHistory.json"
NOT_ENTERED = frozenset({".git", "node_modules", "__pycache__"})
"""Directories in which no jobs are looked for. What lies below a job is its own, and is not looked at either."""


@dataclass(frozen=True)
class Archive:
    """One recorded history; nothing is read before it is asked for."""

    name: str
    """As a person would name it: the path below what was asked for."""
    path: Path
    """The history file."""

    @property
    def job(self) -> JobDir:
        """The directory it lies in, as a job to read."""
        return JobDir(self.path.parent, self.path.parent.name)

    def interactions(self) -> Iterator[Interaction]:
        """The whole history in order, one in memory at a time. Raises Damaged at the first bad one."""
        return (interaction_of(entry) for entry in self.job.entries())


def find(paths: Iterable[str]) -> Iterator[Archive]:
    """The histories that `paths` name, each once, in the order of the paths and then of the names.

    Raises UsageError for a path that names none.
    """
    seen: set[str] = set()
    for path in paths:
        found = False
        for name in _named(path):
            for archive in _below(name):
                found = True
                key = os.path.realpath(archive.path)
                if key not in seen:
                    seen.add(key)
                    yield archive
        if not found:
            fix = "name a job directory, its jobHistory.json, or a folder that holds such"
            raise UsageError(f"no history at {path}", where="PATH", fix=fix)


def _named(path: str) -> list[str]:
    if os.path.lexists(path):
        return [path]
    return sorted(glob.glob(path, recursive=True, include_hidden=True))


def _below(name: str) -> Iterator[Archive]:
    path = Path(name)
    if not path.is_dir():
        if path.is_file():
            yield Archive(name, path.absolute())
        return
    for folder, folders, files in os.walk(path):
        if HISTORY in files:
            folders.clear()
            yield Archive(folder, Path(folder, HISTORY).absolute())
        folders[:] = sorted(each for each in folders if each not in NOT_ENTERED)
