"""Directories for temporary files. `tempfile` and `shutil` do the same, but loading them takes a third of the start of Python."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_USUAL = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108 - a directory below gets a random name
_TRIES = 100


@contextmanager
def open_temporary_directory(prefix: str, chosen: Sequence[str] = ()) -> Iterator[Path]:
    """Yield a new directory that only this user can read; remove it at the end.

    It is in the first of the `chosen` directories and the usual ones in which this is possible.
    """
    folder = _create_directory(prefix, chosen)
    try:
        yield folder.resolve()
    finally:
        _remove_directory(folder)


def _create_directory(prefix: str, chosen: Sequence[str]) -> Path:
    last: OSError | None = None
    for parent in (*chosen, *_USUAL, os.curdir):
        for _ in range(_TRIES):
            path = os.path.join(os.path.abspath(parent), f"{prefix}{os.urandom(6).hex()}")
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                continue
            except OSError as error:
                last = last or error
                break
            return Path(path)
    raise last or FileExistsError(f"no free name for a directory {prefix}*")


def _remove_directory(folder: Path) -> None:
    """Remove it as far as possible."""
    for above, directories, names in os.walk(folder, topdown=False):
        for name in names:
            with suppress(OSError):
                os.unlink(os.path.join(above, name))
        for name in directories:
            path = os.path.join(above, name)
            with suppress(OSError):
                (os.unlink if os.path.islink(path) else os.rmdir)(path)
    with suppress(OSError):
        os.rmdir(folder)
