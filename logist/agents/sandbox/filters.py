"""System calls that confined programs do not get, as a seccomp filter; none on machines we have no table for."""

from __future__ import annotations

import errno
import platform
import socket
import struct
from collections.abc import Iterable, Sequence

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Kernel keys of the user, tracing of the machine, and loading code into the kernel: nothing that a build needs.
_NEVER = {
    "x86_64": (246, 248, 249, 250, 298, 320, 321, 323, 175, 176, 313, 155, 165, 166, 167, 168, 169, 304),
    "aarch64": (104, 217, 218, 219, 241, 280, 282, 294, 105, 106, 273, 41, 40, 39, 224, 225, 142, 265),
}
"""kexec_load, add_key, request_key, keyctl, perf_event_open, bpf, userfaultfd, kexec_file_load, modules,
pivot_root, mount, umount2, swapon, swapoff, reboot, open_by_handle_at (in the order of each table)."""
_IO_URING = (425, 426, 427)
"""It opens sockets without the calls that are watched here; programs do without it where it is missing."""
_SOCKET = {"x86_64": 41, "aarch64": 198}
_IOCTL = {"x86_64": 16, "aarch64": 29}
_TYPING = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: typing into a terminal."""
_X32 = 0x40000000
"""The bit of the other table of system calls on x86_64."""

_LOAD, _EQUAL, _AT_LEAST, _GIVE = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_INTERNET = (int(socket.AF_INET), int(socket.AF_INET6), 16)
"""The last is AF_NETLINK, by which programs ask for their addresses."""

Instruction = tuple[int, int, int, int]


def program(*, families: Sequence[int] | None = None, machine: str | None = None) -> bytes | None:
    """The filter as the kernel reads it; None on a machine without a table.

    `families`: the only address families that sockets may have; None allows all, () none.
    """
    machine = machine or platform.machine()
    if machine not in _AUDIT_ARCH:
        return None
    lines = [*_own_architecture(machine), *_refused((*_NEVER[machine], *_IO_URING))]
    lines += _typing(_IOCTL[machine])
    if families is not None:
        lines += _sockets(_SOCKET[machine], families)
    lines.append((_GIVE, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def families(*, network: bool, boxed: bool) -> tuple[int, ...]:
    """What sockets may be: never the kinds that no network namespace holds back, as those to a hypervisor.

    Without such a namespace (`boxed`) none at all, or those of the network: not AF_UNIX, for the sockets of
    the machine's services are reached by their path, which Landlock lets pass.
    """
    if boxed:
        return (*_INTERNET, int(socket.AF_UNIX))
    return _INTERNET if network else ()


def _own_architecture(machine: str) -> Iterable[Instruction]:
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_EQUAL, 1, 0, _AUDIT_ARCH[machine])
    yield (_GIVE, 0, 0, _KILL)
    yield (_LOAD, 0, 0, _NUMBER)
    if machine == "x86_64":
        yield (_AT_LEAST, 0, 1, _X32)
        yield (_GIVE, 0, 0, _ERRNO | errno.ENOSYS)


def _refused(numbers: Iterable[int]) -> Iterable[Instruction]:
    for number in numbers:
        yield (_EQUAL, 0, 1, number)
        yield (_GIVE, 0, 0, _ERRNO | (errno.ENOSYS if number in _IO_URING else errno.EPERM))


def _typing(ioctl: int) -> Iterable[Instruction]:
    yield (_EQUAL, 0, 5, ioctl)
    yield (_LOAD, 0, 0, _SECOND)
    for request in _TYPING:
        yield (_EQUAL, 0, 1, request)
        yield (_GIVE, 0, 0, _ERRNO | errno.EPERM)


def _sockets(number: int, allowed: Sequence[int]) -> Iterable[Instruction]:
    yield (_LOAD, 0, 0, _NUMBER)
    yield (_EQUAL, 0, 2 * len(allowed) + 2, number)
    yield (_LOAD, 0, 0, _FIRST)
    for family in allowed:
        yield (_EQUAL, 0, 1, family)
        yield (_GIVE, 0, 0, _ALLOW)
    yield (_GIVE, 0, 0, _ERRNO | errno.EACCES)
