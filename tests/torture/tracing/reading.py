"""Reads the paths, numbers and data of a call from the thread that is about to make it."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from tests.torture.tracing import calls, ptrace

_AT_FDCWD = -100


class Seen(NamedTuple):
    """A call that changes something."""

    name: str
    paths: tuple[str, ...]
    detail: dict[str, int]
    data: bytes | None


def read(thread: int, kind: calls.Kind, arguments: tuple[int, ...], with_data: bool) -> Seen | None:
    """The call, or None if it changes nothing after all."""
    paths, detail, data = [], {}, None
    place: int | None = None
    for index, (word, value) in enumerate(zip(kind.words, arguments, strict=False)):
        if word == "at":
            place = _signed(value)
        elif word == "path":
            paths.append(_path(thread, place, value))
        elif word == "fd":
            paths.append(_descriptor(thread, _signed(value)))
        elif word == "text":
            data = ptrace.text(thread, value)
        elif word == "data":
            data = ptrace.memory(thread, value, arguments[index + 1]) if with_data else None
        elif word == "vector":
            pieces = _pieces(thread, value, arguments[index + 1])
            detail["count"] = sum(size for _, size in pieces)
            data = b"".join(ptrace.memory(thread, *piece) for piece in pieces) if with_data else None
        elif word in ("how", "args"):
            detail["flags"] = int.from_bytes(ptrace.memory(thread, value, 8), "little")
        elif word not in ("-", "pieces"):
            detail[word] = _signed(value) if word == "target" else value
    seen = Seen(kind.name, tuple(paths), detail, data)
    return seen if _changes(thread, seen) else None


def _changes(thread: int, seen: Seen) -> bool:
    if seen.name == "openat2":
        return bool(seen.detail["flags"] & calls.CREATING)
    if seen.name == "clone3":
        return not seen.detail["flags"] & calls.CLONE_THREAD
    if seen.name in ("kill", "tkill", "tgkill"):
        return seen.detail["signal"] != 0 and process_of(seen.detail["target"]) != process_of(thread)
    return True


def process_of(thread: int) -> int:
    """Return the process of a thread; the thread's own number if the thread has ended."""
    try:
        with open(f"/proc/{thread}/status", "rb") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(b"Tgid:"))
    except (OSError, StopIteration):
        return thread


def _signed(value: int) -> int:
    return (value & 0xFFFF_FFFF ^ 0x8000_0000) - 0x8000_0000


def _pieces(thread: int, address: int, count: int) -> list[tuple[int, int]]:
    packed = ptrace.memory(thread, address, 16 * count)
    return list(struct.iter_unpack("QQ", packed[: len(packed) // 16 * 16]))


def _path(thread: int, place: int | None, address: int) -> str:
    name = os.fsdecode(ptrace.text(thread, address))
    if name.startswith("/"):
        return os.path.normpath(name)
    base = _link(f"/proc/{thread}/cwd") if place in (None, _AT_FDCWD) else _descriptor(thread, place)
    return os.path.normpath(f"{base}/{name}")


def _descriptor(thread: int, number: int | None) -> str:
    found = _link(f"/proc/{thread}/fd/{number}")
    return found.removeprefix("/").removesuffix(" (deleted)") if found.startswith("/memfd:") else found


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return "?"
