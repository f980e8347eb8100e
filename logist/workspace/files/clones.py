"""Copies files without copying their content, where the file system can do that (btrfs, XFS): both files share their
blocks on the disk until one of them is changed.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import IO

from logist.quick_tuple import NamedTuple
from logist.regular_files import open_regular
from logist.workspace.files import safe_open

_FICLONE = 0x40049409
"""The request of ioctl(2) that clones a file; the module fcntl has a name for it from Python 3.14 on."""
_PIECE = 1 << 24
_UNNAMED: int = getattr(os, "O_TMPFILE", 0)
"""The flag for a file without a name."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class WantedFile(NamedTuple):
    """A file to clone: its path, the mode of the clone, and the size that it must have."""

    path: bytes
    mode: int
    size: int


def copy_file(source: Path, target: Path) -> None:
    """Copy a file with its permissions to a new file, as a clone if possible."""
    descriptor, _ = open_regular(source)
    with open(descriptor, "rb") as original:
        mode = os.fstat(original.fileno()).st_mode & 0o777
        with open(os.open(target, _NEW, mode), "wb") as copy:
            if not _clone_content(original.fileno(), copy.fileno()):
                _copy_content(original, copy)


def _copy_content(original: IO[bytes], copy: IO[bytes]) -> None:
    # Linux can copy without a way through this process; some file systems can't, or end too early.
    copy_range = getattr(os, "copy_file_range", None)
    with suppress(OSError):
        while copy_range is not None and copy_range(original.fileno(), copy.fileno(), _PIECE):
            pass
    while piece := original.read(1 << 20):  # what is left; shutil loads the libraries of three compressions
        copy.write(piece)


def can_clone(source: Path, target: Path, paths: Iterable[bytes]) -> bool:
    """Whether files of the directory `source` can be cloned into the directory `target`; tries the first of these
    that exists.
    """
    if not _UNNAMED:  # on macOS, _clone_content clones nothing
        return False
    with suppress(OSError), safe_open.open_root(source) as top:
        for path in paths:
            with suppress(OSError), safe_open.open_regular_below(top, path.split(b"/")) as original:
                unnamed = os.open(target, _UNNAMED | os.O_WRONLY | os.O_CLOEXEC, 0o600)
                try:
                    return _clone_content(original, unnamed)
                finally:
                    os.close(unnamed)
    return False


def clone_files(source: Path, target: Path, wanted: Iterable[WantedFile]) -> None:
    """Clone files of the directory `source` into the directory `target`, which nobody else uses yet.

    Leaves out what can't be cloned: missing files, files of another size, links.
    """
    with suppress(OSError), safe_open.open_root(source) as top:
        for folder, files in groupby(wanted, lambda file: file.path.rpartition(b"/")[0]):
            new = os.path.join(os.fsencode(target), folder)
            with suppress(OSError), safe_open.open_below(top, folder.split(b"/") if folder else []) as parent:
                os.makedirs(new, 0o700, exist_ok=True)
                for file in files:
                    _clone_file(parent, new, file)


def _clone_file(parent: int, folder: bytes, file: WantedFile) -> None:
    name = file.path.rpartition(b"/")[2]
    target = os.path.join(folder, name)
    with suppress(OSError):
        # Check first: opening a device can have side effects.
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_size != file.size:
            return
        original = os.open(name, safe_open.FILE, dir_fd=parent)
        try:
            copy = os.open(target, _NEW, file.mode)
            try:
                cloned = _clone_content(original, copy)
            finally:
                os.close(copy)
        finally:
            os.close(original)
        if not cloned:
            os.unlink(target)


def _clone_content(original: int, copy: int) -> bool:
    try:
        fcntl.ioctl(copy, _FICLONE, original)
    except OSError:
        return False
    return True
