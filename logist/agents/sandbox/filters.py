"""The seccomp filter: system calls that confined programs can't use.
Only for processors with a table in this module.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Kernel keys of the user, tracing the machine, and loading code into the kernel: no build needs these.
# With pidfd_getfd, a program could take the message that tells bubblewrap that it has ended.
_NEVER = {
    "x86_64": (246, 248, 249, 250, 298, 320, 321, 323, 175, 176, 313, 155, 165, 166, 167, 168, 169, 304, 438),
    "aarch64": (104, 217, 218, 219, 241, 280, 282, 294, 105, 106, 273, 41, 40, 39, 224, 225, 142, 265, 438),
}
"""kexec_load, add_key, request_key, keyctl, perf_event_open, bpf, userfaultfd, kexec_file_load, modules,
pivot_root, mount, umount2, swapon, swapoff, reboot, open_by_handle_at, pidfd_getfd (in the order of each table)."""
_IPC = {
    "x86_64": (29, 30, 31, 67, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241),
    "aarch64": (194, 196, 195, 197, 190, 193, 191, 192, 186, 189, 188, 187, 180, 181),
}
"""shmget, shmat, shmctl, shmdt, semget, semop, semctl, semtimedop, msgget, msgsnd, msgrcv, msgctl, mq_open, mq_unlink:
objects with a machine-wide number or name, used if there is no namespace for them."""
_TRACING = {"x86_64": {101: 1, 311: 0}, "aarch64": {117: 1, 271: 0}}
"""ptrace and process_vm_writev, and which argument names the process."""
_TUNING = {"x86_64": (302, 142, 144, 203, 314), "aarch64": (261, 118, 119, 122, 274)}
"""prlimit64, sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr: the first argument is the process."""
_PRIORITY = {"x86_64": {141: 0, 251: 1}, "aarch64": {140: 0, 30: 1}}
"""setpriority and ioprio_set, and the first argument by which the second is a process: PRIO_PROCESS, IOPRIO_WHO_PROCESS."""
_IO_URING = (425, 426, 427)
"""io_uring opens sockets without the filtered calls; programs work without io_uring too."""
_SOCKET = {"x86_64": 41, "aarch64": 198}
_IOCTL = {"x86_64": 16, "aarch64": 29}
_SENDING = {"x86_64": {44: 3, 46: 2, 307: 3}, "aarch64": {206: 3, 211: 2, 269: 3}}
"""sendto, sendmsg and sendmmsg, and which argument has the flags."""
_FAST_OPEN = 0x20000000
"""MSG_FASTOPEN: connects while sending, where older versions of Landlock don't check the port."""
_TYPING = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: typing into a terminal."""
_X32 = 0x40000000
"""The bit for the second system call table (x32) on x86_64."""

_LOAD, _EQUAL, _AT_LEAST, _HAS, _AND, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE = 0, 4
# The numbers of Linux; the module `socket` would be loaded only for them.
_UNIX = 1
_INET, _INET6, _NETLINK = 2, 10, 16
_INTERNET = (_INET, _INET6, _NETLINK)
"""With AF_NETLINK, programs read their network addresses."""
_STREAM, _TYPE_MASK = 1, 0xF
_DEFAULT, _TCP = 0, 6
"""Protocols; the default one of AF_NETLINK is about addresses and routes."""

Instruction = tuple[int, int, int, int]


def is_supported(machine: str | None = None) -> bool:
    """Whether there is a table of system calls for this machine."""
    return (machine or platform.machine()) in _AUDIT_ARCH


def build_filter(
    *, boxed: bool, network: bool = False, gate: bool = False, machine: str | None = None
) -> bytes | None:
    """Return the filter in the kernel's format; None on a machine without a table.

    `boxed`: whether the program has its own namespaces for network, processes and shared
    memory. `gate`: it may only make the TCP connections that Landlock allows.
    """
    machine = machine or platform.machine()
    if not is_supported(machine):
        return None
    lines = [*_require_own_architecture(machine), *_refuse_calls(_NEVER[machine], errno.EPERM)]
    lines += _refuse_calls(_IO_URING, errno.ENOSYS)
    for number, argument in _TRACING[machine].items():
        lines += _refuse_first_process(number, argument)
    if not boxed:
        lines += _refuse_calls(_IPC[machine], errno.ENOSYS)
        for number in _TUNING[machine]:
            lines += _allow_only_with(number, 0)
        for number, kind in _PRIORITY[machine].items():
            lines += _allow_only_with(number, kind, 0)
    lines += _refuse_typing(_IOCTL[machine])
    if gate:
        lines += _refuse_fast_open(_SENDING[machine])
        lines += _allow_only_tcp(_SOCKET[machine])
    else:
        lines += _limit_sockets(_SOCKET[machine], _list_families(network=network, boxed=boxed))
    lines.append((_GIVE, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _list_families(*, network: bool, boxed: bool) -> tuple[int, ...]:
    """Return the allowed socket families; never those that a network namespace doesn't restrict (such as sockets to
    a hypervisor).

    Without a network namespace (`boxed` is False): none, or only those for the network. Not AF_UNIX, because
    programs could connect to sockets of the machine's services by path, which Landlock allows.
    """
    if boxed:
        return (*_INTERNET, _UNIX)
    return _INTERNET if network else ()


def _argument_offset(index: int) -> int:
    """Return the offset of the lower half of an argument: process ids, kinds and requests fit into it."""
    return 16 + 8 * index


def _require_own_architecture(machine: str) -> Iterable[Instruction]:
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_EQUAL, 1, 0, _AUDIT_ARCH[machine])
    yield (_GIVE, 0, 0, _KILL)
    yield (_LOAD, 0, 0, _NUMBER)
    if machine == "x86_64":
        yield (_AT_LEAST, 0, 1, _X32)
        yield (_GIVE, 0, 0, _ERRNO | errno.ENOSYS)


def _refuse_calls(numbers: Iterable[int], error: int) -> Iterable[Instruction]:
    for number in numbers:
        yield (_EQUAL, 0, 1, number)
        yield (_GIVE, 0, 0, _ERRNO | error)


def _refuse_first_process(number: int, argument: int) -> Iterable[Instruction]:
    """Refuse the call for process 1 of a sandbox, which is bubblewrap: a program that stops or changes it could
    control when and how the run ends.
    """
    yield (_EQUAL, 0, 4, number)
    yield (_LOAD, 0, 0, _argument_offset(argument))
    yield (_EQUAL, 0, 1, 1)
    yield (_GIVE, 0, 0, _ERRNO | errno.EPERM)
    yield (_GIVE, 0, 0, _ALLOW)


def _allow_only_with(number: int, *arguments: int) -> Iterable[Instruction]:
    """Allow the call only with these first arguments.

    A filter can't know the ids of the program's own processes; a process that changes itself uses 0.
    """
    yield (_EQUAL, 0, 2 * len(arguments) + 2, number)
    for index, value in enumerate(arguments):
        yield (_LOAD, 0, 0, _argument_offset(index))
        yield (_EQUAL, 0, 2 * (len(arguments) - index) - 1, value)
    yield (_GIVE, 0, 0, _ALLOW)
    yield (_GIVE, 0, 0, _ERRNO | errno.EPERM)


def _refuse_typing(ioctl: int) -> Iterable[Instruction]:
    yield (_EQUAL, 0, 5, ioctl)
    yield (_LOAD, 0, 0, _argument_offset(1))
    for request in _TYPING:
        yield (_EQUAL, 0, 1, request)
        yield (_GIVE, 0, 0, _ERRNO | errno.EPERM)


def _limit_sockets(number: int, allowed: Sequence[int]) -> Iterable[Instruction]:
    yield (_LOAD, 0, 0, _NUMBER)
    yield (_EQUAL, 0, 2 * len(allowed) + 2, number)
    yield (_LOAD, 0, 0, _argument_offset(0))
    for family in allowed:
        yield (_EQUAL, 0, 1, family)
        yield (_GIVE, 0, 0, _ALLOW)
    yield (_GIVE, 0, 0, _ERRNO | errno.EACCES)


def _refuse_fast_open(sending: Mapping[int, int]) -> Iterable[Instruction]:
    for number, argument in sending.items():
        yield (_LOAD, 0, 0, _NUMBER)
        yield (_EQUAL, 0, 3, number)
        yield (_LOAD, 0, 0, _argument_offset(argument))
        yield (_HAS, 0, 1, _FAST_OPEN)
        yield (_GIVE, 0, 0, _ERRNO | errno.EPERM)


def _allow_only_tcp(number: int) -> Iterable[Instruction]:
    """Allow sockets for TCP (not MPTCP or SCTP, which Landlock doesn't restrict), and those that read addresses."""
    yield (_LOAD, 0, 0, _NUMBER)
    yield (_EQUAL, 0, 13, number)
    yield (_LOAD, 0, 0, _argument_offset(0))
    yield (_EQUAL, 7, 0, _NETLINK)
    yield (_EQUAL, 1, 0, _INET)
    yield (_EQUAL, 0, 8, _INET6)
    yield (_LOAD, 0, 0, _argument_offset(1))
    yield (_AND, 0, 0, _TYPE_MASK)
    yield (_EQUAL, 0, 5, _STREAM)
    yield (_LOAD, 0, 0, _argument_offset(2))
    yield (_EQUAL, 2, 0, _TCP)
    yield (_LOAD, 0, 0, _argument_offset(2))
    yield (_EQUAL, 0, 1, _DEFAULT)
    yield (_GIVE, 0, 0, _ALLOW)
    yield (_GIVE, 0, 0, _ERRNO | errno.EACCES)
