"""Copies of what `doctor --fix` is about to change or remove, in `.logist/backup/<time>-<n>/`, durable."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from logist.jobs.base.project import ProjectContext
from logist.store import files

FOLDER = "backup"
DIARY = "what.txt"
"""Lists the actions, one per line, including what a copy can't preserve: file modes."""

_CHUNK = 1 << 20


class Backup:
    """The backup of one run; its directory is created when it is first needed."""

    def __init__(self, project: ProjectContext) -> None:
        self._home, self._jobs = project.home, project.jobs_dir
        self._stamp = project.clock.timestamp().replace("-", "").replace(":", "")
        self._path: Path | None = None
        self._lines: list[str] = []

    @property
    def path(self) -> Path | None:
        """The directory of the backup; None while nothing was saved."""
        return self._path

    def copy(self, path: Path) -> None:
        """Copy a regular file into the backup. Raises StorageError if that fails: then nothing may be changed."""
        place = self._place(path)
        with files.convert_os_errors(path), open(path, "rb", opener=_unfollowed) as file:
            files.replace_chunks(place, iter(lambda: file.read(_CHUNK), b""))
        self.note(f"copied {path}")

    def take(self, path: Path) -> None:
        """Move a file, a link or a directory into the backup."""
        place = self._place(path)
        self.note(f"moving {path} to {place}")
        with files.convert_os_errors(path):
            try:
                os.rename(path, place)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _copy_all(path, place)
                _remove(path)
        files.sync_directory(place.parent)
        files.sync_directory(path.parent)

    def note(self, line: str) -> None:
        """Record an action before it is done."""
        folder = self._made()
        self._lines.append(line)
        text = "".join(f"{each}\n" for each in self._lines)
        files.replace_file(folder / DIARY, text.encode("utf-8", "backslashreplace"))

    def _place(self, path: Path) -> Path:
        """Choose the path of a file in the backup: as in the project, but a name that is not taken."""
        place = self._made() / self._relative(path)
        for folder in [*reversed(place.parents)]:
            if self._made() in folder.parents:
                files.ensure_directory(folder)
        number, free = 1, place
        while os.path.lexists(free):
            number += 1
            free = place.with_name(f"{place.name}.{number}")
        return free

    def _relative(self, path: Path) -> Path:
        if path.is_relative_to(self._jobs):
            return "jobs" / path.relative_to(self._jobs)
        if path.is_relative_to(self._home):
            return path.relative_to(self._home)
        return Path("elsewhere", path.name)

    def _made(self) -> Path:
        if self._path is None:
            self._path = self._new()
        return self._path

    def _new(self) -> Path:
        top = self._home / FOLDER
        with files.convert_os_errors(top):
            top.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.ensure_directory(top)
        if not (top / ".gitignore").exists():
            files.replace_file(top / ".gitignore", b"*\n")
        number = 1
        while not files.make_directory(top / f"{self._stamp}-{number}"):
            number += 1
        files.sync_directory(top)
        return top / f"{self._stamp}-{number}"


def _unfollowed(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _copy_all(path: Path, place: Path) -> None:
    """Copy durably to another file system, without pipes, sockets and devices."""
    if path.is_symlink():
        os.symlink(os.readlink(path), place)
    elif path.is_dir():
        files.make_directory(place)
        for below in _inside(path):
            _copy_all(below, place / below.name)
        files.sync_directory(place)
    elif path.is_file():
        with open(path, "rb", opener=_unfollowed) as file:
            files.replace_chunks(place, iter(lambda: file.read(_CHUNK), b""))


def _inside(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.iterdir()))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        files.remove_tree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)
