"""Small file systems of their own, mounted for a while, and filled to the last block."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.torture.suite import Skip

BLOCK = 4096
_MEBIBYTE = 1 << 20
_MAKE = {
    "ext4": (16, ("mkfs.ext4", "-q", "-m", "0", "-F")),
    "xfs": (300, ("mkfs.xfs", "-q")),  # it makes none that is smaller
}

_CLEAN = 'cat; rm -f "$2"; umount --lazy "$1"'
"""Waits for the end of whoever holds its standard input."""


@contextmanager
def mounted(kind: str, scratch: Path) -> Iterator[Path]:
    """A directory on a new file system, "tmpfs", "ext4" or "xfs"; Skip where that can't be had.

    It is gone when the block is left, and when this process is killed.
    """
    if os.geteuid() != 0:
        raise Skip("only root may mount")
    place = scratch / "mounted"
    place.mkdir()
    image = scratch / "image"
    if kind == "tmpfs":
        _must("mount", "-t", "tmpfs", "-o", f"size={3 * _MEBIBYTE}", "tmpfs", str(place))
    else:
        _make(kind, image)
        _must("mount", "-o", "loop", str(image), str(place))
    cleaner = subprocess.Popen(
        ["sh", "-c", _CLEAN, "sh", str(place), str(image)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield place
    finally:
        cleaner.communicate()
        assert cleaner.returncode == 0, f"{place} is still mounted"


def _make(kind: str, image: Path) -> None:
    size, program = _MAKE[kind]
    if shutil.which(program[0]) is None:
        raise Skip(f"there is no {program[0]}")
    with image.open("wb") as file:
        file.truncate(size * _MEBIBYTE)
    _must(*program, str(image))


def _must(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


class Filler:
    """A file that takes whatever a file system has left."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """To the last block."""
        size = self.path.stat().st_size if self.path.exists() else 0
        with self.path.open("ab") as file:
            for piece in _pieces():
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), size, piece)
                        size += piece
            # What was allocated and not counted, when the last try failed half way, is given back.
            file.truncate(size)
        _drain(self.path)

    def give_back(self, blocks: int) -> None:
        """So many blocks are free again."""
        with self.path.open("rb+") as file:
            file.truncate(max(0, self.path.stat().st_size - blocks * BLOCK))

    def remove(self) -> None:
        """All is free again."""
        self.path.unlink(missing_ok=True)


def _pieces() -> Sequence[int]:
    return [_MEBIBYTE >> shift for shift in range(9)]


def _drain(path: Path) -> None:
    """Allocating does not always get the last blocks: writing does."""
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(BLOCK))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
