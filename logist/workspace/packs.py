"""Which objects a repository of checkpoints names, read from its pack indexes: no git is started."""

from __future__ import annotations

import os
import struct
from pathlib import Path

_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_FANOUT = 256 * 4


def lacking(git_dir: Path, wanted: set[str]) -> set[str]:
    """Those of the object names (hex, of one length) that no pack and no loose file of the repository has.

    A directory that can't be read has none. Whether an object is whole is git's to say.
    """
    missing = set(wanted)
    for index in indexes(git_dir):
        if not missing:
            break
        missing -= _named(index, missing)
    return {name for name in missing if not (git_dir / "objects" / name[:2] / name[2:]).exists()}


def indexes(git_dir: Path) -> list[Path]:
    """The index of every pack that is there."""
    folder = git_dir / "objects" / "pack"
    try:
        names = set(os.listdir(folder))
    except OSError:
        return []
    return sorted(folder / name for name in names if name.endswith(".idx") and f"{name[:-4]}.pack" in names)


def cut_off(git_dir: Path) -> list[str]:
    """Packs that do not end with the checksum that their index names; only the ends are read."""
    return [index.stem for index in indexes(git_dir) if not _ends_as_named(index)]


def _ends_as_named(index: Path) -> bool:
    size = len(index.stem.removeprefix("pack-")) // 2  # it is named by a checksum of the same kind
    try:
        return _last(index.with_suffix(".pack"), size) == _last(index, 2 * size)[:size]
    except OSError:
        return False


def _last(path: Path, count: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(-count, os.SEEK_END)
        return file.read()


def _named(index: Path, wanted: set[str]) -> set[str]:
    """Those of the names that a pack index (version 2) holds; none if it is no index."""
    try:
        data = index.read_bytes()
    except OSError:
        return set()
    start = len(_MAGIC) + _FANOUT
    if len(data) < start or not data.startswith(_MAGIC):
        return set()
    (count,) = struct.unpack_from(">I", data, start - 4)
    if count < len(wanted):  # a small pack, of which there is one for each checkpoint
        size = len(next(iter(wanted))) // 2
        return {data[at : at + size].hex() for at in range(start, start + count * size, size)} & wanted
    return {name for name in wanted if _find(data, start, count, bytes.fromhex(name))}


def _find(data: bytes, start: int, count: int, name: bytes) -> bool:
    low, high = 0, count
    size = len(name)
    while low < high:
        middle = (low + high) // 2
        found = data[start + middle * size : start + (middle + 1) * size]
        if found == name:
            return True
        low, high = (middle + 1, high) if found < name else (low, middle)
    return False
