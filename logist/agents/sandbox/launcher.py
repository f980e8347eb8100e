"""Drops its own rights (Landlock, seccomp, capabilities, limits) and then becomes the program.

Run as `python -I -S launcher.py PLAN REPORT`, two descriptors: a JSON object to read, and a pipe that gets
the error, or nothing. It is a separate program that uses only the standard library, because no code may run
between fork and exec in a process with threads. `sandbox.landlock` writes the plan.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System calls of Landlock, the same on every architecture."""
_VERSION = 1
_PATH_BENEATH = 1
_NET_PORT = 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 1 << 9, 1 << 10, 1 << 11, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OLDEST = (1 << 13) - 1
_SINCE = {2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_TCP = 0b11
"""Binding and connecting."""
_CONNECT = 0b10
TCP_SINCE = 4
_SCOPES = 0b11
"""Abstract unix sockets and signals."""
SCOPES_SINCE = 6

READ = EXECUTE | READ_FILE | READ_DIR
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
WRITE = ((1 << 16) - 1) & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
"""Everything except creating device files."""

_SET_PDEATHSIG, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _SET_SECCOMP = 1, 24, 38, 22
_SECCOMP_FILTER = 2
_CAPABILITIES_VERSION = 0x20080522
_LAST_CAPABILITY = 63

NICE = 10
OOM_SCORE = 500

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # implied by `_pack_`; Python 3.14 and newer require it
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Port(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))


def read_landlock_version() -> int:
    """Return the version of Landlock in this kernel; 0 if unsupported or disabled."""
    version: int = _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    return max(0, version)


def get_file_rights(version: int) -> int:
    """Return the file rights that this version of Landlock can restrict."""
    return _OLDEST | sum(right for since, right in _SINCE.items() if version >= since)


def restrict_access(
    rules: Sequence[tuple[str, int]], *, version: int, files: bool, tcp: bool, port: int = 0
) -> None:
    """Remove all file rights except those in `rules`; with `tcp` also binding and connecting, except connecting
    to `port`; always the scopes.
    """
    rights = get_file_rights(version) if files else 0
    ruleset = _Ruleset(
        rights,
        _TCP if tcp and version >= TCP_SINCE else 0,
        _SCOPES if version >= SCOPES_SINCE else 0,
    )
    size = 24 if version >= SCOPES_SINCE else 16 if version >= TCP_SINCE else 8
    number = _check_result(
        "landlock", _libc.syscall(CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    )
    for path, allowed in rules:
        _add_rule(number, path, allowed & rights)
    if tcp and port and version >= TCP_SINCE:
        rule = _Port(_CONNECT, port)
        _check_result(f"port {port}", _libc.syscall(ADD_RULE, number, _NET_PORT, ctypes.byref(rule), 0))
    _check_result("landlock", _libc.syscall(RESTRICT_SELF, number, 0))
    os.close(number)


def _add_rule(ruleset: int, path: str, allowed: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # it doesn't exist or isn't visible: then it gets no rights
        return
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        allowed &= _OF_FILES
    rule = _Beneath(allowed, place)
    _check_result(path, _libc.syscall(ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    os.close(place)


def _drop_capabilities() -> None:
    for number in range(_LAST_CAPABILITY + 1):
        _libc.prctl(
            _CAPBSET_DROP, number, 0, 0, 0
        )  # fails for capabilities that the kernel or this process lacks
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    _check_result("capset", _libc.capset(header, (ctypes.c_uint32 * 6)()))


def _apply_filter(program: bytes) -> None:
    described = _Filter(len(program) // 8, program)
    _check_result("seccomp", _libc.prctl(_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(described), 0, 0))


def set_limits(limits: Mapping[str, int], pid: int = 0) -> None:
    """Set a process's resource limits by name, both soft and hard, none above its current hard limit."""
    for name, wanted in limits.items():
        kind = getattr(resource, name)
        hard = resource.prlimit(pid, kind)[1]
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.prlimit(pid, kind, (most, most))


def lower_priority(pid: int = 0) -> None:
    """Lower the process's priority, and let the kernel kill it first when memory runs out.

    Logist needs CPU time to stop a program, and when memory runs out, the kernel must kill the program instead of
    Logist. Batch systems, cron and containers may start Logist with a higher niceness or score, which only root
    may lower: so this never goes below the current values. It is not part of the confinement: a program starts
    even if this fails.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, max(NICE, os.getpriority(os.PRIO_PROCESS, pid)))
    with suppress(OSError), open(f"/proc/{pid or 'self'}/oom_score_adj", "r+", encoding="ascii") as file:
        score = max(OOM_SCORE, int(file.read()))
        file.seek(0)
        file.write(str(score))


def _check_result(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def _execute_plan(plan: Mapping[str, Any]) -> None:
    _check_result("prctl", _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != plan["parent"]:  # the parent ended before the signal was set
        sys.exit(1)
    set_limits(plan["limits"])
    if plan["limits"]:
        lower_priority()
    os.chdir(plan["cwd"])
    if plan["confined"]:
        # Root ignores file permissions, and Landlock rules alone would still allow it mount and ptrace.
        if plan["files"]:
            _drop_capabilities()
        _check_result("prctl", _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        if plan["version"]:
            restrict_access(
                plan["rules"],
                version=plan["version"],
                files=plan["files"],
                tcp=plan["tcp"],
                port=plan["port"],
            )
        if plan["filter"]:
            _apply_filter(bytes.fromhex(plan["filter"]))
    # Python ignores both; ignored signals stay ignored across exec, and programs such as `yes | head` rely on
    # them.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    environment = {os.fsencode(name): os.fsencode(value) for name, value in plan["environment"].items()}
    os.execve(plan["executable"], plan["argv"], environment)  # noqa: S606  no shell needed


def main(plan: int, report: int) -> NoReturn:
    """Carry out the plan; returns only to report an error."""
    os.set_inheritable(report, False)
    with open(plan, "rb") as file:
        content = json.load(file)
    try:
        _execute_plan(content)
    except OSError as error:
        os.write(report, f"{error.errno} {error}".encode("utf-8", "replace"))
    sys.exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
