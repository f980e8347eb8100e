"""Moving the user's work tree and index to what was made ready: only what differs, never through a link.

Each file is old or new at every moment, git's own lock is held meanwhile, and whoever is cut off can begin again.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from logist.errors import Refused, StorageError
from logist.workspace import beneath, names
from logist.workspace.publishing.drafting import conversions
from logist.workspace.publishing.staging import INDEX, STAGING, Staged, with_index
from logist.workspace.publishing.target import Target

MARKER = "logist-merge"
"""In the repository while work is merged into it: whose lock it is."""
MANY = 200
"""From so many files on, one flush of everything is cheaper than one for each."""

_OPEN = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def take_away_leftovers(target: Target) -> None:
    """Ends what a command was doing that was killed: its lock goes, files that it has moved in already stay.

    The caller holds the lock of the target.
    """
    folder = target.git.git_dir
    marker = folder / MARKER
    if not os.path.lexists(marker):
        return
    ours = False
    with suppress(FileNotFoundError):
        ours = os.path.samestat(os.lstat(folder / "index.lock"), os.lstat(marker))
    _let_go(target, index=ours)


def _let_go(target: Target, *, index: bool) -> None:
    """Takes away the locks that are ours, those of a git of ours that was killed among them, and all else."""
    folder = target.git.git_dir
    locks = [*(target.common / "refs" / "heads" / "logist").glob("*.lock")]
    if index or target.top is None:  # no other git moves what is checked out while we hold that
        locks.append(folder / "HEAD.lock")
        locks += [target.common / f"{target.branch}.lock"] if target.branch else []
    if index:
        locks.append(folder / "index.lock")
    for lock in locks:
        lock.unlink(missing_ok=True)
    _clean(folder)


def _clean(folder: Path) -> None:
    shutil.rmtree(folder / STAGING, ignore_errors=True)
    for name in (INDEX, f"{INDEX}.lock", MARKER):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def at_work(target: Target, job_id: str, *, index: bool) -> Iterator[None]:
    """Marks the target as ours meanwhile, so that what a killed command leaves is known for ours.

    `index`: holds the lock as well that every git takes which changes the index; its file is a second name of
    the mark. Raises Refused where another git has it.
    """
    folder = target.git.git_dir
    try:
        with open(os.open(folder / MARKER, _OPEN, 0o600), "w", encoding="ascii") as file:
            file.write(f"logist job merge --job {job_id}\n")
        if index:
            os.link(folder / MARKER, folder / "index.lock")
    except FileExistsError:
        _clean(folder)
        fix = "wait until it has ended; if none is at work, remove that file"
        message = "another git is at work there, or was killed"
        raise Refused(message, where=str(folder / "index.lock"), fix=fix) from None
    except OSError as error:
        _clean(folder)
        raise StorageError(error.strerror or str(error), where=str(folder)) from error
    try:
        yield
    finally:
        _let_go(target, index=index)


def apply(staged: Staged) -> None:
    """Moves files and index in, durably. The caller holds the lock of the index, and moves the branch then."""
    move = staged.move
    assert move.target.top is not None
    _flush_files(staged.new)
    folders: set[bytes] = set()
    with beneath.root(move.target.top) as top, beneath.root(staged.new) as new:
        for path in move.touched:
            if path not in move.after:
                _remove(top, path, folders)
        for path in move.touched:
            if path in move.after:
                _move_in(top, new, path, folders)
        _flush_folders(top, folders)
    git = with_index(move.git, staged.index)
    git.ask(f"--work-tree={move.target.top}", *conversions(move.target), "update-index", "-q", "--refresh")
    os.chmod(staged.index, 0o666 & ~move.target.git.umask)
    _flush_file(staged.index)
    os.replace(staged.index, move.target.git.git_dir / "index")
    flush_folder(move.target.git.git_dir)


def _remove(top: int, path: bytes, folders: set[bytes]) -> None:
    """Removes a file, and the directories above it that hold nothing any more."""
    parts = path.split(b"/")
    try:
        with beneath.directory(top, parts[:-1]) as parent:
            if not stat.S_ISDIR(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode):
                os.unlink(parts[-1], dir_fd=parent)
        for depth in range(len(parts) - 1, 0, -1):
            with beneath.directory(top, parts[: depth - 1]) as parent:
                os.rmdir(parts[depth - 1], dir_fd=parent)
    except OSError as error:
        if error.errno not in (*beneath.GONE, *beneath.NOT_EMPTY):
            raise
    folders.update(_with_root(names.parents([path])))


def _move_in(top: int, new: int, path: bytes, folders: set[bytes]) -> None:
    """Moves a file to its place; directories above it are made where they are missing."""
    *above, name = path.split(b"/")
    with _made(top, above) as parent, beneath.directory(new, above) as source:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                _remove_empty(parent, name)
        try:
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy_in(source, parent, name)
    folders.update(_with_root(names.parents([path])))


def _with_root(folders: set[bytes]) -> set[bytes]:
    return folders | {b""}


def _remove_empty(parent: int, name: bytes) -> None:
    """Removes a directory of directories: all files in it are gone by now."""
    with beneath.directory(parent, [name]) as folder:
        for each in map(os.fsencode, os.listdir(folder)):
            _remove_empty(folder, each)
    os.rmdir(name, dir_fd=parent)


@contextmanager
def _made(top: int, parts: Sequence[bytes]) -> Iterator[int]:
    descriptor = os.dup(top)
    try:
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, 0o777, dir_fd=descriptor)
            below = beneath.open_directory(descriptor, part)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _copy_in(source: int, parent: int, name: bytes) -> None:
    """The same between two file systems, where a linked work tree lies apart from its repository."""
    temporary = b".logist-" + name[:200]
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=parent)
    status = os.stat(name, dir_fd=source, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), temporary, dir_fd=parent)
    else:
        with open(os.open(temporary, _OPEN, stat.S_IMODE(status.st_mode), dir_fd=parent), "wb") as file:
            with open(os.open(name, beneath.FILE, dir_fd=source), "rb") as staged:
                shutil.copyfileobj(staged, file)
            file.flush()
            os.fsync(file.fileno())
    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)


def _flush_files(folder: Path) -> None:
    found = [Path(place, name) for place, _, files in os.walk(folder) for name in files]
    if len(found) >= MANY:
        os.sync()
        return
    for path in found:
        if not path.is_symlink():
            _flush_file(path)


def _flush_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folders(top: int, folders: set[bytes]) -> None:
    for raw in sorted(folders):
        try:
            with beneath.directory(top, raw.split(b"/") if raw else []) as descriptor:
                os.fsync(descriptor)
        except OSError as error:
            if error.errno not in beneath.GONE:
                raise


def flush_folder(path: Path) -> None:
    """Makes the names in a directory durable; one that is not there has none."""
    with suppress(FileNotFoundError), beneath.root(path) as descriptor:
        os.fsync(descriptor)
