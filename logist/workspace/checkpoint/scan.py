"""Scans a workspace: every file with its stamp, the directories, and what a checkpoint cannot hold."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import field
from typing import NamedTuple

from logist.quick_dataclass import dataclass
from logist.workspace.files import safe_open

MAX_DEPTH = 100
"""Maximum levels of directories, with two open files each; deeper ones are named, not stored."""

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

    def is_cache(self, path: bytes) -> bool:
        cache = path.rpartition(b"/")[2] in self.caches or path in self.prepared
        return cache and path not in self.held


@dataclass
class WorkspaceScan:
    """The result of a scan; paths are raw bytes relative to the workspace."""

    files: dict[bytes, FileStamp] = field(default_factory=dict)
    """Regular files and symbolic links."""
    directories: set[bytes] = field(default_factory=set)
    unstored: dict[bytes, Unstored] = field(default_factory=dict)


def scan_workspace(top: int, rules: ScanRules) -> WorkspaceScan:
    """Walk the directory `top` (a descriptor); links are not followed, the top-level `.git` is left out."""
    result = WorkspaceScan()
    _visit_directory(result, top, b"", rules)
    return result


def make_stamp(found: os.stat_result) -> FileStamp:
    return FileStamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode)


def scan_everything(descriptor: int, path: bytes) -> WorkspaceScan:
    """Scan the opened directory `path` with everything in it, including caches."""
    inside = WorkspaceScan()
    _visit_directory(inside, descriptor, path + b"/", ScanRules(frozenset()))
    return inside


def _visit_directory(found: WorkspaceScan, descriptor: int, prefix: bytes, rules: ScanRules) -> None:
    for name, status in iter_entries(descriptor):
        path = prefix + name
        kind = stat.S_IFMT(status.st_mode)
        if path == b".git":
            continue
        if kind in (stat.S_IFREG, stat.S_IFLNK) and path in rules.prepared:
            digest = f"{status.st_size}-{status.st_mtime_ns}"
            found.unstored[path] = Unstored(CACHE, f"{kind:06o}", digest)
        elif kind in (stat.S_IFREG, stat.S_IFLNK):
            found.files[path] = make_stamp(status)
        elif kind == stat.S_IFDIR:
            _enter_directory(found, descriptor, path, rules)
        else:
            found.unstored[path] = Unstored(SPECIAL.get(kind, "special"), f"{kind:06o}", "")


def iter_entries(descriptor: int) -> Iterator[tuple[bytes, os.stat_result]]:
    """Yield names and states of the entries of a directory; entries that are deleted meanwhile are left out."""
    with os.scandir(descriptor) as listing:
        for entry in listing:
            try:
                yield os.fsencode(entry.name), entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue


def _enter_directory(found: WorkspaceScan, parent: int, path: bytes, rules: ScanRules) -> None:
    cache = rules.is_cache(path)
    if not cache and path.count(b"/") >= MAX_DEPTH:
        found.unstored[path] = Unstored("too deep", DIRECTORY_MODE, "")
        return
    try:
        descriptor = safe_open.open_directory(parent, path.rpartition(b"/")[2], unlocking=rules.unlocking)
    except PermissionError:
        found.unstored[path] = Unstored(UNREADABLE, DIRECTORY_MODE, "")
        return
    except OSError as error:
        if error.errno in safe_open.GONE:
            return
        raise
    try:
        if cache:
            found.unstored[path] = Unstored(CACHE, DIRECTORY_MODE, _hash_directory(descriptor, path, rules))
        else:
            found.directories.add(path)
            _visit_directory(found, descriptor, path + b"/", rules)
    finally:
        os.close(descriptor)


def _hash_directory(descriptor: int, path: bytes, rules: ScanRules) -> str:
    """Return a digest of names, kinds, sizes and times: it detects ordinary changes without reading
    files.
    """
    scanned = WorkspaceScan()
    _visit_directory(scanned, descriptor, path + b"/", ScanRules(frozenset(), unlocking=rules.unlocking))
    lines = [b"%s\0%o %d %d\n" % (path, s.mode, s.size, s.mtime_ns) for path, s in scanned.files.items()]
    lines += [b"%s/\n" % path for path in scanned.directories]
    lines += [b"%s\0%s\n" % (path, thing.why.encode()) for path, thing in scanned.unstored.items()]
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()
