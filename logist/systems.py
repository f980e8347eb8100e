"""What Linux and macOS do in different ways: flushing, renaming, and what is known about processes and locks.

All of macOS is in this module, and what only Linux has is used elsewhere only where nothing runs on macOS (the sandbox). On macOS, none of it
has run yet: `tests/macos` emulates that system on Linux.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

IS_LINUX = sys.platform == "linux"
HAS_PIDFD = hasattr(os, "pidfd_open")
"""Whether a process can be opened, so that no other process that gets its pid is taken for it."""
_FULL_FLUSH: int | None = getattr(fcntl, "F_FULLFSYNC", None)
FLUSHES_DRIVE_APART = _FULL_FLUSH is not None
"""Whether an fsync leaves data in the memory of the drive, as on macOS, and one `flush` writes all of that.

There, os.sync only begins to write: many files need an fsync each, and then one `flush`."""
_NO_FULL_FLUSH = (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL)
_NO_FLAGS = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
"""The error numbers of file systems that can't exchange two names, or rename without replacing."""
_BOOT_ID = "/proc/sys/kernel/random/boot_id"

# The numbers and structures of macOS: fcntl.h, stdio.h, proc_info.h. Python has no names for most of them.
_FLOCK = "qqihh"
"""`struct flock`: start, length, pid, kind, whence. Linux has another order."""
_PROCESS_INFO, _PROCESS_INFO_SIZE, _STARTED_AT = 3, 136, 120
"""PROC_PIDTBSDINFO, the size of `struct proc_bsdinfo`, and where it has the start: seconds and microseconds."""


_STATFS_SIZE, _MOUNT_FLAGS, _KIND, _SOURCE = 2168, 64, slice(72, 88), slice(1112, 2136)
"""The size of `struct statfs`, and where it has the flags of a mount, the type of its file system, and what is mounted."""
_IS_LOCAL = 0x1000


def flush(fd: int) -> None:
    """Make what was written to a file or directory durable. Raises OSError."""
    if _FULL_FLUSH is not None:
        try:
            fcntl.fcntl(fd, _FULL_FLUSH)
        except OSError as error:
            if error.errno not in _NO_FULL_FLUSH:  # some file systems, such as FAT, only have fsync
                raise
        else:
            return
    os.fsync(fd)


@cache
def _load_library() -> ctypes.CDLL:
    import ctypes  # noqa: PLC0415 - takes 3 ms, and few commands need it

    return ctypes.CDLL(None, use_errno=True)


def _raise_error(name: str | None = None) -> OSError:
    import ctypes  # noqa: PLC0415

    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), name)


def flush_file_system(fd: int) -> None:
    """Make everything durable that was written to the file system of an open directory. Only on Linux. Raises OSError."""
    if _load_library().syncfs(fd):
        raise _raise_error()


def exchange_names(source: int | None, old: bytes, folder: int | None, new: bytes) -> bool:
    """Exchange two files or directories, so that both names exist at every moment; False if it is not possible here.

    `source`, `folder`: the open directories of `old` and `new`; None: the current one. Raises OSError.
    """
    return _rename(source, old, folder, new, linux_flag=2, macos_flag=2)


def rename_to_free_name(source: int | None, old: bytes, folder: int | None, new: bytes) -> bool:
    """Rename in one step, but never replace anything; False if it is not possible here.

    Raises OSError, also if `new` exists.
    """
    return _rename(source, old, folder, new, linux_flag=1, macos_flag=4)


def _rename(
    source: int | None, old: bytes, folder: int | None, new: bytes, *, linux_flag: int, macos_flag: int
) -> bool:
    library = _load_library()
    if IS_LINUX:
        call, flag, current = getattr(library, "renameat2", None), linux_flag, -100
    else:
        call, flag, current = getattr(library, "renameatx_np", None), macos_flag, -2
    if call is None:
        return False
    places = [current if place is None else place for place in (source, folder)]
    if call(places[0], old, places[1], new, flag) == 0:
        return True
    error = _raise_error(os.fsdecode(new))
    if error.errno in _NO_FLAGS:
        return False
    raise error


def change_mode(
    name: str | bytes | Path, choose: Callable[[os.stat_result], int | None], parent: int | None = None
) -> None:
    """Set the permissions of a file or directory that need not be readable; never those of the target of a link.

    `choose`: returns the mode, or None to change nothing. `parent`: the open directory of the name. Raises OSError.
    """
    if not IS_LINUX:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if (mode := choose(status)) is not None:
            os.chmod(name, mode, dir_fd=parent, follow_symlinks=False)
        return
    # On Linux, it is opened for what is checked to be what is changed; fchmod doesn't work with such a descriptor.
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if (mode := choose(os.fstat(fd))) is not None:
            os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def find_path(fd: int) -> str:
    """Return the path of an open file or directory, for messages. Raises OSError."""
    if IS_LINUX:
        return os.readlink(f"/proc/self/fd/{fd}")
    path: bytes = fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024))  # type: ignore[attr-defined, unused-ignore]
    return os.fsdecode(path.partition(b"\0")[0])


def has_other_case(folder: str | Path) -> bool:
    """Whether the name of a directory differs from this one in upper and lower case: most disks of macOS take both for the same."""
    if IS_LINUX:
        return False
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        name, wanted = os.path.basename(find_path(fd)), os.path.basename(folder)
        return name != wanted and name.lower() == wanted.lower()
    except OSError:
        return False
    finally:
        os.close(fd)


def read_boot_id() -> str:
    """Return what is different after each start of the machine; empty if it is unknown."""
    if IS_LINUX:
        try:
            with open(_BOOT_ID, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""
    import ctypes  # noqa: PLC0415

    buffer = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(buffer))
    library = _load_library()
    found = library.sysctlbyname(
        b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, ctypes.c_size_t(0)
    )
    return buffer.value.decode("ascii", "replace") if found == 0 else ""


def read_machine_name() -> str:
    """Return what only this machine has: its name; on macOS its UUID, because there each network may give it another name."""
    if not IS_LINUX:
        import ctypes  # noqa: PLC0415

        buffer = ctypes.create_string_buffer(16)
        one_second = (ctypes.c_int64 * 2)(1, 0)  # `struct timespec`
        if _load_library().gethostuuid(buffer, one_second) == 0:
            return buffer.raw.hex()
    return os.uname().nodename


def read_start_time(pid: int) -> int | None:
    """When a process was started; None if it is gone, or dead and not yet reaped, or on macOS of another user.

    The unit depends on the system.
    """
    if not IS_LINUX:
        return _read_start_time_on_macos(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if words[0] in (b"Z", b"X") else int(words[19])


def _read_start_time_on_macos(pid: int) -> int | None:
    import ctypes  # noqa: PLC0415

    buffer = ctypes.create_string_buffer(_PROCESS_INFO_SIZE)
    size = _load_library().proc_pidinfo(pid, _PROCESS_INFO, ctypes.c_uint64(0), buffer, len(buffer))
    if size != _PROCESS_INFO_SIZE:
        return None
    seconds, microseconds = struct.unpack_from("=QQ", buffer.raw, _STARTED_AT)
    return int(seconds) * 1_000_000 + int(microseconds)


def read_command_line(pid: int) -> list[bytes]:
    """Return the words of the command line of a process; without those that are empty. Raises OSError if there is none."""
    if IS_LINUX:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")
    import subprocess  # noqa: PLC0415 - only ending a courier needs it

    shown = subprocess.run(
        ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, check=False
    )
    if shown.returncode != 0:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return shown.stdout.split()


def is_locked_on_macos(folder: str | Path) -> bool:
    """Whether anyone has a lock (flock) of a directory. Takes none itself: on macOS, F_GETLK also sees those of flock.

    For the same reason, a lock of a part of a file and an flock of the file exclude each other there. Raises OSError.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        asked = struct.pack(_FLOCK, 0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
        answer: bytes = fcntl.fcntl(fd, fcntl.F_GETLK, asked)
        return bool(struct.unpack(_FLOCK, answer)[3] != fcntl.F_UNLCK)
    finally:
        os.close(fd)


def find_mount_on_macos(path: str | Path) -> tuple[str, str, bool]:
    """Return the type of the file system of a path, what is mounted there, and whether it is of this machine. Raises OSError."""
    import ctypes  # noqa: PLC0415

    library = _load_library()
    buffer = ctypes.create_string_buffer(_STATFS_SIZE)
    # On Intel, the plain name has an older structure.
    call = getattr(library, "statfs$INODE64", None) or library.statfs
    if call(os.fsencode(path), buffer):
        raise _raise_error(str(path))
    data = buffer.raw
    kind, source = (os.fsdecode(data[part].partition(b"\0")[0]) for part in (_KIND, _SOURCE))
    return kind, source, bool(struct.unpack_from("=I", data, _MOUNT_FLAGS)[0] & _IS_LOCAL)


def read_umask() -> int:
    """Return the umask of this process, without changing it even for a moment: other threads may create files."""
    digits = "0022"
    try:
        if IS_LINUX:
            with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
                digits = next((line.split()[1] for line in lines if line.startswith("Umask:")), digits)
        else:
            import subprocess  # noqa: PLC0415 - only merging needs it

            digits = subprocess.run(
                ["/bin/sh", "-c", "umask"], capture_output=True, text=True, check=False
            ).stdout
        return int(digits, 8)
    except (OSError, ValueError):
        return 0o022
