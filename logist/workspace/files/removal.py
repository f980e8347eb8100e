"""Removes a directory with everything in it, however deep an agent has made it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from logist.workspace.files import safe_open

TRASH = b"logist-trash"


def remove_tree(beside: int, parent: int, name: bytes) -> None:
    """Move `name` out of `parent` at once, then delete it in the directory `beside` on the same file system.

    Directories are first moved to one level, so neither recursion nor open files grow with the depth.
    """
    with suppress(FileExistsError):  # left by a killed removal: finish it now
        os.mkdir(TRASH, 0o700, dir_fd=beside)
    trash = safe_open.open_directory(beside, TRASH, unlocking=True)
    try:
        numbers = count()
        _move_to_trash(parent, name, trash, numbers)
        while remaining := os.listdir(trash):
            for each in remaining:
                _take_apart(trash, os.fsencode(each), numbers)
    finally:
        os.close(trash)
    os.rmdir(TRASH, dir_fd=beside)


def _take_apart(trash: int, name: bytes, numbers: Iterator[int]) -> None:
    descriptor = safe_open.open_directory(trash, name, unlocking=True)
    try:
        os.fchmod(descriptor, 0o700)
        for each in os.listdir(descriptor):
            child = os.fsencode(each)
            if stat.S_ISDIR(os.stat(child, dir_fd=descriptor, follow_symlinks=False).st_mode):
                _move_to_trash(descriptor, child, trash, numbers)
            else:
                os.unlink(child, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=trash)


def _move_to_trash(parent: int, name: bytes, trash: int, numbers: Iterator[int]) -> None:
    safe_open.unlock_entry(parent, name)  # a directory that its owner can't write to can't be moved
    for number in numbers:
        try:
            return os.rename(name, b"%d" % number, src_dir_fd=parent, dst_dir_fd=trash)
        except OSError as error:
            if error.errno not in safe_open.NOT_EMPTY:
                raise
    return None


def remove_directory(folder: Path) -> None:
    """Remove a directory, however deep and locked it is; no error if it does not exist."""
    if not os.path.lexists(folder):
        return
    try:
        with safe_open.open_root(folder.parent, unlocking=True) as parent:
            remove_tree(parent, parent, os.fsencode(folder.name))
    except OSError as error:
        if error.errno not in safe_open.GONE:
            raise
