"""Directories in a project that only the user who runs the server can write to.

A repository can bring along a `.logist`, in which they may be links, or contain files that the server did not write.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from logist.errors import StorageError


def make_private_directory(path: Path) -> None:
    """Make a directory that only its owner can use. Raises StorageError if there is something else in its place.

    Through a link, the server would write and remove files elsewhere. And who can write to the directory of the
    one-time links can make one.
    """
    try:
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        if not _is_own_directory(path):
            fix = f"remove it, then try again: {path}"
            raise StorageError("must be a directory of yours, and no link", where=str(path), fix=fix)
        path.chmod(0o700)
    except OSError as error:
        raise StorageError(f"can't create the directory: {error.strerror}", where=str(path)) from error


def is_private_directory(path: Path) -> bool:
    """Whether this is such a directory."""
    try:
        return _is_own_directory(path) and not path.lstat().st_mode & 0o077
    except OSError:
        return False


def _is_own_directory(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
