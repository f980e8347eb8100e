"""Opens what is below a directory, component by component, never through a link.

`unlocking` is for callers that write: what its owner has locked is unlocked on the way. Without it, nothing
is changed, and what is locked is a PermissionError.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe that an agent left would hold us for ever.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO)
"""What opening says when the thing is not there (any more), or is of another kind."""


NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


@contextmanager
def open_root(path: Path, *, unlocking: bool = False) -> Iterator[int]:
    """Open the directory itself; the descriptor lives as long as the block."""
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
        make_writable(descriptor)  # it can be listed, but nothing in it can be looked at
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
    """Open the regular file `parts` below `top` for reading; anything else is an OSError of GONE."""
    with open_below(top, parts[:-1], unlocking=unlocking) as parent:
        descriptor = _open_file(parent, parts[-1], unlocking)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENXIO, "not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _open_file(parent: int, name: bytes, unlocking: bool) -> int:
    # Looked at first: opening a device can already do something.
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
    """Let the owner read and write (and enter) again; never through a link,
    never a file with a second name.
    """
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        entry_status = os.fstat(handle)
        if stat.S_ISDIR(entry_status.st_mode) or (
            stat.S_ISREG(entry_status.st_mode) and entry_status.st_nlink == 1
        ):
            wanted = 0o700 if stat.S_ISDIR(entry_status.st_mode) else 0o600
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(entry_status.st_mode) | wanted)
    finally:
        os.close(handle)


def make_writable(descriptor: int) -> None:
    """Give the owner all rights in an opened directory."""
    mode = os.fstat(descriptor).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(descriptor, stat.S_IMODE(mode) | stat.S_IRWXU)


def read_exactly(descriptor: int, size: int, chunk: int = 1 << 20) -> Iterator[bytes]:
    """Yield `size` bytes from the file; one that shrinks meanwhile is filled up with zeros."""
    while size > 0:
        data = os.read(descriptor, min(chunk, size)) or bytes(min(chunk, size))
        size -= len(data)
        yield data


def read_link(parent: int, name: bytes) -> bytes:
    """Return where a symbolic link points; something else is an OSError of GONE."""
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise OSError(errno.ENXIO, "not a symbolic link") from None
        raise
