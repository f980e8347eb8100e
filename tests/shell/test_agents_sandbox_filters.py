"""The filter of system calls, read as the kernel reads it, for each processor that has one."""

from __future__ import annotations

import errno
import struct

import pytest

from logist.agents.sandbox import filters

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED = 0

SELF_ONLY = {
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
IPC = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
SETPRIORITY, IOPRIO_SET = (141, 140), (251, 30)
PTRACE, PROCESS_VM_WRITEV, PIDFD_GETFD = (101, 117), (311, 271), (438, 438)
IOCTL, SOCKET, READ = (16, 29), (41, 198), (0, 63)
SENDTO, SENDMSG, SENDMMSG = (44, 206), (46, 211), (307, 269)
OTHER = 4321

pytestmark = pytest.mark.parametrize("machine", MACHINES)


def judge(
    machine: str, numbers: tuple[int, int], *arguments: int, boxed: bool = False, gate: bool = False
) -> int:
    """The error that a call gets, or ALLOWED; by the six instructions that our filters are made of."""
    program = filters.build_filter(boxed=boxed, gate=gate, machine=machine)
    assert program is not None
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    call = struct.pack("<iIQ6Q", numbers[list(MACHINES).index(machine)], MACHINES[machine], 0, *padded)
    lines = list(struct.iter_unpack("HBBI", program))
    loaded = place = 0
    while True:
        code, if_true, if_false, value = lines[place]
        place += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", call, value)
        elif code == 0x15:
            place += if_true if loaded == value else if_false
        elif code == 0x35:
            place += if_true if loaded >= value else if_false
        elif code == 0x45:
            place += if_true if loaded & value else if_false
        elif code == 0x54:
            loaded &= value
        else:
            assert code == 0x06
            break
    if value == 0x7FFF0000:
        return ALLOWED
    assert value >> 16 == 5
    return int(value & 0xFFFF)


@pytest.mark.parametrize("name", SELF_ONLY)
def test_priority_processors_and_limits_of_the_caller_alone(machine: str, name: str) -> None:
    numbers = SELF_ONLY[name]
    assert judge(machine, numbers, 0, 7, 7) == ALLOWED
    assert judge(machine, numbers, OTHER, 7, 7) == errno.EPERM
    assert judge(machine, numbers, OTHER, 7, 7, boxed=True) == ALLOWED


@pytest.mark.parametrize(("numbers", "process"), [(SETPRIORITY, 0), (IOPRIO_SET, 1)])
def test_priority_by_process_group_and_user(machine: str, numbers: tuple[int, int], process: int) -> None:
    assert judge(machine, numbers, process, 0, 7) == ALLOWED
    assert judge(machine, numbers, process, OTHER, 7) == errno.EPERM
    for group_or_user in (process + 1, process + 2):
        assert judge(machine, numbers, group_or_user, 0, 7) == errno.EPERM
    assert judge(machine, numbers, process, OTHER, 7, boxed=True) == ALLOWED


@pytest.mark.parametrize("name", IPC)
def test_what_a_machine_shares_by_number_or_name(machine: str, name: str) -> None:
    assert judge(machine, IPC[name], 7) == errno.ENOSYS
    assert judge(machine, IPC[name], 7, boxed=True) == ALLOWED


@pytest.mark.parametrize("boxed", [True, False])
def test_nothing_traces_the_first_process(machine: str, boxed: bool) -> None:
    for request in (0, 16, 0x4206):
        assert judge(machine, PTRACE, request, 1, boxed=boxed) == errno.EPERM
        assert judge(machine, PTRACE, request, 1 | 1 << 32, boxed=boxed) == errno.EPERM
        assert judge(machine, PTRACE, request, OTHER, boxed=boxed) == ALLOWED
    assert judge(machine, PROCESS_VM_WRITEV, 1, boxed=boxed) == errno.EPERM
    assert judge(machine, PROCESS_VM_WRITEV, OTHER, boxed=boxed) == ALLOWED
    assert judge(machine, PIDFD_GETFD, 3, boxed=boxed) == errno.EPERM


@pytest.mark.parametrize("boxed", [True, False])
def test_the_rest_is_judged_after_those(machine: str, boxed: bool) -> None:
    assert judge(machine, READ, OTHER, boxed=boxed) == ALLOWED
    assert judge(machine, IOCTL, 0, 0x5412, boxed=boxed) == errno.EPERM
    assert judge(machine, IOCTL, 0, 0x5401, boxed=boxed) == ALLOWED
    assert judge(machine, SOCKET, 40, boxed=boxed) == errno.EACCES
    assert judge(machine, SOCKET, 2, boxed=boxed) == (ALLOWED if boxed else errno.EACCES)


def test_only_tcp_sockets_for_a_program_that_reaches_only_a_gate(machine: str) -> None:
    stream, datagram, raw = 1, 2, 3
    not_blocking = 0x800
    for family in (2, 10):
        for protocol in (0, 6):
            assert judge(machine, SOCKET, family, stream | not_blocking, protocol, gate=True) == ALLOWED
        for other in (132, 262):  # SCTP and MPTCP
            assert judge(machine, SOCKET, family, stream, other, gate=True) == errno.EACCES
        for kind in (datagram, raw, raw | not_blocking):
            assert judge(machine, SOCKET, family, kind, 0, gate=True) == errno.EACCES
    assert judge(machine, SOCKET, 16, raw, 0, gate=True) == ALLOWED
    assert judge(machine, SOCKET, 16, raw, 9, gate=True) == errno.EACCES
    for family in (1, 17, 40):
        assert judge(machine, SOCKET, family, stream, 0, gate=True) == errno.EACCES
    assert judge(machine, READ, 7, gate=True) == ALLOWED


def test_no_connection_by_sending_where_a_gate_is_all_that_is_reached(machine: str) -> None:
    fast_open, no_signal = 0x20000000, 0x4000
    for call, before in ((SENDTO, 3), (SENDMSG, 2), (SENDMMSG, 3)):
        arguments = (7,) * before
        assert judge(machine, call, *arguments, no_signal, gate=True) == ALLOWED
        assert judge(machine, call, *arguments, no_signal | fast_open, gate=True) == errno.EPERM
        assert judge(machine, call, *arguments, fast_open) == ALLOWED


def test_one_instruction_too_far_would_be_refused_by_the_kernel(machine: str) -> None:
    for boxed, gate in ((True, False), (False, False), (False, True)):
        program = filters.build_filter(boxed=boxed, gate=gate, machine=machine)
        assert program is not None
        lines = list(struct.iter_unpack("HBBI", program))
        assert len(lines) < 4096
        for place, (code, if_true, if_false, _) in enumerate(lines):
            assert code == 0x06 or place + 1 + max(if_true, if_false) < len(lines)
