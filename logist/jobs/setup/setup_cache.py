"""Keeps copies of what setups have made, for later workspaces with the same lock files."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from logist.errors import InvalidFile, LogistError
from logist.quick_dataclass import dataclass
from logist.store import files
from logist.workspace import Workspace, prepared
from logist.workspace.files import removal, safe_open

FOLDER = ".setup"
"""In the directory of the jobs; no job id begins with a dot. It may be removed at any time when no job runs."""
MOST_KEPT = 8
"""Copies that stay; the one that was used least recently is removed first."""
_DESCRIPTION = "setup.json"
_DOWNLOADED = ("packages", "interpreters")
_HALF = ".new-"
_NAME = re.compile(r"[0-9a-f]{64}(-[a-zA-Z0-9_-]+)?")
"""The name of a copy: its key, and a job id if only that job can use it."""


class _KeyTaken(Exception):
    """Another job holds the lock of this key."""


@dataclass(frozen=True)
class Copy:
    """The copy that is stored for a key."""

    saved: prepared.Saved
    folder: Path


class SetupCache:
    """Copies by key. A copy that only fits its own workspace has the job's id in its name too."""

    def __init__(self, jobs_dir: Path) -> None:
        self.folder = Path(os.path.realpath(jobs_dir)) / FOLDER

    @property
    def packages(self) -> Path:
        """The directory for downloads of package managers; created if missing."""
        return self._ensure_folder(self.folder / "packages")

    @property
    def interpreters(self) -> Path:
        """The directory for interpreters that package managers install; it may not exist."""
        return self.folder / "interpreters"

    def make_interpreters_folder(self) -> Path:
        """Create the `interpreters` directory if it is missing."""
        return self._ensure_folder(self.interpreters)

    @contextmanager
    def lock_key(self, key: str, wait: Callable[[], None]) -> Iterator[None]:
        """Hold the lock of a key, so that the second job finds what the first
        has made. `wait` is called meanwhile.
        """
        while True:
            try:
                with self._try_lock_key(key):
                    yield
                return
            except _KeyTaken:
                wait()

    @contextmanager
    def _try_lock_key(self, key: str) -> Iterator[None]:
        path = self._ensure_folder(self.folder / "locks") / key
        with files.convert_os_errors(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _KeyTaken from None
            yield
        finally:
            os.close(descriptor)

    def find_copy(self, workspace: Workspace, key: str, job_id: str) -> Copy | None:
        """Find the copy of a key, if it fits the workspace."""
        for name in (key, f"{key}-{job_id}"):
            folder = self.folder / "copies" / name
            saved = self._load_saved(folder)
            if saved is not None and (saved.movable or os.path.realpath(workspace.root) in saved.places):
                with suppress(OSError):
                    os.utime(folder)
                return Copy(saved, folder)
        return None

    def save_copy(
        self, workspace: Workspace, key: str, job_id: str, outputs: tuple[str, ...], *, shared: bool
    ) -> None:
        """Save a copy of what a setup made; `shared`: also for other jobs, if it fits them."""
        copies = self._ensure_folder(self.folder / "copies")
        unfinished = (
            copies / f"{_HALF}{key}"
        )  # we hold the lock of the key, so an existing one was left by a killed process
        removal.remove_directory(unfinished)
        unfinished.mkdir(mode=0o700)
        try:
            saved = workspace.save_prepared(outputs, unfinished)
            names = [str(number) for number in range(len(outputs))]
            record = {**asdict(saved), "digest": _compute_digest(unfinished, names)}
            files.replace_file(unfinished / _DESCRIPTION, files.dump_json(record))
            final = copies / (key if shared and saved.movable else f"{key}-{job_id}")
            removal.remove_directory(final)
            os.rename(unfinished, final)
        except BaseException:
            removal.remove_directory(unfinished)
            raise
        self._evict_old_copies(copies)

    def _load_saved(self, folder: Path) -> prepared.Saved | None:
        """Load the record of a copy; None if there is none, or the files are not those that were saved.

        A clone may contain a jobs directory: its copies do not match, because their inodes and times differ.
        """
        try:
            record = json.loads(files.read_bytes(folder / _DESCRIPTION) or b"null")
            digest = record.pop("digest")
            lists = {name: tuple(record[name]) for name in ("outputs", "places", "naming")}
            saved = prepared.Saved(**lists, movable=record["movable"] is True)
        except (LogistError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        names = [str(number) for number in range(len(saved.outputs))]
        return saved if digest == _compute_digest(folder, names) else None

    def _evict_old_copies(self, copies: Path) -> None:
        """Remove the copies used least recently; one that a job is copying from stays for now."""
        copies_found = [path for path in copies.iterdir() if _NAME.fullmatch(path.name)]
        with suppress(OSError):  # another job may do the same
            for path in sorted(copies_found, key=lambda path: path.stat().st_mtime, reverse=True)[MOST_KEPT:]:
                with suppress(_KeyTaken), self._try_lock_key(path.name.partition("-")[0]):
                    removal.remove_directory(path)

    def list_unneeded(self, job_ids: Collection[str], since: str, *, is_used: bool) -> list[Path]:
        """List what no job needs any more: copies that only fit a job which is not among `job_ids`, and those that no
        job has used since that time; and the rest, if no job uses a setup (`is_used`) and none has lately.
        """
        unneeded = []
        for path in _list_folder(self.folder / "copies"):
            owner = path.name.partition("-")[2]
            is_copy = _NAME.fullmatch(path.name) is not None
            if is_copy and ((owner and owner not in job_ids) or _is_unused_since(path, since)):
                unneeded.append(path)
        if not is_used:
            unneeded += [
                path
                for path in _list_folder(self.folder)
                if path.name in _DOWNLOADED and _is_unused_since(path, since)
            ]
        return unneeded

    def remove_unneeded(self, path: Path) -> bool:
        """Remove one of them; False if a job is using it, or it can't be removed."""
        try:
            if path.parent == self.folder:
                removal.remove_directory(path)
            else:
                with self._try_lock_key(path.name.partition("-")[0]):
                    removal.remove_directory(path)
        except (_KeyTaken, OSError, LogistError):
            return False
        return True

    def _ensure_folder(self, folder: Path) -> Path:
        for each in (self.folder, folder):
            _make_directory(each)
        return folder


def _list_folder(folder: Path) -> list[Path]:
    """List the directories in a directory of the cache; none if it does not exist, or is a link."""
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            return []
        return [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []


def _is_unused_since(path: Path, since: str) -> bool:
    try:
        used = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return False
    return used.strftime("%Y-%m-%dT%H:%M:%SZ") <= since


def _make_directory(folder: Path) -> None:
    """Create a directory.

    Raises InvalidFile for a link: a clone may contain one, and a setup could write to wherever it leads.
    """
    with files.convert_os_errors(folder):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        is_directory = stat.S_ISDIR(os.lstat(folder).st_mode)
    if not is_directory:
        raise InvalidFile(
            "must be a directory, not a link", where=str(folder), fix="check it, then remove it"
        )


def _compute_digest(folder: Path, names: list[str]) -> str:
    with safe_open.open_root(folder) as top:
        return prepared.compute_digest(top, names)
