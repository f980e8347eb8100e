"""Finds and reads recorded jobs: job directories, history files, folders of them, globs."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import NoReturn, TypeVar

from logist.core.history.fold import restep_to
from logist.core.model import Interaction, JsonObject, Kind
from logist.core.model.commands import ScrubCommand
from logist.core.text import patterns
from logist.core.text.counts import format_count
from logist.digests import start_hash
from logist.errors import Damaged, LogistError, Stopped, StorageError, UsageError
from logist.jobs.archive import foreign_histories
from logist.jobs.base.stored_records import parse_interaction
from logist.quick_dataclass import dataclass
from logist.store import HISTORY, IN_THE_MAKING, SCRUBS, JobDir, history, segments
from logist.store.entries import CLOSING, read_header, read_lines
from logist.store.files import TEMPORARY
from logist.store.listing import BATCHES

Entry = TypeVar("Entry", Interaction, JsonObject)

NONSENSE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that the rules raise for a history that was edited by hand, or written by a defect."""
_MARKED = (b'"kind":"restep"', b'"kind":"scrub"')
NOT_ENTERED = frozenset({".git", "node_modules", "__pycache__", BATCHES})
"""Directories that are not searched for jobs. Directories inside a job belong to it and are not searched either."""


@dataclass(frozen=True)
class Beforehand:
    """What must be known of a history before it is replayed."""

    targets: set[int]
    """The interactions that a restep returns to the state before."""
    scrubbed: dict[int, int]
    """Interactions that replay differently because of a scrub, and the number of the scrub."""


@dataclass(frozen=True)
class Archive:
    """One recorded history; nothing is read before it is needed."""

    name: str
    """The name to display: the id of a job, or the path."""
    path: Path
    """The history file."""

    @classmethod
    def from_job(cls, job: JobDir) -> Archive:
        """The history of a job, named by its id."""
        return cls(job.id, job.history_file)

    @property
    def job(self) -> JobDir:
        """The directory of the history, as a job to read."""
        return JobDir(self.path.parent, self.path.parent.name)

    @cached_property
    def _rebuilding(self) -> foreign_histories.Rebuilding:
        """For a history of another shape: what earlier passes over it found."""
        return foreign_histories.Rebuilding(self.path)

    def read_interactions(self) -> Iterator[Interaction]:
        """Yield the whole history in order, one interaction in memory. Raises
        Damaged at the first bad one.
        """
        if foreign_histories.has_foreign_shape(self.path):
            yield from self._rebuilding.read_interactions()
        else:
            yield from map(parse_interaction, self.read_entries())

    def read_entries(self) -> Iterator[JsonObject]:
        """Yield the same as JSON, which is read much faster: as it is on disk,
        except for what had to be rebuilt.
        """
        if foreign_histories.has_foreign_shape(self.path):
            yield from self._rebuilding.read_entries()
            return
        if self.path.name == HISTORY:
            yield from self.job.read_entries()
            return
        yield from history.read_all_entries(self.path)

    def read_notes(self) -> Iterator[str]:
        """What had to be rebuilt to read the history, as text; empty if Logist wrote it in this form."""
        return iter(self._rebuilding.read_notes() if foreign_histories.has_foreign_shape(self.path) else ())

    def is_cut_off(self) -> bool:
        """True if something is missing at the end, even if only the closing:
        then there may have been more.
        """
        if foreign_histories.has_foreign_shape(self.path):
            return False  # read completely, or not at all
        with history.open_history(self.path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - len(CLOSING)))
            return file.read() != CLOSING

    def require_complete(self, count: int) -> None:
        """Raise Damaged if there may have been more than `count` interactions.

        With a state.json in the same directory none is lost, because that names the last one.
        """
        if self.is_cut_off() and not os.path.lexists(self.job.state_file):
            message = f"the end of the history is missing: it may have had more than {format_count(count, 'interaction')}"
            raise Damaged(message, where=str(self.path), fix="restore it from a backup")

    def call_for_each(self, entries: Iterable[Entry], each: Callable[[], None]) -> Iterator[Entry]:
        """Yield the same entries, all of them or Damaged; `each` is called for every one."""
        count = 0
        for entry in entries:
            count += 1
            each()
            yield entry
        self.require_complete(count)

    def find_restep_targets(self) -> set[int]:
        """The interactions that a restep returns to the state before (see `look_ahead`)."""
        return self.look_ahead().targets

    def look_ahead(self) -> Beforehand:
        """Find what must be known before the first interaction is judged.

        Only the lines of the live file that can be a restep or a scrub are parsed, and nothing is verified: the caller
        that reads the whole history reports damage.
        """
        if foreign_histories.has_foreign_shape(self.path):
            return Beforehand(self._rebuilding.find_restep_targets(), {})
        found = Beforehand(set(), {})
        with history.open_history(self.path) as file:
            header = read_header(file, self.path)
            for entry in segments.read_older_entries(self.path, header):
                _look_at(entry, found)
            file.seek(header.size)
            for line in read_lines(file):
                if any(marked in line for marked in _MARKED):
                    _look_at(_parse_line(line), found)
        return found


def _parse_line(line: bytes) -> JsonObject:
    try:
        entry = json.loads(line.removeprefix(b","))
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _look_at(entry: JsonObject, found: Beforehand) -> None:
    found.targets.update(restep_to(entry))
    command, sequence = entry.get("command"), entry.get("sequence")
    if entry.get("kind") == Kind.SCRUB and isinstance(command, dict) and isinstance(sequence, int):
        differing = ScrubCommand.read(command).differs or []
        found.scrubbed.update(dict.fromkeys((number for number in differing if number < sequence), sequence))


@dataclass
class Attempt:
    """The error that kept a history from being read to its end, if any."""

    error: LogistError | None = None


@contextmanager
def catch_read_errors(archive: Archive, seen: Callable[[], int] = lambda: 0) -> Iterator[Attempt]:
    """Read one of many histories: its errors are kept in the result, so that they stop no other. Stopped is
    raised.

    `seen` returns how many interactions were read.
    """
    result = Attempt()
    try:
        yield result
    except Stopped:
        raise
    except LogistError as error:
        result.error = find_format_error(archive.path) or error
    except (OSError, RecursionError) as error:
        result.error = Damaged(f"can't read it: {error}", where=str(archive.path))
    except NONSENSE as error:
        where = f", at interaction {seen()}" if seen() else ""
        message = f"the history has unexpected content{where}: {error!r}"
        result.error = Damaged(message, where=str(archive.path), fix="check whether it was edited by hand")


def find_format_error(path: Path) -> Damaged | None:
    """The error for a file that does not begin like a history; None for histories, even damaged ones."""
    try:
        with history.open_history(path) as file:
            begin = file.read(1)
        if begin in (b"", b"[", b"{") or path.name == HISTORY or foreign_histories.has_foreign_shape(path):
            return None
    except (LogistError, OSError):
        return None
    fix = "expected a jobHistory.json, a list of interactions, or an object with the list `interactions`"
    return Damaged("not a history", where=str(path), fix=fix)


def hash_history_file(path: Path) -> str:
    """The sha256 of a history file as it is on disk; of a rotated history, that of its live file."""
    with history.open_history(path) as file:
        checksum = start_hash("sha256", os.fstat(file.fileno()).st_size)
        while piece := file.read(1 << 20):
            checksum.update(piece)
    return checksum.hexdigest()


def exit_code_of_errors(errors: Iterable[LogistError]) -> int:
    """10 if a history is damaged; else the code of the first one that could not be read; 0 if all were."""
    codes = [error.exit_code for error in errors]
    return Damaged.exit_code if Damaged.exit_code in codes else next(iter(codes), 0)


def find_history(path: Path) -> Archive:
    """The history that is this file, or is in this directory. Raises UsageError if there is none."""
    file = path / HISTORY if path.is_dir() else segments.live_path(path)
    if not file.is_file():
        raise UsageError(f"{HISTORY} not found in {path}", fix=f"use a job directory or its {HISTORY}")
    return Archive(str(path), file.absolute())


def find_histories(paths: Iterable[str]) -> Iterator[Archive]:
    """Find the histories that `paths` name, each once, in the order of the paths and then of the names.

    Raises UsageError for a path without a history.
    """
    yielded: set[str] = set()
    for path in paths:
        has_history = False
        for name in _expand_path(path):
            for archive in _walk_histories(name):
                has_history = True
                key = os.path.realpath(archive.path)
                if key not in yielded:
                    yielded.add(key)
                    yield archive
        if not has_history:
            fix = "use a job directory, its jobHistory.json, or a directory that contains some"
            raise UsageError(f"no history found at {path}", where="PATH", fix=fix)


def _expand_path(path: str) -> list[str]:
    if os.path.lexists(path):
        return [path]
    if "**" in path.split(os.sep):
        return sorted(_match_recursively(path))
    return sorted(glob.glob(path, include_hidden=True))


def _match_recursively(pattern: str) -> Iterator[str]:
    """Yield what a pattern with `**` matches outside of jobs; no link is
    followed, because it may lead to itself.
    """
    parts = pattern.split(os.sep)
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    base = os.sep.join(parts[:fixed]) or (os.sep if fixed else os.curdir)
    matcher = patterns.compile_exclusions(["/" + "/".join(parts[fixed:])])
    for folder, folders, files in os.walk(base, onerror=_raise_unlistable):
        _prune_folders(folders, files)
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if matcher.match_path(os.path.relpath(path, base), directory=name in folders):
                yield os.path.normpath(path)


def _walk_histories(name: str) -> Iterator[Archive]:
    if not os.path.isdir(name):
        name = str(segments.live_path(Path(name)))
        if os.path.isfile(name):
            yield _make_archive(name, name)
        return
    for folder, folders, files in os.walk(name, onerror=_raise_unlistable):
        if HISTORY in files:
            yield _make_archive(folder, os.path.join(folder, HISTORY))
        _prune_folders(folders, files)
        for each in folders:
            linked = os.path.join(folder, each, HISTORY)
            if os.path.islink(os.path.dirname(linked)) and os.path.isfile(linked):
                yield _make_archive(os.path.dirname(linked), linked)


def _make_archive(name: str, file: str) -> Archive:
    """An archive at its real path: a person or a build may have made a link to a history."""
    return Archive(name, Path(os.path.realpath(file)))


def _prune_folders(folders: list[str], files: list[str]) -> None:
    """Reduce `folders` to those to descend into, sorted; below a job there are none."""
    folders[:] = [] if HISTORY in files else sorted(each for each in folders if _is_entered(each))


def _is_entered(name: str) -> bool:
    is_leftover = name.startswith(".") and name.endswith(TEMPORARY)  # of an export that was killed
    if name == SCRUBS:  # copies of jobs that are being scrubbed
        return False
    return name not in NOT_ENTERED and not name.startswith(IN_THE_MAKING) and not is_leftover


def _raise_unlistable(error: OSError) -> NoReturn:
    """Raise StorageError: a folder that can't be listed may contain
    histories, so it must not be skipped silently.
    """
    fix = "check its owner and permissions"
    raise StorageError(
        f"can't list the directory: {error.strerror}", where=str(error.filename), fix=fix
    ) from error
