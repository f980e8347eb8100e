"""Opens files and directories below a directory, component by component, never through a link.

`unlocking` is for callers that write: it adds missing permissions of the owner on the path. Without it, nothing
is changed, and missing permissions are a PermissionError.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from logist import systems

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe that an agent left would block forever.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EOPNOTSUPP)
"""The error numbers of opening a file that does not exist (any more), or is of another kind. The last two are for sockets, on Linux
and on macOS."""


NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


@contextmanager
def open_root(path: Path, *, unlocking: bool = False) -> Iterator[int]:
    """Open the directory itself; the descriptor is closed at the end of the block."""
    descriptor = open_directory(None, os.fsencode(path), unlocking=unlocking)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_directory(parent: int | None, name: bytes, *, unlocking: bool = False) -> int:
    """Open a directory in `parent` (modes of directories are not kept, so unlocking loses nothing)."""
    try:
        descriptor = os.open(name, DIRECTORY, dir_fd=parent)
    except PermissionError:
        if not unlocking:
            raise
        unlock_entry(parent, name)
        return os.open(name, DIRECTORY, dir_fd=parent)
    if unlocking and not os.fstat(descriptor).st_mode & stat.S_IXUSR:
        make_writable(descriptor)  # it can be listed, but its entries can't be accessed
    return descriptor


@contextmanager
def open_below(top: int, parts: Sequence[bytes], *, unlocking: bool = False) -> Iterator[int]:
    """Open the directory `parts` below `top`; yield its descriptor."""
    descriptor = os.dup(top)
    try:
        for part in parts:
            below = open_directory(descriptor, part, unlocking=unlocking)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_regular_below(top: int, parts: Sequence[bytes], *, unlocking: bool = False) -> Iterator[int]:
    """Open the regular file `parts` below `top` for reading. Raises OSError of GONE for anything else."""
    with open_below(top, parts[:-1], unlocking=unlocking) as parent:
        descriptor = _open_file(parent, parts[-1], unlocking)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENXIO, "not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _open_file(parent: int, name: bytes, unlocking: bool) -> int:
    # Check first: opening a device can have side effects.
    if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        raise OSError(errno.ENXIO, "not a regular file")
    try:
        return os.open(name, FILE, dir_fd=parent)
    except PermissionError:
        if not unlocking:
            raise
        unlock_entry(parent, name)
        return os.open(name, FILE, dir_fd=parent)


def unlock_entry(parent: int | None, name: bytes) -> None:
    """Give the owner permission to read and write (and enter); never through
    a link, and never for a file with hard links.
    """
    systems.change_mode(name, _choose_unlocked_mode, parent)


def _choose_unlocked_mode(status: os.stat_result) -> int | None:
    if stat.S_ISDIR(status.st_mode):
        return stat.S_IMODE(status.st_mode) | 0o700
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return stat.S_IMODE(status.st_mode) | 0o600
    return None


def make_writable(descriptor: int) -> None:
    """Give the owner all permissions for an opened directory."""
    mode = os.fstat(descriptor).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(descriptor, stat.S_IMODE(mode) | stat.S_IRWXU)


def read_exactly(descriptor: int, size: int, chunk: int = 1 << 20) -> Iterator[bytes]:
    """Yield `size` bytes from the file; if it shrinks meanwhile, the rest is zeros."""
    while size > 0:
        data = os.read(descriptor, min(chunk, size)) or bytes(min(chunk, size))
        size -= len(data)
        yield data


def read_link(parent: int, name: bytes) -> bytes:
    """Return the target of a symbolic link. Raises OSError of GONE for anything else."""
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise OSError(errno.ENXIO, "not a symbolic link") from None
        raise
