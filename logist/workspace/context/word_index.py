"""The words of files on the disk, so that a step reads only the files that are new to the project.

The index is a folder of parts. A part has the words of some contents, which it knows by their ids in git, so it is never
out of date: it is written once, and read by all jobs of a project, whatever their workspaces contain. The folder is only
a cache: it may be removed at any time, and any failure means that the files are read instead, with the same result.

No process waits for another. Two that index the same files at the same time write the same part. Nothing is merged: if
there are many small parts, they are removed, and the next step makes one of what is still needed.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from logist.core.relevance.word_table import WordTable
from logist.digests import compute_sha256
from logist.formats import WORDS
from logist.quick_tuple import NamedTuple
from logist.workspace.files import safe_open

LEAST_BYTES = 1_000_000
"""Less new text than this is not worth a part: reading it takes a few milliseconds."""
SMALL_PART_BYTES = 4_000_000
MOST_SMALL_PARTS = 16
MOST_FOLDER_BYTES = 256_000_000
"""If the folder is larger, the parts that were not used for the longest time are removed."""
MOST_PART_BYTES = 1 << 28

_MAGIC = f"logist-words {WORDS.version} {sys.byteorder}".encode()
_ENDING = ".words"
_NEW = ".new-"
_ABANDONED_SECONDS = 3_600
"""A file that another process began to write so long ago is removed."""
_REMOVALS = 3
"""How often removing the folder is tried: another process may be adding a part."""
_REMEMBERED_SECONDS = 86_400
"""How exactly a part remembers when it was used last."""


class IndexPart(NamedTuple):
    """The words of some contents, and their ids in git, in the order of their numbers in the table."""

    ids: Sequence[bytes]
    table: WordTable


class WordIndex:
    """The index in a folder; None for no folder, which is an empty index that keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def list_parts(self) -> list[str]:
        """Return the names of the parts, for `load_part`."""
        with suppress(OSError), self._open_folder() as folder:
            return sorted(name for name in os.listdir(folder) if name.endswith(_ENDING))
        return []

    def load_part(self, name: str) -> IndexPart | None:
        """Return a part; None if it is damaged, was written elsewhere, or is gone."""
        with suppress(OSError), self._open_folder() as folder:
            first_line = _identify(folder)
            return _unpack_part(_read_file(folder, name, first_line), first_line)
        return None

    def mark_used(self, name: str) -> None:
        """Remember that a part was needed just now."""
        with suppress(OSError), self._open_folder() as folder:
            if (
                os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
                < time.time() - _REMEMBERED_SECONDS
            ):
                os.utime(name, dir_fd=folder, follow_symlinks=False)

    def save_part(self, part: IndexPart) -> int:
        """Add a part, if that is possible, and remove others if there are too many; return the bytes written.

        Only the owner of the jobs keeps an index: what another user creates, they could not use or remove.
        """
        if self._folder is None:
            return 0
        with suppress(OSError):
            if os.stat(self._folder.parent).st_uid != os.geteuid():
                return 0
            with suppress(FileExistsError):
                os.mkdir(self._folder, 0o700)
            with self._open_folder() as folder:
                data = _pack_part(part, _identify(folder))
                # The name depends on the content, so that the same part is never there twice.
                name = compute_sha256(data)[:32] + _ENDING
                _write_file(folder, name, data)
                _remove_surplus(folder, newest=name)
                return len(data)
        return 0

    @contextmanager
    def _open_folder(self) -> Iterator[int]:
        if self._folder is None:
            raise FileNotFoundError
        with safe_open.open_root(self._folder) as folder:
            if os.fstat(folder).st_uid != os.geteuid():
                raise PermissionError
            yield folder


def remove_index(folder: Path) -> None:
    """Remove the index with everything in it; a link is removed, not followed. Raises OSError."""
    for remaining in reversed(range(_REMOVALS)):
        try:
            _empty_folder(folder)
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            if os.path.islink(folder):
                os.unlink(folder)
            elif not remaining:
                raise


def _empty_folder(folder: Path) -> None:
    with safe_open.open_root(folder) as opened:
        for name in os.listdir(opened):
            with suppress(
                OSError
            ):  # what can't be removed must not keep the rest; the folder then stays, too
                os.unlink(name, dir_fd=opened)


def list_parts_unused_since(folder: Path, since: str | None) -> list[Path]:
    """Return the parts, and other files in the folder, that no step has needed since a time (UTC); None for all."""
    parts: list[Path] = []
    with suppress(OSError), safe_open.open_root(folder) as opened:
        for name in sorted(os.listdir(opened)):
            with suppress(FileNotFoundError):
                used = os.stat(name, dir_fd=opened, follow_symlinks=False).st_mtime
                if since is None or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(used)) < since:
                    parts.append(folder / name)
    return parts


def _identify(folder: int) -> bytes:
    """Return the first line of the parts in a folder.

    It names the folder: one in a clone could have parts of its author's choice, but not for here. So nothing of such
    a part is parsed.
    """
    status = os.fstat(folder)
    return b"%s %d %d\n" % (_MAGIC, status.st_dev, status.st_ino)


def _pack_part(part: IndexPart, first_line: bytes) -> bytes:
    table = part.table
    columns = [b"".join(part.ids), *map(bytes, table)]
    head = {
        "id_bytes": len(part.ids[0]),
        "sizes": list(map(len, columns)),
    }
    data = b"".join((json.dumps(head).encode(), b"\n", *columns))
    return b"%s%s\n%s" % (first_line, compute_sha256(data).encode(), data)


def _unpack_part(packed: bytes, first_line: bytes) -> IndexPart | None:
    begin = len(first_line)
    start = packed.find(b"\n", begin) + 1
    data = memoryview(packed)[start:]
    if packed[:begin] != first_line or compute_sha256(data).encode() != packed[begin : start - 1]:
        return None
    body = packed.index(b"\n", start) + 1
    head = json.loads(packed[start:body])
    columns, start = [], body
    for size in head["sizes"]:
        columns.append(memoryview(packed)[start : start + size])
        start += size
    width, names = head["id_bytes"], bytes(columns[0])
    words, starts, ends, components, component_starts, component_ends, containing, postings = columns[1:]
    return IndexPart(
        [names[at : at + width] for at in range(0, len(names), width)],
        WordTable(
            bytes(words),
            starts.cast("I"),
            ends.cast("I"),
            bytes(components),
            component_starts.cast("I"),
            component_ends.cast("I"),
            containing.cast("I"),
            postings.cast("I"),
        ),
    )


def _read_file(folder: int, name: str, first_line: bytes) -> bytes:
    """Return the content of a part; b"" if it begins otherwise, such as one of an earlier version."""
    descriptor = os.open(name, safe_open.FILE, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_PART_BYTES:
            return b""
        if os.pread(descriptor, len(first_line), 0) != first_line:
            return b""
        return b"".join(safe_open.read_exactly(descriptor, status.st_size, status.st_size))
    finally:
        os.close(descriptor)


def _write_file(folder: int, name: str, data: bytes) -> None:
    """Write a file under another name first, so that nobody reads a half of it. It is not flushed: if a power cut
    damages it, its checksum is wrong.
    """
    temporary = f"{_NEW}{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


class _PartFile(NamedTuple):
    name: str
    size: int
    used: float


def _remove_surplus(folder: int, newest: str) -> None:
    """Remove what is damaged, abandoned or too much; never the part that was just written."""
    parts: list[_PartFile] = []
    for name in os.listdir(folder):
        with suppress(OSError):  # gone, or a directory that somebody made
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if name.endswith(_ENDING):
                parts.append(_PartFile(name, status.st_size, status.st_mtime))
            elif status.st_mtime < time.time() - _ABANDONED_SECONDS:
                os.unlink(name, dir_fd=folder)
    old = [part for part in parts if part.name != newest]
    room = MOST_FOLDER_BYTES - sum(part.size for part in parts)
    surplus: list[_PartFile] = []
    for part in sorted(old, key=lambda part: part.used):
        if room < 0:
            surplus.append(part)
            room += part.size
    small = [part for part in old if part.size < SMALL_PART_BYTES]
    surplus += small if len(small) >= MOST_SMALL_PARTS else []
    for part in surplus:
        with suppress(FileNotFoundError):
            os.unlink(part.name, dir_fd=folder)
