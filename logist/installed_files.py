"""Notices that Logist was upgraded while a process works: modules and data of two versions don't fit each other."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from logist.lazy_patterns import compile_on_use
from logist.version import __version__

LOOK_SECONDS = 1.0
"""How often the files are looked at, at most: there are several hundred."""
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_VERSION = compile_on_use(r'__version__ = "([^"]{1,40})"')

Stamp = tuple[str, int, int, int]


class InstalledFiles:
    """The files of the package as they were when the process began; can be used from any thread."""

    def __init__(self, folder: str = _PACKAGE) -> None:
        self._folder = folder
        self._stamps = self._read_stamps()
        self._looked_at = time.monotonic()
        self._have_changed = False

    def have_changed(self, *, at_once: bool = False) -> bool:
        """Return whether a file was replaced, changed, added or removed; as of at most LOOK_SECONDS ago, or now."""
        now = time.monotonic()
        if not self._have_changed and (at_once or now - self._looked_at >= LOOK_SECONDS):
            self._looked_at = now
            self._have_changed = self._read_stamps() != self._stamps
        return self._have_changed

    def describe_change(self) -> str:
        """Return what has happened, with both versions if they differ."""
        try:
            with open(os.path.join(self._folder, "version.py"), encoding="utf-8") as file:
                match = _VERSION.search(file.read(10_000))
        except (OSError, UnicodeDecodeError):
            match = None
        if match and match[1] != __version__:
            return f"Logist was upgraded from {__version__} to {match[1]} while this command worked"
        return f"the files of Logist {__version__} were changed while this command worked"

    def _read_stamps(self) -> frozenset[Stamp] | None:
        try:
            return frozenset(_list_stamps(self._folder))
        except OSError:
            return None  # removed, or in the middle of it


def _list_stamps(folder: str) -> Iterator[Stamp]:
    with os.scandir(folder) as scanned:
        for entry in scanned:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":  # Python itself writes it
                    yield from _list_stamps(entry.path)
            else:
                status = entry.stat()
                yield entry.path, status.st_ino, status.st_size, status.st_mtime_ns
