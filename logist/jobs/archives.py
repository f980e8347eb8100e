"""Recorded jobs to read, wherever they lie: job directories, history files, folders of them, globs."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from logist.core.model import Interaction, JsonObject, Kind
from logist.errors import StorageError, UsageError
from logist.jobs import rebuilding
from logist.jobs.session import interaction_of
from logist.store import JobDir, foreign, history, segments
from logist.store.entries import CLOSING, read_header

HISTORY = "jobHistory.json"
_RESTEP = b'"kind":"restep"'
NOT_ENTERED = frozenset({".git", "node_modules", "__pycache__"})
"""Directories in which no jobs are looked for. What lies below a job is its own, and is not looked at either."""
UNBORN = ".new-"
"""How the directory of a job begins that is still being made."""


@dataclass(frozen=True)
class Archive:
    """One recorded history; nothing is read before it is asked for."""

    name: str
    """As a person would name it: the path below what was asked for."""
    path: Path
    """The history file."""

    @classmethod
    def of(cls, job: JobDir) -> Archive:
        """The history of a job, named by its id."""
        return cls(job.id, job.history_file)

    @property
    def job(self) -> JobDir:
        """The directory it lies in, as a job to read."""
        return JobDir(self.path.parent, self.path.parent.name)

    def interactions(self) -> Iterator[Interaction]:
        """The whole history in order, one in memory at a time. Raises Damaged at the first bad one."""
        if rebuilding.is_foreign(self.path):
            yield from rebuilding.interactions(self.path)
        else:
            yield from map(interaction_of, self.entries())

    def entries(self) -> Iterator[JsonObject]:
        """The same as JSON, which is read much faster: as it lies on disk, but for what had to be rebuilt."""
        if rebuilding.is_foreign(self.path):
            yield from rebuilding.entries(self.path)
            return
        if self.path.name == HISTORY:
            yield from self.job.entries()
            return
        yield from history.whole(self.path)

    def notes(self) -> Iterator[str]:
        """What had to be rebuilt to read it, in words; nothing where Logist wrote it as it is."""
        return iter(rebuilding.notes(self.path) if rebuilding.is_foreign(self.path) else ())

    def is_cut_off(self) -> bool:
        """Whether something is missing at its end, be it only the closing: then there may have been more."""
        if rebuilding.is_foreign(self.path):
            return False  # read whole, or not at all
        with history.opened(self.path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - len(CLOSING)))
            return file.read() != CLOSING

    def restep_targets(self) -> set[int]:
        """The interactions that a restep goes back before. Of the live file only the lines that can be one are
        parsed, and nothing is verified: whoever reads the history whole says what is wrong with it."""
        if rebuilding.is_foreign(self.path):
            return {to for entry in foreign.entries(self.path) for to in _restep_to(entry)}
        with history.opened(self.path) as file:
            header = read_header(file, self.path)
            found = {to for entry in segments.before(self.path, header) for to in _restep_to(entry)}
            file.seek(header.size)
            return found.union(to for line in file if _RESTEP in line for to in _target(line))


def _target(line: bytes) -> Iterator[int]:
    try:
        entry = json.loads(line.removeprefix(b","))
    except (ValueError, RecursionError):
        return
    if isinstance(entry, dict):
        yield from _restep_to(entry)


def _restep_to(entry: JsonObject) -> Iterator[int]:
    command = entry.get("command")
    to = command.get("to") if isinstance(command, dict) else None
    if entry.get("kind") == Kind.RESTEP and isinstance(to, int):
        yield to


def one(path: Path) -> Archive:
    """The history that is this file, or lies in this directory. Raises UsageError when there is none."""
    file = path / HISTORY if path.is_dir() else segments.history_of(path)
    if not file.is_file():
        raise UsageError(f"no {HISTORY} in {path}", fix=f"name a job directory or its {HISTORY}")
    return Archive(str(path), file.absolute())


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
    if not os.path.isdir(name):
        name = str(segments.history_of(Path(name)))
        if os.path.isfile(name):
            yield Archive(name, Path(name).absolute())
        return
    for folder, folders, files in os.walk(name, onerror=_not_listed):
        if HISTORY in files:
            folders.clear()
            yield Archive(folder, Path(folder, HISTORY).absolute())
        folders[:] = sorted(each for each in folders if _is_entered(each))


def _is_entered(name: str) -> bool:
    return name not in NOT_ENTERED and not name.startswith(UNBORN)


def _not_listed(error: OSError) -> NoReturn:
    """A folder that can't be listed may hold histories: to pass it over would be to say that there are none."""
    fix = "check who owns it, and its permissions"
    raise StorageError(f"can't list it: {error.strerror}", where=str(error.filename), fix=fix) from error
