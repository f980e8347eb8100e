"""The content of the last checkpoint, with file stamps, so that unchanged files need not be read again.

It is stored in a file in the repository. If that file is lost, the content is read from the repository, and
every file is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate
from struct import Struct
from typing import Any

from logist.digests import compute_sha256
from logist.errors import LogistError
from logist.formats import STAMPS
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.regular_files import read_regular
from logist.workspace.checkpoint import objects
from logist.workspace.checkpoint.objects import (
    FILE_MODE,
    GITLINK_MODE,
    LINK_MODE,
    PROGRAM_MODE,
    Tree,
    TreeEntry,
)
from logist.workspace.checkpoint.scan import (
    STAMP,
    UNSURE,
    FileStamp,
    FileTable,
    Unstored,
    WorkspaceScan,
    pack_stamp,
)
from logist.workspace.files import file_names
from logist.workspace.git import Git

FILE = "logist-stamps"
CLOCK = "logist-clock"
MAGIC = f"logist-stamps {STAMPS.version}".encode()
"""The first line of the file. Version 1 was JSON after a checksum; each version treats a file of the other as lost."""

_MODES = ("", FILE_MODE, PROGRAM_MODE, LINK_MODE)
"""The modes of files by their number in `entries`; "" for a file that the checkpoint does not hold."""
_NUMBERS = {mode: f"{number:02x}" for number, mode in enumerate(_MODES)}


@dataclass(frozen=True)
class Baseline:
    """The last checkpoint (None if there is none yet), its content, and the stamps of its files.

    It is kept as it is stored: comparing it with a scan needs no object for each file.
    """

    commit: str | None
    unstored: dict[bytes, Unstored] = field(default_factory=dict)
    table: FileTable = field(default_factory=FileTable)
    """The files of the workspace, and the stamps with which they have the content of the checkpoint."""
    entries: bytes = b""
    """For each file in the table its mode and id in git."""
    others: Tree = field(default_factory=dict)
    """The rest of the tree: placeholders of empty directories, and submodules."""

    @classmethod
    def from_tree(
        cls,
        commit: str,
        tree: Tree,
        unstored: dict[bytes, Unstored],
        stamps: Mapping[bytes, bytes] | None = None,
    ) -> Baseline:
        """Build it from a checkpoint without a scan; `stamps` as in `from_table`, as far as they are known."""
        submodules = {file_names.from_stored(path) for path in tree if tree[path].mode == GITLINK_MODE}
        files = (
            file_names.from_stored(path)
            for path, entry in tree.items()
            if entry.mode != GITLINK_MODE and not file_names.is_placeholder(path)
        )
        table = FileTable.from_paths(set(files), find_directories(tree) | submodules)
        return cls.from_table(commit, table, tree, unstored, stamps or {})

    @classmethod
    def from_table(
        cls,
        commit: str,
        table: FileTable,
        tree: Tree,
        unstored: dict[bytes, Unstored],
        stamps: Mapping[bytes, bytes],
    ) -> Baseline:
        """Build it from the files that a scan found, the tree, and the reliable stamps, packed, by stored path."""
        others = dict(tree)
        absent = TreeEntry("", "0" * len(commit))
        entries = [others.pop(path, absent) for path in table.stored_paths]
        return cls(
            commit,
            unstored,
            replace(table, stamps=b"".join([stamps.get(path, UNSURE) for path in table.stored_paths])),
            pack_entries([mode for mode, _ in entries], [name for _, name in entries]),
            others,
        )

    @classmethod
    def from_scan(
        cls, commit: str, table: FileTable, tree: Tree, unstored: dict[bytes, Unstored], since: int
    ) -> Baseline:
        """Build it from a scan that found the files of the tree and nothing else; `since` as in
        `pack_reliable_stamps`.
        """
        entries = [tree[path] for path in table.stored_paths]
        packed = pack_entries([mode for mode, _ in entries], [name for _, name in entries])
        return cls(commit, unstored, table.keep_reliable_stamps(since), packed)

    @cached_property
    def tree(self) -> Tree:
        tree = dict(self.others)
        unpacked = _entry_format(self.commit or "").iter_unpack(self.entries)
        for path, (number, name) in zip(self.table.stored_paths, unpacked, strict=True):
            if number:
                tree[path] = TreeEntry(_MODES[number], name.hex())
        return tree

    @cached_property
    def stamps(self) -> dict[bytes, bytes]:
        """By stored path: a file that still has this stamp has the same content as in the tree."""
        return dict(zip(self.table.stored_paths, self.table.list_stamps(), strict=True))

    def without_stamps(self) -> Baseline:
        """Return the same, so that every file is read."""
        return replace(self, table=replace(self.table, stamps=UNSURE * self.table.count_files()))

    def list_directories(self) -> frozenset[bytes]:
        """Return the directories in the checkpoint, as raw paths."""
        return frozenset(self.table.list_directories()).difference(
            file_names.from_stored(path) for path, entry in self.others.items() if entry.mode == GITLINK_MODE
        )

    def is_same_as(self, now: WorkspaceScan) -> bool:
        """Whether a scan proves that the workspace is as in the checkpoint; if not, it still may be."""
        return self.commit is not None and self.table == now.table and self.unstored == now.unstored


def pack_entries(modes: Iterable[str], ids: Iterable[str]) -> bytes:
    """Return the modes and ids of files as `Baseline.entries` has them."""
    names = list(ids)
    pieces = [""] * (2 * len(names))  # several times faster than joining each pair
    pieces[::2] = map(_NUMBERS.__getitem__, modes)
    pieces[1::2] = names
    return bytes.fromhex("".join(pieces))


def _entry_format(commit: str) -> Struct:
    return Struct(f"B{len(commit) // 2}s")


def find_directories(tree: Tree) -> frozenset[bytes]:
    """Return all directories in a tree, as raw paths."""
    return frozenset(file_names.list_parents(map(file_names.from_stored, tree)))


class ReadCheckpoint(NamedTuple):
    """A checkpoint that was read from the repository."""

    commit: str
    tree: Tree
    unstored: dict[bytes, Unstored]


def load_baseline(git: Git, known: ReadCheckpoint | None = None) -> Baseline:
    """Return the state at the last checkpoint, from the file if it is valid and up to date, otherwise from the
    repository.

    `known` is a checkpoint that the caller has read already: if it is the last one, git is not run again.
    """
    commit = objects.read_tip(git)
    if commit is None:
        return Baseline(None)
    if from_file := _read_stamps_file(git, commit):
        return from_file
    if known is None or known.commit != commit:
        known = ReadCheckpoint(commit, objects.read_tree(git, commit), objects.read_unstored(git, commit)[0])
    return Baseline.from_tree(*known)


def find_unchanged_ids(git: Git, table: FileTable) -> list[bytes | None]:
    """Return the ids in git of the files in a table that still have the stamp of the last checkpoint; None for others.

    Empty if the file with the stamps is lost: then only reading a file tells its id.
    """
    try:
        commit = objects.read_tip(git)
        last = _read_stamps_file(git, commit) if commit is not None else None
    except (LogistError, OSError):
        return []
    if last is None:
        return []
    entries = _entry_format(last.commit or "").iter_unpack(last.entries)
    ids_then = [name if number else None for number, name in entries]
    ids: list[bytes | None] = [None] * table.count_files()
    for now, then in _pair_same_files(table, last.table):
        ids[now] = ids_then[then]
    return ids


def _pair_same_files(table: FileTable, last: FileTable) -> Iterator[tuple[slice, slice]]:
    """Yield where files with the same stamps are in two tables: usually those of many directories at once."""
    directories, directories_then = table.directories.split(b"\0"), last.directories.split(b"\0")
    names, names_then = table.names.split(b"\0"), last.names.split(b"\0")
    starts = [*accumulate(table.counts, initial=0)]
    starts_then = [*accumulate(last.counts, initial=0)]
    numbers_then = {directory: number for number, directory in enumerate(directories_then)}
    waiting = [(0, len(directories))]
    while waiting:
        first, end = waiting.pop()
        first_then = numbers_then.get(directories[first], -1)
        end_then = first_then + end - first
        if (
            first_then >= 0
            and directories[first:end] == directories_then[first_then:end_then]
            and table.counts[first:end] == last.counts[first_then:end_then]
        ):
            now, then = (
                slice(starts[first], starts[end]),
                slice(starts_then[first_then], starts_then[end_then]),
            )
            if names[now] == names_then[then] and _cut(table.stamps, now) == _cut(last.stamps, then):
                yield now, then
                continue
        if end - first > 1:
            middle = (first + end) // 2
            waiting += [(first, middle), (middle, end)]
        elif first_then >= 0:
            now = slice(starts[first], starts[end])
            then = slice(starts_then[first_then], starts_then[first_then + 1])
            places_then = dict(zip(names_then[then], range(then.start, then.stop), strict=True))
            for number in range(now.start, now.stop):
                other = places_then.get(names[number])
                if other is not None:
                    one, one_then = slice(number, number + 1), slice(other, other + 1)
                    if _cut(table.stamps, one) == _cut(last.stamps, one_then):
                        yield one, one_then


def _cut(stamps: bytes, files: slice) -> bytes:
    return stamps[files.start * STAMP.size : files.stop * STAMP.size]


def save_baseline(git: Git, baseline: Baseline) -> None:
    """Replace the file. It is not flushed: if a power cut damages it, its checksum is wrong."""
    table = baseline.table
    parts = (table.directories, table.names, table.stamps, baseline.entries)
    head = {
        "commit": baseline.commit,
        "sizes": list(map(len, parts)),
        "counts": table.counts,
        "others": {file_names.to_json(path): list(entry) for path, entry in baseline.others.items()},
        "unstored": {file_names.to_json(path): list(thing) for path, thing in baseline.unstored.items()},
    }
    # Megabytes, if there are many files: they are hashed and written as they are, and not copied.
    data = (json.dumps(head, separators=(",", ":")).encode(), b"\n", *parts)
    temporary = git.git_dir / (FILE + ".new")
    temporary.unlink(missing_ok=True)
    with open(temporary, "xb", buffering=1 << 17, opener=_open_private) as file:
        file.writelines((MAGIC, b"\n", compute_sha256(*data).encode(), b"\n", *data))
    temporary.replace(git.git_dir / FILE)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _read_stamps_file(git: Git, commit: str) -> Baseline | None:
    try:
        packed = read_regular(git.git_dir / FILE)
        checksum_at = packed.index(b"\n") + 1
        start = packed.index(b"\n", checksum_at) + 1
    except (OSError, ValueError):  # the repository has the same content
        return None
    magic, checksum = packed[: checksum_at - 1], packed[checksum_at : start - 1]
    # Megabytes, if there are many files: they are not copied to be hashed.
    if magic != MAGIC or compute_sha256(memoryview(packed)[start:]).encode() != checksum:
        return None
    end = packed.find(b"\n", start)
    head = json.loads(packed[start:end])
    return _unpack_baseline(head, packed, end + 1) if head["commit"] == commit else None


def _unpack_baseline(head: dict[str, Any], packed: bytes, start: int) -> Baseline | None:
    parts = []
    for size in head["sizes"]:
        parts.append(packed[start : start + size])
        start += size
    directories, names, stamps, entries = parts
    table = FileTable(directories, tuple(head["counts"]), names, stamps)
    size = _entry_format(head["commit"]).size
    if not table.is_consistent() or len(entries) != size * table.count_files():
        return None
    if entries[::size].translate(None, bytes(range(len(_MODES)))):
        return None
    return Baseline(
        head["commit"],
        {file_names.from_json(path): Unstored(*fields) for path, fields in head["unstored"].items()},
        table,
        entries,
        {file_names.from_json(path): TreeEntry(*fields) for path, fields in head["others"].items()},
    )


def read_file_system_time(git: Git) -> int:
    """Return the file system's own time in nanoseconds, as a file that is touched now gets it."""
    descriptor = os.open(
        git.git_dir / CLOCK, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        os.utime(descriptor)
        return os.fstat(descriptor).st_ctime_ns
    finally:
        os.close(descriptor)


def pack_reliable_stamps(stamps: Mapping[bytes, FileStamp], since: int) -> dict[bytes, bytes]:
    """Return the stamps that can be relied on, packed: a file that changed in the same tick as `since` may change
    again with the same stamp.
    """
    return {path: pack_stamp(stamp) for path, stamp in stamps.items() if stamp.ctime_ns < since}
