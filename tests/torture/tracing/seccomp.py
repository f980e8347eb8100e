"""The filter that stops a traced program at calls that change something, and nowhere else."""

from __future__ import annotations

import ctypes
import struct

from tests.torture.tracing import calls, ptrace

_NO_NEW_PRIVS, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_ALLOW, _TRACE = 0x7FFF0000, 0x7FF00000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def program(machine: str) -> bytes:
    """The filter, in the kernel's form."""
    ops = [_op(_LOAD, _ARCHITECTURE), _op(_EQUAL, _AUDIT[machine], 1, 0), _op(_RETURN, _ALLOW)]
    ops.append(_op(_LOAD, _NUMBER))
    for number, kind in calls.numbered(machine).items():
        body = _body(kind)
        ops += [_op(_EQUAL, number, 0, len(body)), *body]
    return b"".join([*ops, _op(_RETURN, _ALLOW)])


def _body(kind: calls.Kind) -> list[bytes]:
    """Return the action for one call: most are traced; an open only if it can create a file, a clone only if
    it creates a process.
    """
    if kind.name not in ("open", "openat", "clone"):
        return [_op(_RETURN, _TRACE)]
    mask, some, none = (calls.CREATING, _TRACE, _ALLOW)
    if kind.name == "clone":
        mask, some, none = (calls.CLONE_THREAD, _ALLOW, _TRACE)
    flags = _ARGUMENT + 8 * kind.words.index("flags")  # the low half: both machines are little-endian
    return [_op(_LOAD, flags), _op(_ANY_BIT, mask, 0, 1), _op(_RETURN, some), _op(_RETURN, none)]


def install(machine: str) -> None:
    """Filter this process and its children from now on. Needs no privilege. Raises OSError."""
    filter_ops = program(machine)
    buffer = ctypes.create_string_buffer(filter_ops, len(filter_ops))
    head = struct.pack("H6xP", len(filter_ops) // 8, ctypes.addressof(buffer))
    head_buffer = ctypes.create_string_buffer(head, len(head))
    ptrace.prctl(_NO_NEW_PRIVS, 1)
    ptrace.prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(head_buffer))
