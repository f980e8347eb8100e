"""Opens files of a job or of `.logist` safely: only regular files, no symbolic links, limited size.

Such a file may come from a clone or an archive. A symbolic link could point anywhere, opening a pipe blocks, reading
a device never ends, and a sparse file of many gigabytes takes no space on the disk.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path  # importing it takes longer than the rest of this module

MOST = 1 << 27
"""Maximum size in bytes of a file that is read into memory; also the maximum length of a line of a history."""

READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags for opening such a file. Without O_NONBLOCK, opening a pipe would block forever."""

IRREGULAR = (errno.EINVAL, errno.ELOOP, errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV, errno.EFBIG)
"""Error numbers for anything but a regular file: EINVAL and EFBIG come from this module, ELOOP from a symbolic link,
ENXIO from a socket (on macOS EOPNOTSUPP), ENODEV from a device without a driver."""


def open_regular(path: str | Path) -> tuple[int, int]:
    """Return a descriptor for reading a regular file, and its size. Raises OSError for anything else, symbolic links too."""
    descriptor = os.open(path, READING)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor, status.st_size


def read_regular(path: str | Path, most: int = MOST) -> bytes:
    """Return the content of a regular file. Raises OSError (EFBIG), before reading, if it is larger than `most` bytes."""
    descriptor, size = open_regular(path)
    try:
        if size > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes")
        data = os.read(descriptor, size + 1)
        if len(data) == size:
            return data
        # The file grew or shrank meanwhile, or the file system returns it in pieces.
        pieces = [data]
        while len(pieces[-1]) and sum(map(len, pieces)) <= most:
            pieces.append(os.read(descriptor, most))
        return b"".join(pieces)
    finally:
        os.close(descriptor)
