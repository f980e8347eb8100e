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
BLOCK_BYTES = 1 << 16
"""The postings, which are most of a part, have a checksum for each block of this size, so that a search reads few of them."""
_FIRST_BYTES = 1 << 19
"""So much of a part is read at once: mostly all of it but the postings."""

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


class DamagedPart(Exception):
    """A part of the index is damaged, so it is as good as none."""


class WordIndex:
    """The index in a folder; None for no folder, which is an empty index that keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def list_parts(self) -> list[str]:
        """Return the names of the parts, for `load_part`."""
        with suppress(OSError), self._open_folder() as folder:
            return sorted(name for name in os.listdir(folder) if name.endswith(_ENDING))
        return []

    @contextmanager
    def open_part(self, name: str) -> Iterator[IndexPart | None]:
        """Open a part, of which the postings are read when they are needed, which raises DamagedPart if they are damaged;
        None if other columns are damaged, if it was written elsewhere, or is gone.
        """
        part, descriptor = None, -1
        with suppress(OSError), self._open_folder() as folder:
            descriptor = os.open(name, safe_open.FILE, dir_fd=folder)
            part = _read_part(descriptor, _identify(folder))
        try:
            yield part
        finally:
            if descriptor >= 0:
                os.close(descriptor)

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
    *columns, _ = part.table
    postings = part.table.pack_postings()
    blocks = [postings[at : at + BLOCK_BYTES] for at in range(0, len(postings), BLOCK_BYTES)]
    digests = b"".join(bytes.fromhex(compute_sha256(block)) for block in blocks)
    packed = [b"".join(part.ids), *map(bytes, columns), digests]
    head = {"id_bytes": len(part.ids[0]), "sizes": list(map(len, packed)), "postings": len(postings)}
    data = b"".join((json.dumps(head).encode(), b"\n", *packed))
    return b"%s%s %d\n%s%s" % (first_line, compute_sha256(data).encode(), len(data), data, postings)


def _read_part(descriptor: int, first_line: bytes) -> IndexPart | None:
    """Read a part without its postings; None if it is damaged, or begins otherwise, such as one of an earlier version."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_PART_BYTES:
        return None
    if os.pread(descriptor, len(first_line), 0) != first_line:
        return None
    beginning = os.pread(descriptor, _FIRST_BYTES, 0)
    start = beginning.find(b"\n", len(first_line)) + 1
    checksum, _, size = beginning[len(first_line) : max(0, start - 1)].partition(b" ")
    if not size.isdigit() or start + int(size) > status.st_size:
        return None
    end = start + int(size)
    missing = end - len(beginning)
    packed = beginning + os.pread(descriptor, missing, len(beginning)) if missing > 0 else beginning
    data = memoryview(packed)[start:end]
    if compute_sha256(data).encode() != checksum:
        return None
    body = packed.index(b"\n", start) + 1
    head = json.loads(packed[start:body])
    columns, start = [], body
    for column_size in head["sizes"]:
        columns.append(memoryview(packed)[start : start + column_size])
        start += column_size
    width, names = head["id_bytes"], bytes(columns[0])
    words, starts, ends, components, component_starts, component_ends, containing, digests = columns[1:]
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
            _StoredPostings(descriptor, end, head["postings"], bytes(digests)),
        ),
    )


class _StoredPostings:
    """The postings in an open file; each block is read and checked at its first use."""

    def __init__(self, descriptor: int, start: int, size: int, digests: bytes) -> None:
        self._descriptor, self._start, self._size, self._digests = descriptor, start, size, digests
        self._blocks: dict[int, bytes] = {}

    def __getitem__(self, place: slice, /) -> memoryview:
        """Return some postings. Raises DamagedPart."""
        begin, end = _POSTING_BYTES * place.start, _POSTING_BYTES * place.stop
        first = begin // BLOCK_BYTES
        blocks = [self._load_block(number) for number in range(first, -(-end // BLOCK_BYTES))]
        data = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        at = begin - first * BLOCK_BYTES
        return memoryview(data)[at : at + end - begin].cast("I")

    def _load_block(self, number: int) -> bytes:
        block = self._blocks.get(number)
        if block is None:
            at = number * BLOCK_BYTES
            try:
                block = os.pread(self._descriptor, min(BLOCK_BYTES, self._size - at), self._start + at)
            except OSError as error:
                raise DamagedPart from error
            if bytes.fromhex(compute_sha256(block)) != self._digests[32 * number : 32 * (number + 1)]:
                raise DamagedPart
            self._blocks[number] = block
        return block


_POSTING_BYTES = 4


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
