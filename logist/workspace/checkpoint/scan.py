"""Scans a workspace: every file with its stamp, the directories, and what a checkpoint cannot hold.

A step compares scans of up to 50,000 files, and mostly nothing has changed. So a scan is a few long arrays, which are
compared at once; an object for each file is only made where something has changed.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate, pairwise

from logist.digests import compute_sha256
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.workspace.files import file_names, safe_open

MAX_DEPTH = 100
"""Maximum levels of directories, with one open file each; deeper ones are named, not stored."""

DIRECTORY_MODE = "040000"

UNREADABLE = "unreadable"
CACHE = "cache"

SPECIAL = {stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}


class FileStamp(NamedTuple):
    """Shows that a file is unchanged without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    mode: int


STAMP = struct.Struct("=5q")
"""A stamp in a table."""

_SIZE = FileStamp._fields.index("size")
_MODE = FileStamp._fields.index("mode")
_CTIME = FileStamp._fields.index("ctime_ns")
_KIND = stat.S_IFMT(0o177777)
_FILE_KINDS = frozenset({stat.S_IFREG, stat.S_IFLNK})


class Unstored(NamedTuple):
    """Something that a checkpoint does not hold: the reason, its kind as a mode
    in git, and a digest that changes with its content.
    """

    why: str
    mode: str
    digest: str


class ScanRules(NamedTuple):
    """How to walk, and which directories are caches: those with these names, unless a checkpoint holds files in
    them.
    """

    caches: frozenset[bytes]
    held: frozenset[bytes] = frozenset()
    unlocking: bool = False
    """Unlock locked directories; otherwise they are named as unreadable."""
    prepared: frozenset[bytes] = frozenset()
    """Paths that the setup of the workspace created: they count as caches, whatever their names are."""


@dataclass(frozen=True)
class FileTable:
    """Regular files and symbolic links with their stamps, directory by directory, in the order in which the file
    system lists them.

    Names are raw bytes, separated by zeros.
    """

    directories: bytes = b""
    """All directories, relative to the workspace; the first one is the scanned directory itself."""
    counts: tuple[int, ...] = (0,)
    """For each directory, how many files are directly in it."""
    names: bytes = b""
    stamps: bytes = b""

    @classmethod
    def from_paths(cls, paths: Iterable[bytes], directories: Iterable[bytes]) -> FileTable:
        """Build a table without stamps from raw paths; `directories` has all directories above them."""
        inside: dict[bytes, list[bytes]] = {b"": [], **{path: [] for path in sorted(directories)}}
        for path in sorted(paths):
            above, _, name = path.rpartition(b"/")
            inside[above].append(name)
        names = b"\0".join(name for group in inside.values() for name in group)
        return cls(b"\0".join(inside), tuple(map(len, inside.values())), names)

    def count_files(self) -> int:
        return sum(self.counts)

    def list_directories(self) -> list[bytes]:
        """Return the directories without the scanned one, as raw paths."""
        return self.directories.split(b"\0")[1:]

    def iter_groups(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """Yield each directory with the names of the files in it."""
        names, start = self.names.split(b"\0"), 0
        for directory, count in zip(self.directories.split(b"\0"), self.counts, strict=True):
            yield directory, names[start : start + count]
            start += count

    def list_places(self) -> list[tuple[int, int]]:
        """Return for each directory where the files in it begin and end."""
        return list(pairwise(accumulate(self.counts, initial=0)))

    @cached_property
    def paths(self) -> list[bytes]:
        """The raw paths of the files."""
        paths: list[bytes] = []
        for directory, names in self.iter_groups():
            prefix = directory + b"/"
            paths += [prefix + name for name in names] if directory else names
        return paths

    @cached_property
    def text_paths(self) -> list[str]:
        """The paths of the files as text, as the operating system's directory lists have them."""
        paths: list[str] = []
        for directory, names in self.text_groups:
            prefix = directory + "/"
            paths += [prefix + name for name in names] if directory else names
        return paths

    @cached_property
    def text_groups(self) -> list[tuple[str, list[str]]]:
        """Each directory with the names of the files in it, as text."""
        names, places = self.text_names, zip(self.text_directories, self.list_places(), strict=True)
        return [(directory, names[start:end]) for directory, (start, end) in places]

    @cached_property
    def text_directories(self) -> list[str]:
        """The directories, as text."""
        return os.fsdecode(self.directories).split("\0")

    @cached_property
    def text_names(self) -> list[str]:
        """The names of the files in the order of the paths, as text."""
        return os.fsdecode(self.names).split("\0") if self.names else []

    @cached_property
    def stored_paths(self) -> list[bytes]:
        """The paths under which git stores the files."""
        return file_names.list_stored(self.paths)

    def list_stamps(self) -> list[bytes]:
        """Return the stamps in the order of the paths, each as `pack_stamp` makes it."""
        size = STAMP.size
        return [self.stamps[start : start + size] for start in range(0, len(self.stamps), size)]

    def list_sizes(self) -> list[int]:
        """Return the sizes of the files in the order of the paths."""
        return self._get_column(_SIZE).tolist()

    def list_modes(self) -> list[int]:
        """Return the modes of the files in the order of the paths."""
        return self._get_column(_MODE).tolist()

    def keep_reliable_stamps(self, since: int) -> FileTable:
        """Return the same without the stamps of files that may change again with the same stamp: those that changed in
        the same tick as `since`, or later.
        """
        times = self._get_column(_CTIME)
        if max(times, default=-1) < since:
            return self
        unreliable = [at for at, time in enumerate(times) if time >= since]
        stamps = bytearray(self.stamps)
        for at in unreliable:
            stamps[at * STAMP.size : (at + 1) * STAMP.size] = UNSURE
        return replace(self, stamps=bytes(stamps))

    def _get_column(self, column: int) -> array[int]:
        return array("q", self.stamps)[column :: len(FileStamp._fields)]

    def is_consistent(self) -> bool:
        """Whether all parts have the same number of files and directories, as in every table of a scan."""
        count = self.count_files()
        return (
            min(self.counts, default=-1) >= 0
            and self.directories.count(b"\0") + 1 == len(self.counts)
            and self.names.count(b"\0") == max(0, count - 1)
            and bool(self.names) == bool(count)
            and len(self.stamps) == STAMP.size * count
        )


class TableBuilder:
    """Collects the files of one directory after another. The paths are text, as the operating system's directory lists
    have them; all are encoded at the end.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._directories: list[str] = []
        self._counts: list[int] = []
        self._numbers = array("q")

    def add_directory(self, path: str, names: list[str], numbers: list[int]) -> None:
        """Add the files in a directory; `numbers` has for each the fields of its stamp."""
        self._directories.append(path)
        self._counts.append(len(names))
        self.names += names
        try:
            self._numbers.fromlist(numbers)
        except OverflowError:
            self._numbers.fromlist(list(map(_fit_number, numbers)))

    def build_table(self) -> FileTable:
        if not self._directories:
            return FileTable()
        return FileTable(
            _join_names(self._directories),
            tuple(self._counts),
            _join_names(self.names),
            self._numbers.tobytes(),
        )


@dataclass
class WorkspaceScan:
    """The result of a scan; paths are raw bytes relative to the workspace."""

    table: FileTable = field(default_factory=FileTable)
    unstored: dict[bytes, Unstored] = field(default_factory=dict)

    @cached_property
    def files(self) -> dict[bytes, FileStamp]:
        """Regular files and symbolic links."""
        return dict(zip(self.table.paths, map(unpack_stamp, self.table.list_stamps()), strict=True))

    @cached_property
    def directories(self) -> set[bytes]:
        return set(self.table.list_directories())


def scan_workspace(top: int, rules: ScanRules) -> WorkspaceScan:
    """Walk the directory `top` (a descriptor); links are not followed, the top-level `.git` is left out."""
    return _scan_directory(top, b"", rules)


def scan_everything(descriptor: int, path: bytes, *, unlocking: bool = False) -> WorkspaceScan:
    """Scan the opened directory `path` with everything in it, including caches."""
    return _scan_directory(descriptor, path, ScanRules(frozenset(), unlocking=unlocking))


def _scan_directory(descriptor: int, path: bytes, rules: ScanRules) -> WorkspaceScan:
    walk = _Walk(rules)
    walk.visit_directory(descriptor, os.fsdecode(path))
    return WorkspaceScan(walk.columns.build_table(), walk.unstored)


def _join_names(names: list[str]) -> bytes:
    """Do the same as os.fsencode for each name, but all at once."""
    return "\0".join(names).encode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


def make_stamp(found: os.stat_result) -> FileStamp:
    return FileStamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode)


def pack_stamp(stamp: FileStamp) -> bytes:
    try:
        return STAMP.pack(*stamp)
    except struct.error:
        return STAMP.pack(*map(_fit_number, stamp))


def unpack_stamp(packed: bytes) -> FileStamp:
    return FileStamp._make(STAMP.unpack(packed))


def _fit_number(number: int) -> int:
    """Fit a number into 64 bits: a file may be dated after the year 2262, and some file systems use all 64 bits of an
    inode number.
    """
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


UNSURE = pack_stamp(FileStamp(-1, 0, 0, 0, 0))
"""In a table: this file must be read, whatever its stamp is now."""


class _Walk:
    """One scan in progress."""

    def __init__(self, rules: ScanRules) -> None:
        self.rules = rules
        self.caches = frozenset(map(os.fsdecode, rules.caches))
        self.prepared = frozenset(map(os.fsdecode, rules.prepared))
        self.columns = TableBuilder()
        self.unstored: dict[bytes, Unstored] = {}

    def visit_directory(self, descriptor: int, path: str) -> None:
        """Add an opened directory and everything in it; entries that are deleted meanwhile are left out."""
        names: list[str] = []
        numbers: list[int] = []
        others: list[tuple[str, os.stat_result]] = []
        prefix, file_kinds = f"{path}/" if path else "", _FILE_KINDS
        apart = self.prepared if path else self.prepared | {".git"}
        with os.scandir(descriptor) as listing:
            for entry in listing:
                # Nearly all the time of a step in a large workspace is spent in these lines.
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                mode = status.st_mode
                if mode & _KIND in file_kinds and not (apart and prefix + entry.name in apart):
                    names.append(entry.name)
                    numbers += (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, mode)
                else:
                    others.append((entry.name, status))
        self.columns.add_directory(path, names, numbers)
        for name, status in others:
            self._add_other(descriptor, prefix + name, name, status)

    def _add_other(self, parent: int, path: str, name: str, status: os.stat_result) -> None:
        kind = stat.S_IFMT(status.st_mode)
        if path == ".git":
            return
        if kind == stat.S_IFDIR:
            self._enter_directory(parent, path, name)
        elif kind in _FILE_KINDS:
            digest = f"{status.st_size}-{status.st_mtime_ns}"
            self.unstored[os.fsencode(path)] = Unstored(CACHE, f"{kind:06o}", digest)
        else:
            self.unstored[os.fsencode(path)] = Unstored(SPECIAL.get(kind, "special"), f"{kind:06o}", "")

    def _enter_directory(self, parent: int, path: str, name: str) -> None:
        cache = self._is_cache(path, name)
        if not cache and path.count("/") >= MAX_DEPTH:
            self.unstored[os.fsencode(path)] = Unstored("too deep", DIRECTORY_MODE, "")
            return
        try:
            descriptor = safe_open.open_directory(parent, os.fsencode(name), unlocking=self.rules.unlocking)
        except PermissionError:
            self.unstored[os.fsencode(path)] = Unstored(UNREADABLE, DIRECTORY_MODE, "")
            return
        except OSError as error:
            if error.errno in safe_open.GONE:
                return
            raise
        try:
            if cache:
                raw = os.fsencode(path)
                digest = _hash_directory(descriptor, raw, unlocking=self.rules.unlocking)
                self.unstored[raw] = Unstored(CACHE, DIRECTORY_MODE, digest)
            else:
                self.visit_directory(descriptor, path)
        finally:
            os.close(descriptor)

    def _is_cache(self, path: str, name: str) -> bool:
        is_named = name in self.caches or path in self.prepared
        return is_named and os.fsencode(path) not in self.rules.held


def _hash_directory(descriptor: int, path: bytes, *, unlocking: bool) -> str:
    """Return a digest of names, kinds, sizes and times: it detects ordinary changes without reading
    files.
    """
    scanned = scan_everything(descriptor, path, unlocking=unlocking)
    stamps = zip(scanned.table.paths, STAMP.iter_unpack(scanned.table.stamps), strict=True)
    lines = [b"%s\0%o %d %d\n" % (path, mode, size, mtime) for path, (size, mtime, _, _, mode) in stamps]
    lines += [b"%s/\n" % path for path in scanned.table.list_directories()]
    lines += [b"%s\0%s\n" % (path, thing.why.encode()) for path, thing in scanned.unstored.items()]
    return compute_sha256(b"".join(sorted(lines)))
