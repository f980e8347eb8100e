"""Makes a workspace equal to a checkpoint: writes only what differs, and never follows links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field

from logist import systems
from logist.errors import InvalidFile
from logist.quick_dataclass import dataclass
from logist.workspace.checkpoint import objects
from logist.workspace.checkpoint.objects import GITLINK_MODE, LINK_MODE, PROGRAM_MODE, Tree, TreeEntry
from logist.workspace.checkpoint.scan import FileStamp, make_stamp
from logist.workspace.checkpoint.snapshot import Snapshot
from logist.workspace.files import file_names, safe_open
from logist.workspace.files.removal import remove_tree
from logist.workspace.git import Git

TEMPORARY = b"logist-restoring"
"""Files are written here and moved into the workspace when complete, so a crash leaves nothing in it."""

MANY = 200
"""From this number of files, one flush of everything is faster than a flush for each file."""


def apply_tree(git: Git, top: int, current: Snapshot, target: Tree) -> dict[bytes, FileStamp]:
    """Change the workspace `top` from `current` to `target`; return the stamps of the written files.

    Files get the mode 0600 or 0700, directories 0700. Files that no checkpoint holds are kept, unless they are in
    the way. Raises InvalidFile for a tree that a workspace can't contain.
    """
    require_sound_tree(target)
    with safe_open.open_root(git.git_dir) as beside:
        work = Restoring(git, top, beside, current, target)
        work.remove_surplus()
        work.make_directories()
        work.write_files()
        work.flush_names()
    return work.stamps


def require_sound_tree(target: Tree) -> None:
    """Raise InvalidFile for a tree that a workspace can't contain: with names such as `..`, or a name used twice."""
    # Otherwise writing a file below would go through the other entry with the same path.
    for raw in _list_clashes(target):
        raise InvalidFile(
            f"can't be both a file and a directory: {file_names.to_display(raw)!r}", where="workspace"
        )


def _list_clashes(target: Tree) -> set[bytes]:
    """Return the raw paths that are a file and a directory. Raises InvalidFile for an unsound name."""
    if file_names.are_plain(target):
        directories = file_names.list_parents(target)
        return {path for path in directories if path in target and _is_file(path, target[path])}
    for path in target:
        raw = file_names.from_stored(path)
        if not file_names.is_sound(raw.removesuffix(b"/")):
            raise InvalidFile(f"can't contain a file named {file_names.to_display(raw)!r}", where="workspace")
    return {file_names.from_stored(path) for path in _list_files(target)} & _list_directories(target)


def _is_file(path: bytes, entry: TreeEntry) -> bool:
    return entry.mode != GITLINK_MODE and not file_names.is_placeholder(path)


def _list_files(tree: Tree) -> set[bytes]:
    return {path for path, entry in tree.items() if _is_file(path, entry)}


def _list_directories(tree: Tree) -> set[bytes]:
    """Return all directories of a tree, including empty ones and submodules, as raw paths."""
    submodules = {file_names.from_stored(path) for path, entry in tree.items() if entry.mode == GITLINK_MODE}
    return submodules | file_names.list_parents(map(file_names.from_stored, tree))


@dataclass
class Restoring:
    """One restore in progress."""

    git: Git
    top: int
    beside: int
    """A descriptor of the repository directory."""
    current: Snapshot
    target: Tree
    stamps: dict[bytes, FileStamp] = field(default_factory=dict)
    touched: set[bytes] = field(default_factory=set)
    """Directories in which names were added or removed."""

    def remove_surplus(self) -> None:
        """Remove files that the target lacks, then directories that are empty now, the deepest first."""
        for path in _list_files(self.current.tree) - _list_files(self.target):
            with self._open_parent(file_names.from_stored(path)) as (parent, name):
                os.unlink(name, dir_fd=parent)
        for raw in sorted(self.current.directories - _list_directories(self.target), reverse=True):
            self._remove_directory(raw)

    def _remove_directory(self, raw: bytes) -> None:
        with self._open_parent(raw) as (parent, name):
            try:
                os.rmdir(name, dir_fd=parent)
            except OSError as error:
                if error.errno not in safe_open.NOT_EMPTY:
                    raise

    def make_directories(self) -> None:
        for raw in sorted(_list_directories(self.target) - self.current.directories):
            with self._open_parent(raw) as (parent, name):
                _make_directory(parent, name)

    def write_files(self) -> None:
        now = self.current.tree
        changed = sorted(path for path in _list_files(self.target) if now.get(path) != self.target[path])
        if not changed:
            return
        with objects.open_contents(self.git, [self.target[path].id for path in changed]) as each:
            for path, pieces in zip(changed, each, strict=True):
                self._write_file(path, pieces, durable=len(changed) < MANY)
        if len(changed) >= MANY and self.git.flushing and not systems.FLUSHES_DRIVE_APART:
            os.sync()

    def _write_file(self, path: bytes, pieces: Iterator[bytes], durable: bool) -> None:
        _unlink_if_exists(self.beside, TEMPORARY)
        self._write_temporary(self.target[path].mode, pieces, durable)
        with self._open_parent(file_names.from_stored(path)) as (parent, name):
            self._move_in(parent, name)
            self.stamps[path] = make_stamp(os.stat(name, dir_fd=parent, follow_symlinks=False))

    def _write_temporary(self, mode: str, pieces: Iterator[bytes], durable: bool) -> None:
        if mode == LINK_MODE:
            os.symlink(b"".join(pieces), TEMPORARY, dir_fd=self.beside)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(TEMPORARY, flags, 0o700 if mode == PROGRAM_MODE else 0o600, dir_fd=self.beside)
        with open(descriptor, "wb") as file:
            file.writelines(pieces)
            file.flush()
            if durable:
                self.git.flush(descriptor)
            elif self.git.flushing and systems.FLUSHES_DRIVE_APART:
                os.fsync(descriptor)  # `flush_names` makes the drive write all of them

    def _move_in(self, parent: int, name: bytes) -> None:
        try:
            os.rename(TEMPORARY, name, src_dir_fd=self.beside, dst_dir_fd=parent)
        except (IsADirectoryError, NotADirectoryError, FileExistsError):
            remove_tree(self.beside, parent, name)
            os.rename(TEMPORARY, name, src_dir_fd=self.beside, dst_dir_fd=parent)

    @contextmanager
    def _open_parent(self, raw: bytes) -> Iterator[tuple[int, bytes]]:
        """Open the directory of a path, writable for the owner; yield it and the last component."""
        *above, name = raw.split(b"/")
        with safe_open.open_below(self.top, above, unlocking=True) as parent:
            safe_open.make_writable(parent)
            self.touched.add(b"/".join(above))
            yield parent, name

    def flush_names(self) -> None:
        """Flush the changed directories that still exist."""
        for raw in self.touched if self.git.flushing else ():
            try:
                parts = raw.split(b"/") if raw else []
                with safe_open.open_below(self.top, parts, unlocking=True) as descriptor:
                    self.git.flush(descriptor)
            except OSError as error:
                if error.errno not in safe_open.GONE:
                    raise


def _unlink_if_exists(parent: int, name: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)


def _make_directory(parent: int, name: bytes) -> None:
    """Create a directory, replacing anything that is not a directory."""
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            os.mkdir(name, 0o700, dir_fd=parent)
