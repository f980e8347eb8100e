"""Reads and writes packs of a repository of checkpoints without starting git: its object names, its commits, and its
first pack.
"""

from __future__ import annotations

import bisect
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from logist.digests import start_hash
from logist.regular_files import open_regular
from logist.workspace.checkpoint import repository

_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_PACK_START = b"PACK\0\0\0\x02"
_START = len(_MAGIC) + 256 * 4
"""Where the names begin in an index."""
_KINDS = {"commit": 1, "tree": 2, "blob": 3}
_MOST_PACKS = 20
"""With more packs, git finds a commit sooner: starting it takes as long as looking into so many indexes."""
_MOST_OBJECT = 1 << 20
_MOST_TREES = 25
"""With more directories, git lists the files sooner."""
_TREE_MODES = frozenset({b"100644", b"100755", b"120000", b"160000", b"40000"})
"""Those that git itself writes today."""
_LONGEST_HEADER = 10
"""Maximum bytes before the content of an object in a pack."""


def find_lacking(git_dir: Path, wanted: set[str]) -> set[str]:
    """Return those of the object names (hex, of one length) that no pack and no loose file of the repository
    has.

    An unreadable directory counts as empty. git must check whether an object is complete.
    """
    missing = set(wanted)
    for index in list_indexes(git_dir):
        if not missing:
            break
        missing -= _find_named(index, missing)
    return {name for name in missing if not (git_dir / "objects" / name[:2] / name[2:]).exists()}


def list_indexes(git_dir: Path) -> list[Path]:
    """Return the index of every pack."""
    folder = git_dir / "objects" / "pack"
    try:
        names = set(os.listdir(folder))
    except OSError:
        return []
    return sorted(folder / name for name in names if name.endswith(".idx") and f"{name[:-4]}.pack" in names)


def find_cut_off(git_dir: Path) -> list[str]:
    """Return packs that don't end with the checksum in their index; only the ends are read."""
    return [index.stem for index in list_indexes(git_dir) if not _has_valid_end(index)]


def _has_valid_end(index: Path) -> bool:
    size = len(index.stem.removeprefix("pack-")) // 2  # object names are checksums of the same kind
    try:
        return _read_end(index.with_suffix(".pack"), size) == _read_end(index, 2 * size)[:size]
    except OSError:
        return False


def _read_end(path: Path, count: int) -> bytes:
    descriptor, _ = open_regular(path)
    with os.fdopen(descriptor, "rb") as file:
        file.seek(-count, os.SEEK_END)
        return file.read()


def list_names(index: Path) -> set[str]:
    """Return the names of all objects in a pack; none if the file is not an index."""
    data, count = _read_index(index)
    size = 32 if len(index.stem) == len("pack-") + 64 else 20  # SHA-256 or SHA-1, as in the name of the pack
    return set(data[_START : _START + count * size].hex(" ", size).split())


def count_objects(index: Path) -> int:
    """Return the number of objects in a pack; 0 if the file is not an index."""
    return _read_index(index)[1]


def _find_named(index: Path, wanted: set[str]) -> set[str]:
    """Return the names that are in a pack index; none if the file is not an index."""
    data, count = _read_index(index)
    if count < len(wanted):  # a small pack, as each checkpoint creates one
        return list_names(index) & wanted
    return {name for name in wanted if _find_name(data, _START, count, bytes.fromhex(name)) is not None}


def _read_index(index: Path) -> tuple[bytes, int]:
    """Return the content of a pack index (version 2), and its number of objects: 0 if the file is not an index."""
    try:
        descriptor, _ = open_regular(index)
    except OSError:
        return b"", 0
    with os.fdopen(descriptor, "rb") as file:
        data = file.read()
    if len(data) < _START or not data.startswith(_MAGIC):
        return b"", 0
    (count,) = struct.unpack_from(">I", data, _START - 4)
    return data, count


def _find_name(data: bytes, start: int, count: int, name: bytes) -> int | None:
    """Return the number of an object in a pack index; None if it is not in there."""
    low, high = 0, count
    size = len(name)
    while low < high:
        middle = (low + high) // 2
        candidate = data[start + middle * size : start + (middle + 1) * size]
        if candidate == name:
            return middle
        low, high = (middle + 1, high) if candidate < name else (low, middle)
    return None


def read_commit(git_dir: Path, name: str) -> bytes | None:
    """Return the content of a commit; None if only git can find or read it, or tell what is wrong with it."""
    return PackReader(git_dir).read("commit", name)


class PackReader:
    """Reads objects from the packs of a repository that doesn't change meanwhile.

    Returns None for what only git can read, and for what git may refuse: a pack with a damaged index, beginning or end is
    ignored, although the object itself may be intact.
    """

    def __init__(self, git_dir: Path) -> None:
        indexes = list_indexes(git_dir)
        self._packs = [] if len(indexes) > _MOST_PACKS else indexes
        self._indexes: dict[Path, tuple[bytes, int]] = {}

    def read(self, kind: str, name: str) -> bytes | None:
        """Return the content of a commit or a tree, which its name proves."""
        if len(name) != 40:
            return None
        try:
            for pack in self._packs:
                if pack not in self._indexes:
                    self._indexes[pack] = _read_sound_index(pack)
                index, count = self._indexes[pack]
                offset = _find_offset(index, count, bytes.fromhex(name))
                if offset is not None:
                    frame = _PACK_START + struct.pack(">I", count), index[-40:-20]
                    content = _read_packed(pack.with_suffix(".pack"), offset, kind, frame)
                    return content if content is not None and hash_object(kind, content) == name else None
        except (OSError, ValueError, IndexError, struct.error, zlib.error):
            pass
        return None

    def list_tree(self, commit: str) -> list[tuple[bytes, bytes, str]] | None:
        """Return path, mode and name of everything in a commit that is not a directory; None for one with many directories."""
        content = self.read("commit", commit)
        if content is None or content[:5] != b"tree " or content[45:46] != b"\n":
            return None
        found: list[tuple[bytes, bytes, str]] = []
        directories = [(b"", content[5:45].decode("ascii", "replace"))]
        for count, (above, name) in enumerate(directories):  # grows meanwhile
            tree = self.read("tree", name) if count < _MOST_TREES else None
            entries = None if tree is None else _parse_tree(tree)
            if entries is None:
                return None
            for mode, own_name, child in entries:
                if mode == b"40000":
                    directories.append((above + own_name + b"/", child))
                else:
                    found.append((above + own_name, mode, child))
        return found


def _parse_tree(content: bytes) -> list[tuple[bytes, bytes, str]] | None:
    """Return mode, file name and object name of the entries of a tree; None if git may understand it differently."""
    entries = []
    end = 0
    while end < len(content):
        zero = content.index(b"\0", end)
        mode, _, name = content[end:zero].partition(b" ")
        end = zero + 21
        if mode not in _TREE_MODES or not name or b"/" in name or end > len(content):
            return None
        entries.append((mode, name, content[zero + 1 : end].hex()))
    return entries if len({name for _, name, _ in entries}) == len(entries) else None


def _find_offset(data: bytes, count: int, name: bytes) -> int | None:
    """Return where an object begins in its pack, by the index of the pack; None if it is not in there."""
    at = _find_name(data, _START, count, name)
    if at is None:
        return None
    offsets = _START + count * (len(name) + 4)  # after the names and the CRC-32 of each object
    (offset,) = struct.unpack_from(">I", data, offsets + at * 4)
    return int(offset)


def _read_sound_index(index: Path) -> tuple[bytes, int]:
    """Return the same as `_read_index`. Raises ValueError if the checksum at the end is wrong (SHA-1)."""
    data, count = _read_index(index)
    if not data or _hash_sha1(data[:-20]) != data[-20:]:
        raise ValueError("damaged")
    return data, count


def _read_packed(pack: Path, offset: int, kind: str, frame: tuple[bytes, bytes]) -> bytes | None:
    """Return the content of an object; None if it is of another kind, long, or a difference to another object.

    Also None if the pack doesn't begin and end with `frame`.
    """
    descriptor, pack_size = open_regular(pack)
    with os.fdopen(descriptor, "rb") as file:
        first, last = frame
        is_framed = file.read(len(first)) == first
        file.seek(pack_size - len(last))
        if not is_framed or file.read() != last:
            return None
        file.seek(offset)
        header = file.read(_LONGEST_HEADER)
        found_kind, size, length = header[0] >> 4 & 7, header[0] & 15, 1
        while header[length - 1] & 0x80:
            size |= (header[length] & 0x7F) << 7 * length - 3
            length += 1
        if found_kind != _KINDS[kind] or size > _MOST_OBJECT:
            return None
        file.seek(offset + length)
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(file.read(size + (size >> 9) + 64), size + 1)
    return content if len(content) == size and unpacker.eof else None


def hash_object(kind: str, content: bytes) -> str:
    """Return the name of an object in git, by SHA-1."""
    return _hash_sha1(b"%b %d\0%b" % (kind.encode("ascii"), len(content), content)).hex()


def write_pack(git_dir: Path, objects: Sequence[tuple[str, bytes]]) -> None:
    """Write these objects, each with kind and content, to a new pack; nothing is flushed."""
    pack = _PACK_START + struct.pack(">I", len(objects))
    entries = []
    for kind, content in objects:
        entry = _build_size_header(_KINDS[kind], len(content)) + zlib.compress(content)
        entries.append((bytes.fromhex(hash_object(kind, content)), zlib.crc32(entry), len(pack)))
        pack += entry
    checksum = _hash_sha1(pack)
    stem = git_dir / "objects" / "pack" / f"pack-{checksum.hex()}"
    repository.write_file(stem.with_suffix(".pack"), pack + checksum, 0o400)
    repository.write_file(stem.with_suffix(".idx"), _build_index(sorted(entries), checksum), 0o400)


def _build_index(entries: Sequence[tuple[bytes, int, int]], checksum: bytes) -> bytes:
    """Build the index (version 2) of a pack: each entry is an object's name, its CRC-32 and its offset;
    sorted by name.
    """
    names = [name for name, _, _ in entries]
    fanout = [bisect.bisect_left(names, bytes([first + 1])) for first in range(255)] + [len(names)]
    numbers = [*(crc for _, crc, _ in entries), *(offset for _, _, offset in entries)]
    data = _MAGIC + struct.pack(">256I", *fanout) + b"".join(names)
    data += struct.pack(f">{len(numbers)}I", *numbers) + checksum
    return data + _hash_sha1(data)


def _build_size_header(kind: int, size: int) -> bytes:
    """Build the beginning of an entry: 3 bits of kind and 4 of the size, then 7 more bits of the size in each
    byte.
    """
    header, size = [kind << 4 | size & 15], size >> 4
    while size:
        header[-1] |= 0x80
        header.append(size & 0x7F)
        size >>= 7
    return bytes(header)


def _hash_sha1(data: bytes) -> bytes:
    digest = start_hash("sha1", len(data))
    digest.update(data)
    return bytes.fromhex(digest.hexdigest())
