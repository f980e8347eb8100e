"""Small separate file systems, mounted temporarily and filled to the last block."""

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
    "xfs": (300, ("mkfs.xfs", "-q")),  # the minimum size that it supports
}

_CLEAN = 'cat; rm -f "$2"; umount --lazy "$1"'
"""Waits until its standard input closes."""


@contextmanager
def mounted(kind: str, scratch: Path) -> Iterator[Path]:
    """A directory on a new file system, "tmpfs", "ext4" or "xfs". Raises Skip if that is impossible.

    It is removed at the end of the block, and when this process is killed.
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
    """A file that fills the rest of a file system."""

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
            # Free what the last try allocated but did not count when it failed.
            file.truncate(size)
        _drain(self.path)

    def give_back(self, blocks: int) -> None:
        """Free this many blocks."""
        with self.path.open("rb+") as file:
            file.truncate(max(0, self.path.stat().st_size - blocks * BLOCK))

    def remove(self) -> None:
        """All is free again."""
        self.path.unlink(missing_ok=True)


def _pieces() -> Sequence[int]:
    return [_MEBIBYTE >> shift for shift in range(9)]


def _drain(path: Path) -> None:
    """Write, because fallocate does not always get the last blocks."""
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(BLOCK))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
