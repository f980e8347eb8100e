"""Durable file operations: atomic replace, explicit modes, and errors that name the path."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from logist import systems
from logist.errors import Damaged, StorageError, storage_advice
from logist.regular_files import MOST, open_regular, read_regular

if TYPE_CHECKING:
    from pathlib import Path  # importing it takes longer than all of this module


TEMPORARY = ".new"
"""Suffix of the name of a half-written file; the name also begins with a dot."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_unsynced: list[str] = []
"""Files that this process failed to flush. After such a failure, nothing that it writes is safe."""

_unpublished: set[str] = set()
"""The directories that this process is still creating (see `defer_flushes`)."""


def dump_json(value: object) -> bytes:
    """Serialize to compact JSON on one line, UTF-8.

    Raises StorageError for what no JSON reader could read back: lone surrogates, NaN, nesting too deep.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (ValueError, RecursionError) as error:
        raise _not_storable_error(error) from error


def dump_pretty(value: object) -> bytes:
    """Like dump_json, but for people: one field per line, a newline at the end."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1).encode() + b"\n"
    except (ValueError, RecursionError) as error:
        raise _not_storable_error(error) from error


def _not_storable_error(error: Exception) -> StorageError:
    return StorageError(
        f"can't store a value as JSON: {error}",
        fix="this is a bug in Logist, please report it; nothing was written",
    )


@contextmanager
def convert_os_errors(path: Path) -> Iterator[None]:
    """Turn an OSError on `path` into a StorageError with the path and a fix."""
    try:
        yield
    except OSError as error:
        raise make_storage_error(path, error) from error


def make_storage_error(path: Path, error: OSError) -> StorageError:
    """Return the StorageError for an OSError on `path`."""
    message = f"can't read or write: {error.strerror or error}"
    return StorageError(message, where=str(path), fix=storage_advice(error.errno))


def require_trust(path: Path) -> None:
    """Raise StorageError once an fsync has failed in this process; called before every write."""
    if _unsynced:
        raise StorageError(
            f"refusing to write: flushing {_unsynced[0]} to disk has failed",
            where=str(path),
            fix="check the disk, then run the command again",
        )


def fsync(fd: int, path: Path, call: Callable[[int], None] = systems.flush) -> None:
    """Flush `fd` to disk, once; does nothing inside a folder whose flushes are deferred (`defer_flushes`).

    The kernel may drop the pages of a failed fsync and report success for the next one ("fsyncgate"), so a
    failure is final for this process: StorageError now and at every later write.
    """
    require_trust(path)
    if _has_deferred_flushes(path):
        return
    with stop_writing_on_error(path):
        call(fd)


@contextmanager
def flush_meanwhile(fd: int, path: Path) -> Iterator[None]:
    """Flush `fd` in another thread while the block runs; both are durable after it.

    Two flushes at the same time take about as long as one. Raises StorageError if this one fails.
    """
    from threading import Thread  # noqa: PLC0415 - few commands need it

    failures: list[Exception] = []

    def flush() -> None:
        try:
            with convert_os_errors(path):
                fsync(fd, path)
        except Exception as error:  # noqa: BLE001  raised below
            failures.append(error)

    thread = Thread(target=flush)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failures:
        raise failures[0]


@contextmanager
def stop_writing_on_error(path: Path) -> Iterator[None]:
    """If a flush inside the block fails, this process never writes again (see `require_trust`)."""
    try:
        yield
    except OSError:
        _unsynced.append(str(path))
        raise


@contextmanager
def defer_flushes(folder: Path) -> Iterator[None]:
    """Inside the block, nothing in `folder` is flushed; the caller flushes all of it once
    (`flushing.flush_tree`).

    For a directory that is renamed when it is complete: what a power cut leaves of it before that is never
    read.
    """
    name = str(folder)
    _unpublished.add(name)
    try:
        yield
    finally:
        _unpublished.discard(name)


def _has_deferred_flushes(path: Path) -> bool:
    # A copy: other threads may begin or end a job meanwhile.
    return any(f"{path}/".startswith(f"{name}/") for name in tuple(_unpublished))


def write_all(fd: int, data: bytes | bytearray | memoryview, offset: int | None = None) -> None:
    """Write every byte at `offset`, or where the file is; after a short write, continue with the rest."""
    remaining = memoryview(data)
    while remaining:
        if offset is None:
            count = os.write(fd, remaining)
        else:
            count = os.pwrite(fd, remaining, offset)
            offset += count
        remaining = remaining[count:]


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace `path` with `data`: all or nothing, and durable.

    The data is written to a temporary file in the same directory, flushed and renamed; then the directory is
    flushed. Raises StorageError when that fails; then the old file is untouched.
    """
    replace_chunks(path, (data,), mode)


def replace_chunks(path: Path, chunks: Iterable[bytes], mode: int = 0o600) -> None:
    """`replace_file` for content that need not fit into memory."""
    require_trust(path)
    with convert_os_errors(path), open_directory_fd(path.parent) as parent:
        # A unique name: two writers without the lock must not share a half-written file.
        temporary = f".{path.name}.{os.urandom(6).hex()}{TEMPORARY}"
        try:
            _write_new(parent, temporary, path, chunks, mode)
            # The new content is on disk before the name changes, and the name is on disk before we return. So
            # after a power cut there is the old file or the new one, never half of one.
            os.rename(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise
        # A rename lives in the directory; without this flush it may be undone by a power cut after we
        # reported success.
        fsync(parent, path.parent)


def _write_new(parent: int, name: str, path: Path, chunks: Iterable[bytes], mode: int) -> None:
    fd = os.open(name, _CREATE, mode, dir_fd=parent)
    try:
        os.fchmod(fd, mode)  # whatever the umask is
        offset = 0
        for chunk in chunks:
            write_all(fd, chunk, offset)
            offset += len(chunk)
        fsync(fd, path)
    finally:
        os.close(fd)


def touch(path: Path) -> None:
    """Create an empty file. Only its name is made durable: the file's existence is its whole content."""
    require_trust(path)
    with convert_os_errors(path), open_directory_fd(path.parent) as parent:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path.name, flags, 0o600, dir_fd=parent)
        os.fchmod(fd, 0o600)
        os.close(fd)
        fsync(parent, path.parent)


def read_start(path: Path, size: int) -> bytes:
    """Read the first `size` bytes of a file; empty if there is none. Raises
    Damaged if it is not a regular file.
    """
    with convert_os_errors(path):
        try:
            descriptor, _ = open_regular(path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            _refuse_irregular(path, error)
            raise
        try:
            return os.read(descriptor, size)
        finally:
            os.close(descriptor)


def read_bytes(path: Path, most: int = MOST) -> bytes | None:
    """Read the whole file; None if there is none. Raises Damaged if it is
    not a regular file, or larger than `most`.
    """
    with convert_os_errors(path):
        try:
            return read_regular(path, most)
        except FileNotFoundError:
            return None
        except OSError as error:
            _refuse_irregular(path, error)
            raise


def _refuse_irregular(path: Path, error: OSError) -> None:
    """Raise Damaged if `error` means that the path is not a file as Logist writes them."""
    if _is_irregular(error):
        raise damaged_file_error(path, "not a regular file") from error
    if error.errno == errno.EFBIG:
        raise damaged_file_error(path, str(error.strerror)) from error


def _is_irregular(error: OSError) -> bool:
    # open_regular raises EINVAL; the others are for a socket, and for a device without a driver.
    return error.errno in (errno.EINVAL, errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV)


@contextmanager
def open_required_file(path: Path, what: str, describe_fix: Callable[[], str]) -> Iterator[BinaryIO]:
    """Open a file that must exist, for reading piece by piece.

    Raises Damaged, with the fix, if it is missing or not a regular file.
    """
    with convert_os_errors(path):
        try:
            descriptor, _ = open_regular(path)
        except FileNotFoundError as error:
            raise Damaged(f"{what} is missing", where=str(path), fix=describe_fix()) from error
        except OSError as error:
            if _is_irregular(error):
                message = f"{what} is not a regular file"
                raise Damaged(message, where=str(path), fix=describe_fix()) from error
            if os.path.islink(path):  # ELOOP can also come from a parent directory
                raise _symlink_error(path, what, describe_fix()) from error
            raise
        with os.fdopen(descriptor, "rb") as file:
            yield file


def _symlink_error(path: Path, what: str, fix: str) -> Damaged:
    if os.path.isfile(path):
        fix = f"if the link leads to the right file, put the file in its place: {format_unlink_command(path)}"
    return Damaged(f"{what} is a symbolic link", where=str(path), fix=fix)


def damaged_file_error(path: Path, message: str) -> Damaged:
    """The error for a file of a job that is not as Logist wrote it; its fix
    is the command to move it away.
    """
    return Damaged(message, where=str(path), fix=f"check it, then move it away: {format_move_command(path)}")


def format_unlink_command(path: Path) -> str:
    """The shell command that replaces a symbolic link by a copy of its target."""
    name, copy = shlex.quote(str(path)), shlex.quote(f"{path}.copy")
    return f"cp {name} {copy} && mv {copy} {name}"


def format_move_command(path: Path) -> str:
    """The shell command that renames a damaged file or directory to
    `<name>.damaged`, in the same directory.
    """
    aside = path.with_name(f"{path.name}.damaged")
    return f"mv {shlex.quote(str(path))} {shlex.quote(str(aside))}"


@contextmanager
def open_directory_fd(path: Path) -> Iterator[int]:
    """An open directory descriptor, for `dir_fd` and fsync; closed at the end of the block."""
    fd = os.open(path, _DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def lock_directory(path: Path) -> Iterator[None]:
    """Hold the lock of a directory; who waits for it queues, and the kernel frees it when its holder dies.

    Raises StorageError for anything but a directory, also for a link to one.
    """
    _refuse_link(path)
    with convert_os_errors(path):
        fd = os.open(path, _DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def create_ignored_directory(path: Path) -> None:
    """Create a private directory that git ignores, with those above it; nothing happens if it exists."""
    _refuse_link(path)
    if os.path.isdir(path):
        return
    with convert_os_errors(path.parent):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    ensure_directory(path)
    replace_file(path / ".gitignore", b"*\n")


def _refuse_link(path: Path) -> None:
    if os.path.islink(path):
        fix = "put the directory itself in its place, or remove the link"
        raise StorageError("is a symbolic link; Logist needs a directory here", where=str(path), fix=fix)


def make_directory(path: Path) -> bool:
    """Make a private directory (0700 under any umask); False if it exists already."""
    with convert_os_errors(path):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            return False
        os.chmod(path, 0o700)
        return True


def ensure_directory(path: Path) -> None:
    """Make a private directory if it is missing, with a durable name."""
    if make_directory(path):
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    with convert_os_errors(path), open_directory_fd(path) as fd:
        fsync(fd, path)


def _restore_owner_access(folder: str) -> None:
    """Give the owner back the permissions a program may have removed:
    without them a directory can't be emptied.
    """
    mode = os.lstat(folder).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(folder, stat.S_IMODE(mode) | stat.S_IRWXU)


def remove_tree(path: Path) -> None:
    """Remove a directory and everything in it; links are removed, not followed. No error if it is gone."""
    with convert_os_errors(path):
        if path.is_symlink():
            os.unlink(path)
        pending: list[str] = [str(path)] if os.path.lexists(path) else []
        folders: list[str] = []
        while pending:
            folders.append(pending.pop())
            _restore_owner_access(folders[-1])
            with os.scandir(folders[-1]) as scanned:
                entries = list(scanned)  # first: macOS skips some if others are removed meanwhile
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    os.unlink(entry.path)
        for folder in reversed(folders):
            os.rmdir(folder)
