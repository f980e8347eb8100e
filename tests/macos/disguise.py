"""Makes a Python process on Linux look like one on macOS. `mac.py` puts it into an environment whose processes all import it at their start.

What CPython does not have on macOS is removed (`linux_only.txt`), /proc can't be seen, and the functions of macOS that Logist calls are emulated
with those of Linux. A use of anything else that only Linux has is an AttributeError or a FileNotFoundError with its name.

It can't show everything: files are those of Linux (only looking at them and reading them ignores case, and names may have any bytes), and so are
other programs, such as git.
"""

from __future__ import annotations

import errno
import fcntl
import importlib
import os
import posix
import resource
import select
import selectors
import signal
import socket
import stat
import struct
import sys
import sysconfig
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ctypes  # isort: skip

_HERE = Path(__file__).parent
TRACE = Path(sys.prefix, "trace")
"""If this file exists, each emulated call adds a line to it."""
MOUNT = Path(sys.prefix, "mount")
"""The type and the source of a network file system, on which all files seem to be."""

# Numbers of macOS, from its sys/fcntl.h, sys/stdio.h, sys/proc_info.h.
_GETPATH, _FULLFSYNC, _GETLK = 50, 51, 7
_RENAME_SWAP, _RENAME_EXCL = 2, 4
_AT_FDCWD = -2
_UNLOCKED, _WRITE_LOCKED = 2, 3
_FLOCK = "qqihh"
"""The `struct flock` of macOS: start, length, pid, type, whence."""
_TBSDINFO, _TBSDINFO_SIZE, _STARTED_AT = 3, 136, 120
_FICLONE = 0x40049409
_OPEN_MAX = 10_240
_BLOCK = 4
"""How many entries of a directory are read at once."""

_seeing = threading.local()


def read_linux_only() -> dict[str, list[str]]:
    """Return the names in `linux_only.txt` by module."""
    names: dict[str, list[str]] = {}
    inside: list[str] = []
    for line in (_HERE / "linux_only.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            inside = names[line.strip("[]")] = []
        elif not line.startswith("#"):
            inside += line.split()
    return names


def wear() -> None:
    """Make this process look like one on macOS."""
    sysconfig.get_config_vars()  # of this build, before it is searched under the name of the other system
    names = read_linux_only()
    modules: list[types.ModuleType] = [os, posix, fcntl, select, signal, time, resource, socket, errno]
    for module in (*modules, *map(importlib.import_module, ("termios", "mmap", "_signal", "_socket"))):
        for name in names[{"posix": "os"}.get(module.__name__, module.__name__.removeprefix("_"))]:
            if hasattr(module, name):
                delattr(module, name)
    if hasattr(os, "process_cpu_count"):  # from Python 3.13 on; it was defined with what is removed above
        os.process_cpu_count = os.cpu_count
    for name in ("EpollSelector", "DevpollSelector"):
        vars(selectors).pop(name, None)
    importlib.reload(selectors)  # `socket` loaded it, with what was there before
    _hide_proc()
    _change_files()
    _change_fcntl()
    _change_limits()
    _change_poll()
    _change_libc(frozenset(names["libc"]))
    settings = types.ModuleType("_scproxy")  # the module with which Python reads the proxies of macOS
    proxy = "http://127.0.0.1:1"  # set in the system settings, as by many VPNs; nothing listens there
    read: Any = settings
    read._get_proxies = lambda: {"http": proxy, "https": proxy}
    read._get_proxy_settings = lambda: {"exclude_simple": False, "exceptions": ("*.inside.example",)}
    sys.modules["_scproxy"] = settings
    host = f"network-{os.getpid()}.local"  # a Mac has another name in each network
    kernel = "Darwin Kernel Version 24.6.0"
    os.uname = posix.uname = lambda: os.uname_result(("Darwin", host, "24.6.0", kernel, "arm64"))
    sys.platform = "darwin"


def _trace(call: str, path: object) -> None:
    if os.path.exists(TRACE):
        with open(TRACE, "a", encoding="utf-8") as file:
            file.write(f"{call} {path}\n")


@contextmanager
def _linux() -> Iterator[None]:
    """Let this thread see /proc: an emulated call needs it."""
    _seeing.depth = getattr(_seeing, "depth", 0) + 1
    try:
        yield
    finally:
        _seeing.depth -= 1


# /proc


def _is_hidden(path: object) -> bool:
    if getattr(_seeing, "depth", 0) or not isinstance(path, str | bytes | os.PathLike):
        return False
    name = os.path.normpath(os.fsdecode(path))
    # /dev/fd exists on macOS, but nothing can be opened below a directory there.
    return (
        name == "/proc" or name.startswith("/proc/") or (name.startswith("/dev/fd/") and name.count("/") > 3)
    )


def _refuse_hidden(path: object) -> None:
    if _is_hidden(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in (
        "open",
        "os.listdir",
        "os.scandir",
        "os.chmod",
        "os.link",
        "os.rename",
        "os.mkdir",
        "os.utime",
    ):
        _refuse_hidden(arguments[0])


def _hide_proc() -> None:
    sys.addaudithook(_audit)
    for name in ("stat", "lstat", "readlink", "access", "statvfs"):
        _replace(name, _check_path(getattr(os, name), is_question=name == "access"))


def _check_path(call: Callable[..., Any], *, is_question: bool) -> Callable[..., Any]:
    def checked(path: Any, *arguments: Any, **named: Any) -> Any:
        if is_question and _is_hidden(path):
            return False
        _refuse_hidden(path)
        try:
            return call(path, *arguments, **named)
        except FileNotFoundError:
            if (found := _find_other_case(path, named.get("dir_fd"))) is None:
                raise
            return call(found, *arguments, **named)

    return checked


def _find_other_case(path: Any, dir_fd: int | None) -> str | None:
    """The path of an existing file whose last name differs only in case: for most file systems of macOS, it is the same."""
    folder, name = os.path.split(os.fsdecode(path))
    if dir_fd is not None and folder:
        return None
    try:
        names = os.listdir(folder or ("." if dir_fd is None else dir_fd))
    except OSError:
        return None
    return next((os.path.join(folder, each) for each in names if each.lower() == name.lower()), None)


def _replace(name: str, call: Callable[..., Any]) -> None:
    was = getattr(os, name)
    for group in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if was in group:
            group.add(call)
    setattr(os, name, call)
    setattr(posix, name, call)


# Files


def _change_files() -> None:
    _change_opening(os.open)
    _change_removing(os.unlink)
    _change_scanning(os.scandir)
    _change_permissions(os.chmod, os.open)
    was_pair = socket.socketpair

    def pair(family: int | None = None, type: int = socket.SOCK_STREAM, proto: int = 0) -> Any:  # noqa: A002
        if type == socket.SOCK_SEQPACKET:
            raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))
        return was_pair(family, type, proto)

    socket.socketpair = pair


def _change_opening(was_open: Callable[..., int]) -> None:
    def open_(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        try:
            return was_open(path, flags, mode, dir_fd=dir_fd)
        except OSError as error:
            if error.errno == errno.ENOENT and (found := _find_other_case(path, dir_fd)) is not None:
                return was_open(found, flags, mode, dir_fd=dir_fd)
            if error.errno == errno.ENXIO and _is_socket(path, dir_fd):
                raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), path) from None
            raise

    _replace("open", open_)


def _change_removing(was_unlink: Callable[..., None]) -> None:
    def unlink(path: Any, *, dir_fd: int | None = None) -> None:
        try:
            was_unlink(path, dir_fd=dir_fd)
        except IsADirectoryError:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path) from None

    for name in ("unlink", "remove"):
        _replace(name, unlink)


class _Scanned:
    """The entries of a directory, read block by block. What is removed in between moves the rest, and some entries are never read."""

    def __init__(self, entries: list[os.DirEntry[Any]], folder: int | None) -> None:
        self._entries, self._folder = entries, folder
        self._unread = iter(self._read_blocks())

    def _read_blocks(self) -> Iterator[os.DirEntry[Any]]:
        at = 0
        while at < len(self._entries):
            block = self._entries[at : at + _BLOCK]
            yield from block
            at += _BLOCK + sum(not self._exists(entry) for entry in block)

    def _exists(self, entry: os.DirEntry[Any]) -> bool:
        try:
            os.stat(entry.path, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        return self

    def __next__(self) -> os.DirEntry[Any]:
        return next(self._unread)

    def __enter__(self) -> _Scanned:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


def _change_scanning(was_scandir: Callable[..., Any]) -> None:
    def scandir(path: Any = ".") -> _Scanned:
        with was_scandir(path) as scanned:
            return _Scanned(list(scanned), path if isinstance(path, int) else None)

    _replace("scandir", scandir)


def _change_permissions(was_chmod: Callable[..., None], was_open: Callable[..., int]) -> None:
    def chmod(path: Any, mode: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        if follow_symlinks:
            was_chmod(path, mode, dir_fd=dir_fd)
            return
        with _linux():  # the C libraries of older Linux systems don't have it
            fd = was_open(path, _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
            try:
                was_chmod(f"/proc/self/fd/{fd}", mode)
            finally:
                os.close(fd)

    _replace("chmod", chmod)
    os.supports_follow_symlinks.add(chmod)


def _is_socket(path: Any, dir_fd: int | None) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path, dir_fd=dir_fd).st_mode)
    except OSError:
        return False


_O_PATH = os.O_PATH if hasattr(os, "O_PATH") else 0o10000000


# fcntl, limits


def _change_fcntl() -> None:
    was_fcntl, was_ioctl, was_fsync = fcntl.fcntl, fcntl.ioctl, os.fsync

    def control(fd: Any, command: int, argument: Any = 0) -> Any:
        number = fd if isinstance(fd, int) else fd.fileno()
        if command == _FULLFSYNC:
            _trace("F_FULLFSYNC", _find_path(number))
            return was_fsync(number)
        if command == _GETPATH:
            return os.fsencode(_find_path(number)).ljust(1024, b"\0")
        if command == _GETLK:
            return _find_lock(number, argument)
        if command in (8, 9, 90, 91, 92):
            raise AssertionError("a lock of a part of a file conflicts with an flock of the file on macOS")
        return was_fcntl(fd, command, argument)

    def device_control(fd: Any, request: int, *arguments: Any) -> Any:
        if request == _FICLONE:
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        return was_ioctl(fd, request, *arguments)

    def sync(fd: Any) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        _trace("fsync", _find_path(number))
        was_fsync(number)

    def sync_all() -> None:
        raise AssertionError("on macOS, sync returns before anything is written")

    _replace("fsync", sync)
    _replace("sync", sync_all)
    mac: Any = fcntl
    mac.fcntl, mac.ioctl = control, device_control
    mac.F_FULLFSYNC, mac.F_GETPATH = _FULLFSYNC, _GETPATH
    mac.F_GETLK, mac.F_SETLK, mac.F_SETLKW = _GETLK, 8, 9
    mac.F_OFD_SETLK, mac.F_OFD_SETLKW, mac.F_OFD_GETLK = 90, 91, 92
    mac.F_RDLCK, mac.F_UNLCK, mac.F_WRLCK = 1, _UNLOCKED, _WRITE_LOCKED


def _find_path(fd: int) -> str:
    with _linux():
        return os.readlink(f"/proc/self/fd/{fd}")


def _find_lock(fd: int, asked: bytes) -> bytes:
    """What F_GETLK finds on macOS: also an flock, with -1 for the pid."""
    start, length, pid, _, whence = struct.unpack(_FLOCK, asked)
    status = os.fstat(fd)
    name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with _linux(), open("/proc/locks", encoding="ascii") as locks:
        is_locked = f" {name} " in locks.read()
    kind = _WRITE_LOCKED if is_locked else _UNLOCKED
    return struct.pack(_FLOCK, start, length, -1 if is_locked else pid, kind, whence)


def _change_limits() -> None:
    was_setrlimit = resource.setrlimit

    def set_limit(kind: int, limits: tuple[int, int]) -> None:
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")
        if kind == resource.RLIMIT_NOFILE and (limits[0] < 0 or limits[0] > _OPEN_MAX):
            raise ValueError("current limit exceeds maximum limit")
        was_setrlimit(kind, limits)

    resource.setrlimit = set_limit


def _change_poll() -> None:
    was_poll = select.poll

    class Poll:
        """Reports only what was asked for, and a reader that is gone as POLLHUP."""

        def __init__(self) -> None:
            self._real, self._asked = was_poll(), dict[int, int]()

        def register(self, fd: Any, events: int = select.POLLIN | select.POLLPRI | select.POLLOUT) -> None:
            self._asked[fd if isinstance(fd, int) else fd.fileno()] = events
            self._real.register(fd, events)

        def unregister(self, fd: Any) -> None:
            self._real.unregister(fd)

        def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
            found = self._real.poll(timeout)
            return [
                (fd, (events | select.POLLHUP) & ~select.POLLERR if events & select.POLLERR else events)
                for fd, events in found
                if self._asked[fd]
            ]

    select.poll = Poll  # type: ignore[assignment, misc]


# The C library


def _change_libc(linux_only: frozenset[str]) -> None:
    real = ctypes.CDLL(None, use_errno=True)
    emulated = {
        "gethostuuid": _identify_machine,
        "renameatx_np": _Renaming(real),
        "proc_pidinfo": _describe_process,
        "sysctlbyname": _read_setting,
        "statfs": _describe_mount,
    }

    class Library(ctypes.CDLL):
        def __getattr__(self, name: str) -> Any:
            if name in emulated:
                return emulated[name]
            if name in linux_only:
                raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
            return super().__getattr__(name)

    ctypes.CDLL = Library  # type: ignore[misc]


class _Renaming:
    """`renameatx_np`, which has other numbers than `renameat2`."""

    def __init__(self, real: ctypes.CDLL) -> None:
        self._rename = real.renameat2

    def __call__(self, source: int, old: bytes, folder: int, new: bytes, flag: int) -> int:
        flags = {_RENAME_SWAP: 2, _RENAME_EXCL: 1}
        at = {_AT_FDCWD: -100}
        _trace("renameatx_np", f"{flag} {os.fsdecode(new)}")
        done: int = self._rename(at.get(source, source), old, at.get(folder, folder), new, flags[flag])
        return done


def _describe_process(pid: int, flavor: int, argument: Any, buffer: Any, size: int) -> int:
    """`proc_pidinfo`: only when the process was started. Zombies are not found."""
    assert (flavor, size) == (_TBSDINFO, _TBSDINFO_SIZE)
    assert getattr(argument, "value", argument) == 0
    try:
        with _linux(), open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        words = [b"X"]
    if words[0] in (b"Z", b"X"):
        ctypes.set_errno(errno.ESRCH)
        return 0
    second, rest = divmod(int(words[19]), 100)
    buffer[:size] = bytes(_STARTED_AT) + struct.pack("=QQ", 1_700_000_000 + second, rest * 10_000)
    return size


def _identify_machine(buffer: Any, timeout: Any) -> int:
    """`gethostuuid`."""
    assert len(timeout) == 2
    buffer[:16] = b"uuid of this Mac"
    return 0


def _read_setting(name: bytes, buffer: Any, size: Any, new: Any, new_size: Any) -> int:
    """`sysctlbyname`: only the id of this start of the machine."""
    assert (name, new, getattr(new_size, "value", new_size)) == (b"kern.bootsessionuuid", None, 0)
    with _linux(), open("/proc/sys/kernel/random/boot_id", "rb") as file:
        buffer.value = file.read().strip().upper()
    return 0


def _describe_mount(path: bytes, buffer: Any) -> int:
    """`statfs`: type, source and whether it is local; those in the file MOUNT, or a local APFS."""
    kind, source, is_local = "apfs", "/dev/disk3s1", True
    if MOUNT.exists():
        kind, source = MOUNT.read_text("utf-8").split()
        is_local = False
    os.stat(path)
    described = bytearray(2168)
    described[64:68] = struct.pack("=I", 0x1000 if is_local else 0)
    described[72 : 72 + len(kind)] = kind.encode()
    described[1112 : 1112 + len(source)] = source.encode()
    buffer[: len(described)] = bytes(described)
    return 0


wear()
