"""Moves files into and out of the user's work tree, each with one swap: what the user saves meanwhile is never
lost.

A file that a swap takes out is checked; if it is not the file that was checked before, it is put back, and
all other swaps are reverted.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from logist import systems
from logist.quick_tuple import NamedTuple
from logist.workspace.files import safe_open

NOREPLACE, EXCHANGE = 1, 2
"""How `rename_with_flag` renames."""

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class KnownFile(NamedTuple):
    """Identifies a checked file, and shows whether it was written since."""

    device: int
    inode: int
    mode: int
    size: int
    modified: int
    changed: int

    def is_still(self, other: KnownFile | None) -> bool:
        """Whether it is the same unchanged file; it may have been renamed."""
        return other is not None and self[:-1] == other[:-1]


def identify_file(status: os.stat_result) -> KnownFile:
    """Return the identity of a file, from its status."""
    return KnownFile(
        status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def identify_file_at(parent: int, name: bytes) -> KnownFile | None:
    """Return the identity of the file at a path; None if there is none, or for a directory."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return None if stat.S_ISDIR(status.st_mode) else identify_file(status)


class Meanwhile(Exception):
    """The file at this path has changed since it was checked."""

    def __init__(self, path: bytes) -> None:
        super().__init__(path)
        self.path = path


class _Done(NamedTuple):
    """A path that has its new state."""

    path: bytes
    store: int | None
    """The directory with the old file; None if it is next to the new one."""
    kept: bytes
    had: bool
    """Whether there was an old file."""
    placed: KnownFile | None
    """The file at the path now."""


class Swaps:
    """The swaps of one move; they can all be reverted. See `open_swaps`."""

    def __init__(self, top: int, new: int, gone: int) -> None:
        self.top, self.new, self.gone = top, new, gone
        self.done: list[_Done] = []
        self.made: list[list[bytes]] = []
        """The created directories."""

    def remove_file(self, path: bytes, judged: KnownFile | None) -> None:
        """Remove a file. Raises Meanwhile, OSError."""
        try:
            self._remove_file(path, judged)
        except OSError as error:
            if error.errno not in safe_open.GONE:
                raise
            if judged is not None:
                raise Meanwhile(path) from None
        self._remove_empty_parents(path.split(b"/")[:-1])

    def _remove_file(self, path: bytes, judged: KnownFile | None) -> None:
        *above, name = path.split(b"/")
        with safe_open.open_below(self.top, above) as parent:
            known_file = identify_file_at(parent, name)
            if known_file != judged:
                raise Meanwhile(path)
            if known_file is None:
                return
            store: int | None = self.gone
            kept = b"%d" % len(self.done)
            try:
                # Moved away instead of deleted: if the user saved the file between our check and this rename, it is
                # not the checked file, and is moved back.
                rename_with_flag(parent, name, self.gone, kept, NOREPLACE)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                store, kept = None, _make_unique_name()
                rename_with_flag(parent, name, parent, kept, NOREPLACE)
            self.done.append(_Done(path, store, kept, True, None))
            if not known_file.is_still(identify_file_at(parent if store is None else store, kept)):
                raise Meanwhile(path)

    def _remove_empty_parents(self, parts: list[bytes]) -> None:
        """Remove the directories that are empty now."""
        with suppress(OSError):
            for depth in range(len(parts), 0, -1):
                with safe_open.open_below(self.top, parts[: depth - 1]) as parent:
                    os.rmdir(parts[depth - 1], dir_fd=parent)

    def place_file(self, path: bytes, judged: KnownFile | None) -> None:
        """Move the new file to its path. Raises Meanwhile, OSError."""
        *above, name = path.split(b"/")
        with self._open_or_create(above) as parent, safe_open.open_below(self.new, above) as folder:
            if identify_file_at(parent, name) != judged:
                raise Meanwhile(path)
            if judged is None:
                _remove_empty(parent, name)
            try:
                self._swap_in(path, folder, name, parent, judged, None)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                kept = _copy_file(folder, name, parent)
                try:
                    self._swap_in(path, parent, kept, parent, judged, kept)
                except OSError:
                    os.unlink(kept, dir_fd=parent)
                    raise

    def _swap_in(
        self,
        path: bytes,
        folder: int,
        kept: bytes,
        parent: int,
        judged: KnownFile | None,
        beside: bytes | None,
    ) -> None:
        name = path.rpartition(b"/")[2]
        placed = identify_file_at(folder, kept)
        try:
            # One system call exchanges the two names, so the file always exists, and the old file can be
            # compared afterwards. Checking first and replacing then would lose what the user saves in
            # between.
            rename_with_flag(folder, kept, parent, name, NOREPLACE if judged is None else EXCHANGE)
        except (FileExistsError, FileNotFoundError):
            if beside:
                os.unlink(beside, dir_fd=parent)
            raise Meanwhile(path) from None
        store = None if beside else self.new
        self.done.append(_Done(path, store, beside or path, judged is not None, placed))
        if judged is not None and not judged.is_still(identify_file_at(folder, kept)):
            raise Meanwhile(path)

    @contextmanager
    def _open_or_create(self, parts: Sequence[bytes]) -> Iterator[int]:
        """Open a directory below the top, creating it if it is missing; yield its descriptor."""
        descriptor = os.dup(self.top)
        try:
            for depth, part in enumerate(parts, 1):
                with suppress(FileExistsError):
                    os.mkdir(part, 0o777, dir_fd=descriptor)
                    self.made.append(list(parts[:depth]))
                below = safe_open.open_directory(descriptor, part)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def revert_all(self) -> None:
        """Revert everything except files that have changed since."""
        while self.done:
            with suppress(OSError):
                self._revert_one(self.done.pop())
        for parts in reversed(self.made):
            with suppress(OSError), safe_open.open_below(self.top, parts[:-1]) as parent:
                os.rmdir(parts[-1], dir_fd=parent)

    def _revert_one(self, done: _Done) -> None:
        *above, name = done.path.split(b"/")
        with ExitStack() as stack:
            parent = stack.enter_context(self._open_or_create(above))
            store, kept = parent, done.kept
            if done.store is not None:
                *folders, kept = done.kept.split(b"/")
                store = stack.enter_context(safe_open.open_below(done.store, folders))
            if done.placed is None:
                rename_with_flag(store, kept, parent, name, NOREPLACE)
            elif done.placed.is_still(identify_file_at(parent, name)):
                if done.had:
                    rename_with_flag(store, kept, parent, name, EXCHANGE)
                else:
                    rename_with_flag(parent, name, store, kept, NOREPLACE)
                if done.store is None:
                    os.unlink(kept, dir_fd=parent)

    def delete_kept(self) -> None:
        """Delete the old files that are kept next to the new ones."""
        for done in self.done:
            if done.store is None and done.had:
                with suppress(OSError), safe_open.open_below(self.top, done.path.split(b"/")[:-1]) as parent:
                    os.unlink(done.kept, dir_fd=parent)


@contextmanager
def open_swaps(top: Path, new: Path, gone: Path) -> Iterator[Swaps]:
    """Open swaps between the work tree `top` and the files in `new`; removed files are moved to `gone`.

    If the block raises, all swaps are reverted.
    """
    gone.mkdir(mode=0o700)
    with safe_open.open_root(top) as one, safe_open.open_root(new) as two, safe_open.open_root(gone) as three:
        all_swaps = Swaps(one, two, three)
        try:
            yield all_swaps
        except BaseException:
            all_swaps.revert_all()
            raise
        all_swaps.delete_kept()


def rename_with_flag(source: int, old: bytes, folder: int, new: bytes, flag: int) -> None:
    """Exchange the files of two names, or rename to a name that does not exist yet. Raises OSError."""
    rename = systems.rename_to_free_name if flag == NOREPLACE else systems.exchange_names
    if rename(source, old, folder, new):
        return
    if flag == NOREPLACE:
        # File systems that can't do this in one step (some network and FUSE ones): a hard link fails if the name
        # exists, which is NOREPLACE.
        os.link(old, new, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(old, dir_fd=source)
        return
    # An exchange with three renames. Between the first two the name is missing for a moment, but nothing is
    # lost: both files keep a name at every point.
    other = _make_unique_name()
    os.rename(new, other, src_dir_fd=folder, dst_dir_fd=source)
    rename_with_flag(source, old, folder, new, NOREPLACE)
    os.rename(other, old, src_dir_fd=source, dst_dir_fd=source)


def _make_unique_name() -> bytes:
    """Return a name that does not exist."""
    return b".logist-" + secrets.token_hex(12).encode("ascii")


def _copy_file(source: int, name: bytes, parent: int) -> bytes:
    """Copy a file under another name, if a linked work tree is on another
    file system than its repository.
    """
    other = _make_unique_name()
    status = os.stat(name, dir_fd=source, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), other, dir_fd=parent)
        return other
    descriptor = os.open(other, _NEW_FILE, stat.S_IMODE(status.st_mode), dir_fd=parent)
    try:
        with open(descriptor, "wb") as file:
            with open(os.open(name, safe_open.FILE, dir_fd=source), "rb") as staged:
                shutil.copyfileobj(staged, file)
            file.flush()
            systems.flush(file.fileno())
    except BaseException:
        os.unlink(other, dir_fd=parent)
        raise
    return other


def _remove_empty(parent: int, name: bytes) -> None:
    """Remove a directory that contains only directories, if it exists."""
    try:
        folder = safe_open.open_directory(parent, name)
    except FileNotFoundError:
        return
    try:
        for each in map(os.fsencode, os.listdir(folder)):
            _remove_empty(folder, each)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=parent)
