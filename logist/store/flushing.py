"""Makes a new directory and everything in it durable, before it gets its final name."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from logist import systems
from logist.store import files
from logist.store.filesystem import filesystem_type

LITTLE = 100_000_000
"""Bytes. Any disk, fast or slow, writes about this much in the time that the fsyncs of a small job take."""
MANY = 200
"""From this many files on, one flush of the file system is quicker than one for each file, whatever else it flushes."""

_IN_MEMORY = ("tmpfs", "ramfs")
_ON_DISK = ("ext4", "xfs", "btrfs", "f2fs")
"""File systems whose syncfs is known to flush everything. Of stacked file systems, some flush only their own layer
(eCryptfs, FUSE), and overlay also flushes the files of other containers."""
_REPORTS_ERRORS = (5, 8)
"""The first kernel version whose syncfs reports write errors."""


def flush_tree(folder: Path, bulk: Path) -> None:
    """Make a directory and everything in it durable; `bulk` is the part that may hold very many files.

    One syncfs is quicker than an fsync for each file and directory. But it also writes out what other
    programs have written to that file system, so for few files it is used only while that is little.
    """
    if _is_one_flush_quicker(folder, bulk):
        _flush_file_system(folder)
        return
    if systems.FLUSHES_DRIVE_APART:
        _flush_at_once(folder)
        return
    paths: Iterable[Path] = _walk_tree(folder)
    if _has_many_files(bulk):
        os.sync()  # it reports no errors, so all other files are still flushed one by one
        paths = (path for path in paths if not path.is_relative_to(bulk))
    for path in paths:
        _flush_path(path)


def flush_many(folder: Path) -> None:
    """Make a directory with many jobs and everything in it durable."""
    if _is_one_flush_quicker(folder, folder):
        _flush_file_system(folder)
        return
    if systems.FLUSHES_DRIVE_APART:
        _flush_at_once(folder)
        return
    if _has_many_files(folder):
        os.sync()  # it reports no errors, but leaves little to do for the rest
    for path in _walk_tree(folder):
        _flush_path(path)


def _is_one_flush_quicker(folder: Path, bulk: Path) -> bool:
    kind = filesystem_type(folder)
    if kind in _IN_MEMORY:
        return True
    if kind not in _ON_DISK or _read_kernel_version() < _REPORTS_ERRORS:
        return False
    return _count_unwritten_bytes() <= LITTLE or _has_many_files(bulk)


def _has_many_files(bulk: Path) -> bool:
    paths = _walk_tree(bulk) if bulk.is_dir() else iter(())
    return next(itertools.islice(paths, MANY - 1, None), None) is not None


def _read_kernel_version() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))


def _count_unwritten_bytes() -> int:
    """How many bytes the machine has not written to its disks yet; sys.maxsize if that is unknown."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as lines:
            sizes = dict(line.split(":") for line in lines)
        return sum(int(sizes[name].split()[0]) * 1024 for name in ("Dirty", "Writeback"))
    except (OSError, ValueError, KeyError):
        return sys.maxsize


def _flush_file_system(folder: Path) -> None:
    files.require_trust(folder)
    with (
        files.convert_os_errors(folder),
        files.open_directory_fd(folder) as fd,
        files.stop_writing_on_error(folder),
    ):
        systems.flush_file_system(fd)


def _walk_tree(folder: Path) -> Iterator[Path]:
    """Yield every file in a directory, then the directory itself. Links are
    skipped: they have no content to flush.
    """
    with files.convert_os_errors(folder), os.scandir(folder) as scanned:
        entries = list(scanned)
    for entry in entries:
        path = folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk_tree(path)
        elif entry.is_file(follow_symlinks=False):
            yield path
    yield folder


def _flush_at_once(folder: Path) -> None:
    """Give everything to the drive, file by file, then make the drive write all of it once: that is what takes long."""
    for path in _walk_tree(folder):
        _flush_path(path, os.fsync)
    _flush_path(folder)


def _flush_path(path: Path, call: Callable[[int], None] = systems.flush) -> None:
    with files.convert_os_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            files.fsync(fd, path, call)
        finally:
            os.close(fd)
