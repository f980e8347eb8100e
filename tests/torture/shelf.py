"""Reads real directories as trees, and writes one tree after the other to a directory."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from tests.torture.filesystem import Content, Tree


def digest(tree: Tree) -> bytes:
    """The key of a tree: 16 bytes."""
    whole = blake2b(digest_size=16)
    for path in sorted(tree):
        content = tree[path]
        data = content.encode() if isinstance(content, str) else content or b""
        whole.update(f"{path}\0{type(content).__name__}\0{len(data)}\0".encode())
        whole.update(data)
    return whole.digest()


def read(place: Path) -> Tree:
    """Return the tree below a real directory."""
    tree: Tree = {}
    pending = [""]
    while pending:
        above = pending.pop()
        with os.scandir(place / above) as found:
            for entry in found:
                path = above + entry.name
                if entry.is_symlink():
                    tree[path] = os.readlink(entry.path)
                elif entry.is_dir():
                    tree[path] = None
                    pending.append(path + "/")
                else:
                    tree[path] = Path(entry.path).read_bytes()
    return tree


class Shelf:
    """A real directory that becomes one tree after the other; only the differences are written."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.laid: Tree = {}
        self.stamps: dict[str, tuple[int, ...]] = {}
        place.mkdir(parents=True, exist_ok=True)

    def put(self, tree: Tree) -> None:
        """Write the tree, whatever was done to the last one."""
        self._look()
        for path in sorted(self.laid.keys() - tree.keys(), reverse=True):
            self._take(path)
        for path in sorted(tree):
            content = tree[path]
            if path not in self.laid or self.laid[path] != content:
                self._take(path)
                self._lay(path, content)

    def _look(self) -> None:
        """Find what was changed since the last write: a changed file counts as different content."""
        seen: Tree = {}
        pending = [""]
        while pending:
            above = pending.pop()
            with os.scandir(f"{self.place}/{above}") as found:
                for entry in found:
                    path = above + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        seen[path] = None
                        pending.append(path + "/")
                    else:
                        same = self.stamps.get(path) == _stamp(entry.stat(follow_symlinks=False))
                        seen[path] = self.laid.get(path, "?") if same else "?"
        self.laid = seen

    def _take(self, path: str) -> None:
        if path not in self.laid:
            return
        full = f"{self.place}/{path}"
        if self.laid.pop(path) is not None:
            os.unlink(full)
            return
        for below in sorted((name for name in self.laid if name.startswith(path + "/")), reverse=True):
            self._take(below)
        os.rmdir(full)

    def _lay(self, path: str, content: Content) -> None:
        full = f"{self.place}/{path}"
        if content is None:
            os.mkdir(full, 0o700)
        elif isinstance(content, str):
            os.symlink(content, full)
        else:
            descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(descriptor, content)
            # A time long ago, so that any later write changes the time, however quick it is.
            os.utime(descriptor, (1, 1))
            os.close(descriptor)
        self.laid[path] = content
        self.stamps[path] = _stamp(os.lstat(full))


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns
