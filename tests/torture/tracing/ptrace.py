"""The few kernel interfaces that a tracer needs, by ctypes."""

from __future__ import annotations

import ctypes
import os
import struct

MACHINE = os.uname().machine

CONT, SYSCALL, LISTEN, SEIZE = 7, 24, 0x4208, 0x4206
_GETEVENTMSG, _GETREGSET, _SETREGSET, _GET_SYSCALL_INFO = 0x4201, 0x4204, 0x4205, 0x420E

FORKED, VFORKED, CLONED, EXECUTED, SECCOMP, STOPPED = 1, 2, 3, 4, 7, 128
"""Events, in the bits of a wait status above the signal."""
OPTIONS = 1 | sum(1 << event for event in (FORKED, VFORKED, CLONED, EXECUTED, SECCOMP)) | 1 << 20
"""TRACESYSGOOD, all these events, EXITKILL."""

_AT_SECCOMP, _AT_EXIT = 3, 2
_PRSTATUS, _ARM_SYSTEM_CALL = 1, 0x404
_ARGUMENTS = {"x86_64": (14, 13, 12, 7, 9, 8), "aarch64": (0, 1, 2, 3, 4, 5)}
_RESULT = {"x86_64": 10, "aarch64": 0}
_NUMBER = 15  # orig_rax
_REGISTERS = {"x86_64": 27, "aarch64": 34}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
_libc.process_vm_readv.restype = ctypes.c_ssize_t


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def request(code: int, thread: int, data: int = 0, address: int = 0) -> int:
    """One ptrace request; OSError (ESRCH for a thread that was killed meanwhile)."""
    ctypes.set_errno(0)
    return _checked(_libc.ptrace(code, thread, address, data), "ptrace")


def prctl(option: int, *values: int) -> None:
    """One prctl; OSError."""
    _checked(_libc.prctl(option, *(*values, 0, 0, 0, 0)[:4]), "prctl")


def event_message(thread: int) -> int:
    """The thread id that belongs to an event."""
    value = ctypes.c_ulong()
    request(_GETEVENTMSG, thread, ctypes.addressof(value))
    return value.value


def entered(thread: int) -> tuple[int, tuple[int, ...]]:
    """Return number and six arguments of the call that a stopped thread is about to make."""
    info = _syscall_info(thread, _AT_SECCOMP)
    number, *arguments = struct.unpack_from("7Q", info, 24)
    return number, tuple(arguments)


def returned(thread: int) -> int:
    """Return the result of the call that a stopped thread has made; an error as negative errno."""
    return int(struct.unpack_from("q", _syscall_info(thread, _AT_EXIT), 24)[0])


def _syscall_info(thread: int, wanted: int) -> bytes:
    buffer = ctypes.create_string_buffer(96)
    request(_GET_SYSCALL_INFO, thread, ctypes.addressof(buffer), len(buffer))
    if buffer.raw[0] != wanted:
        raise RuntimeError(f"thread {thread} stands at {buffer.raw[0]}, not at {wanted}")
    return buffer.raw


def refuse(thread: int, errno: int) -> None:
    """Skip the call that a stopped thread is about to make: it returns the error."""
    registers = _registers(thread)
    registers[_RESULT[MACHINE]] = -errno & 0xFFFF_FFFF_FFFF_FFFF
    if MACHINE == "x86_64":
        registers[_NUMBER] = 0xFFFF_FFFF_FFFF_FFFF
    else:
        _regset(_SETREGSET, thread, _ARM_SYSTEM_CALL, ctypes.create_string_buffer(struct.pack("i", -1), 4))
    _set_registers(thread, registers)


def set_argument(thread: int, index: int, value: int) -> None:
    """Change an argument of the call that a stopped thread is about to make."""
    registers = _registers(thread)
    registers[_ARGUMENTS[MACHINE][index]] = value
    _set_registers(thread, registers)


def _registers(thread: int) -> list[int]:
    buffer = ctypes.create_string_buffer(8 * _REGISTERS[MACHINE])
    _regset(_GETREGSET, thread, _PRSTATUS, buffer)
    return list(struct.unpack(f"{_REGISTERS[MACHINE]}Q", buffer.raw))


def _set_registers(thread: int, registers: list[int]) -> None:
    packed = struct.pack(f"{len(registers)}Q", *registers)
    _regset(_SETREGSET, thread, _PRSTATUS, ctypes.create_string_buffer(packed, len(packed)))


def _regset(code: int, thread: int, kind: int, buffer: ctypes.Array[ctypes.c_char]) -> None:
    vector = _Vector(ctypes.addressof(buffer), len(buffer))
    request(code, thread, ctypes.addressof(vector), kind)


def memory(thread: int, address: int, size: int) -> bytes:
    """Return as much of a thread's memory as can be read from an address; b"" if none."""
    buffer = ctypes.create_string_buffer(size)
    here, there = _Vector(ctypes.addressof(buffer), size), _Vector(address, size)
    count = _libc.process_vm_readv(thread, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return buffer.raw[: max(0, count)]


def text(thread: int, address: int) -> bytes:
    """Return the text at an address, up to a zero byte."""
    found = b""
    while b"\0" not in found and len(found) < 1 << 16:
        # Don't read across the end of a page: the next page may not exist.
        piece = memory(thread, address + len(found), 4096 - (address + len(found)) % 4096)
        if not piece:
            break
        found += piece
    return found.partition(b"\0")[0]
