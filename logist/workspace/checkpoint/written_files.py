"""The files that git has just written into a new workspace: their order, and their stamps.

git's index has the state of each file right after it was written. So a new workspace needs no `stat` of each file, and
all stamps are made at once, without a Python object for each number.
"""

from __future__ import annotations

import os
import stat
import sys
from array import array
from collections.abc import Collection
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from logist.quick_dataclass import dataclass
from logist.workspace.checkpoint import baseline
from logist.workspace.checkpoint.baseline import Baseline
from logist.workspace.checkpoint.objects import FILE_MODE, LINK_MODE, PROGRAM_MODE, TreeListing
from logist.workspace.checkpoint.scan import STAMP, FileTable, Unstored, make_stamp, pack_stamp

_HEADER = b"DIRC\0\0\0\2"
_STATE = 40
"""Bytes of a file's state in the index: times of its last change and of its content, device, inode, mode, owner, group,
size; ten numbers of 32 bits, times have two.
"""
_SAMPLES = 16
_WORDS = STAMP.size // 4
_LOW = 0 if sys.byteorder == "little" else 1
"""Which of the two words of a number of 64 bits is the lower one."""
_MODES = {
    FILE_MODE: stat.S_IFREG | 0o600,
    PROGRAM_MODE: stat.S_IFREG | 0o700,
    LINK_MODE: stat.S_IFLNK | 0o777,
}
"""The modes of files in a new workspace."""


@dataclass(frozen=True)
class FileLayout:
    """The files of a commit in the order in which the file system lists them, and where git's index has the state of
    each: the same for every new workspace of this commit.
    """

    table: FileTable
    """Without stamps."""
    entries: bytes
    """As in a baseline."""
    states: list[int]
    """Where the state of each file begins in git's index."""
    index_size: int
    modes: array[int]
    samples: list[tuple[int, bytes]]
    """Some of the files: their number in the table, and their path."""


def build_baseline(
    root: Path,
    commit: str,
    unstored: dict[bytes, Unstored],
    layout: FileLayout | None,
    index: bytes,
    since: int,
) -> Baseline | None:
    """Build the baseline of a new workspace into which git has just written the files of a commit, with this index;
    `since` as in `baseline.pack_reliable_stamps`.

    None if the workspace must be scanned.
    """
    stamps = read_stamps(root, layout, index) if layout is not None else None
    if layout is None or stamps is None:
        return None
    table = replace(layout.table, stamps=stamps).keep_reliable_stamps(since)
    return Baseline(commit, unstored, table, layout.entries)


def find_layout(root: Path, listing: TreeListing, index: bytes) -> FileLayout | None:
    """Return the layout of a new workspace into which git has just written the files of a plain listing.

    None if the workspace or git's index has other files than the listing.
    """
    paths = listing.paths
    size = len(listing.ids[0]) // 2
    lengths = list(map(len, paths))
    # Each entry ends with one to eight zeros, so that its size is a multiple of eight.
    entry_sizes = [(_STATE + size + 2 + length + 8) & ~7 for length in lengths]
    starts = list(accumulate(entry_sizes, initial=len(_HEADER) + 4))
    if not index.startswith(_HEADER + len(paths).to_bytes(4, "big")) or len(index) < starts.pop():
        return None
    ids = [start + _STATE for start in starts]
    names = [start + _STATE + size + 2 for start in starts]
    if b"".join([index[at : at + size] for at in ids]).hex() != "".join(listing.ids) or (
        b"\0".join([index[at : at + n] for at, n in zip(names, lengths, strict=True)]) != b"\0".join(paths)
    ):
        return None
    walk = _list_files(root, listing)
    if walk is None:
        return None
    table, order = walk
    modes = [listing.modes[number] for number in order]
    return FileLayout(
        table,
        baseline.pack_entries(modes, [listing.ids[number] for number in order]),
        [starts[number] for number in order],
        len(index),
        array("I", map(_MODES.__getitem__, modes)),
        [(at, paths[order[at]]) for at in range(0, len(order), max(1, len(order) // _SAMPLES))],
    )


def _list_files(root: Path, listing: TreeListing) -> tuple[FileTable, list[int]] | None:
    """List the workspace in the order of a scan; return the table, and the number of each of its files in the listing.

    None if it has other files.
    """
    below: dict[bytes, list[bytes]] = {}
    for directory in listing.directories:
        above, _, name = directory.rpartition(b"/")
        below.setdefault(above, []).append(name)
    numbers = dict(zip(listing.paths, range(len(listing.paths)), strict=True))
    top = os.fsencode(root)
    directories: list[bytes] = []
    counts: list[int] = []
    names: list[bytes] = []
    order: list[int] = []
    waiting = [b""]
    try:
        while waiting:
            directory = waiting.pop()
            prefix = directory + b"/" if directory else b""
            inside, apart = os.listdir(top + b"/" + directory), below.get(directory, ())
            files = [name for name in inside if name not in apart] if apart else inside
            # The last one that is added is the next one that is listed.
            waiting += [prefix + name for name in reversed(inside) if name in apart]
            order += [numbers[prefix + name] for name in files]
            directories.append(directory)
            counts.append(len(files))
            names += files
    except (KeyError, NotADirectoryError):
        return None
    if len(order) != len(numbers) or len(directories) != 1 + len(listing.directories):
        return None
    return FileTable(b"\0".join(directories), tuple(counts), b"\0".join(names)), order


def read_stamps(root: Path, layout: FileLayout, index: bytes) -> bytes | None:
    """Return the stamps of the files that git has just written, in the order of the table, from git's index.

    None if they differ from the file system's own: the index has only the lower half of large numbers of inodes and
    sizes, and some file systems have other modes. A wrong stamp only makes a step read the file again, because no file
    has such a stamp later; so comparing some of them is enough.
    """
    if len(index) != layout.index_size:
        return None
    states = array("I", b"".join([index[at : at + _STATE] for at in layout.states]))
    if sys.byteorder == "little":
        states.byteswap()
    words = array("I", bytes(STAMP.size * len(layout.modes)))
    words[_LOW::_WORDS] = states[9::10]
    for seconds, nanoseconds, field in ((2, 3, 1), (0, 1, 2)):
        times = _join_times(states[seconds::10], states[nanoseconds::10])
        words[2 * field :: _WORDS], words[2 * field + 1 :: _WORDS] = times[::2], times[1::2]
    words[6 + _LOW :: _WORDS] = states[5::10]
    words[8 + _LOW :: _WORDS] = layout.modes
    stamps = words.tobytes()
    return stamps if _are_true(root, stamps, layout.samples) else None


def _join_times(seconds: array[int], nanoseconds: array[int]) -> array[int]:
    """Return the numbers of nanoseconds, as words of numbers of 64 bits.

    All of them are computed as one large number, whose digits are these.
    """
    size = 8 * len(seconds)
    total = _widen_to_64_bits(seconds) * 1_000_000_000 + _widen_to_64_bits(nanoseconds)
    return array("I", total.to_bytes(size, sys.byteorder))


def _widen_to_64_bits(numbers: array[int]) -> int:
    wide = array("I", bytes(8 * len(numbers)))
    wide[_LOW::2] = numbers
    return int.from_bytes(wide.tobytes(), sys.byteorder)


def _are_true(root: Path, stamps: bytes, samples: Collection[tuple[int, bytes]]) -> bool:
    top = os.fsencode(root)
    try:
        return all(
            stamps[at * STAMP.size : (at + 1) * STAMP.size]
            == pack_stamp(make_stamp(os.lstat(os.path.join(top, path))))
            for at, path in samples
        )
    except OSError:
        return False
