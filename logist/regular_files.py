"""The one way to open a file that belongs to a job or to `.logist`: regular, not through a link, bounded.

Such a file may come with a clone or an archive. A symbolic link could lead anywhere, a pipe blocks whoever opens it,
a device never ends, and a sparse file of gigabytes takes no room on the disk.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path  # it costs more than all of this module

MOST = 1 << 27
"""Bytes of the largest file that is read into memory at once; the longest line of a history is as long."""

READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""How such a file is opened. Without O_NONBLOCK a pipe in its place would block for ever."""

IRREGULAR = (errno.EINVAL, errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EFBIG)
"""What opening or reading says of anything else: EINVAL and EFBIG are from here, ENXIO and ENODEV are of a socket
and of a device without a driver."""


def open_regular(path: str | Path) -> tuple[int, int]:
    """A descriptor for reading a regular file, and its size. Anything else is an OSError, a symbolic link too."""
    descriptor = os.open(path, READING)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor, status.st_size


def read_regular(path: str | Path, most: int = MOST) -> bytes:
    """All of a file that `open_regular` opens; OSError (EFBIG), before anything is read, for more than `most` bytes."""
    descriptor, size = open_regular(path)
    try:
        if size > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes")
        data = os.read(descriptor, size + 1)
        if len(data) == size:
            return data
        # It grew or shrank meanwhile, or the file system gives it in pieces.
        pieces = [data]
        while len(pieces[-1]) and sum(map(len, pieces)) <= most:
            pieces.append(os.read(descriptor, most))
        return b"".join(pieces)
    finally:
        os.close(descriptor)
