"""jobHistory.json on disk: reading on from a place, durable appends, recovery of the end."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from logist.errors import Damaged, Refused
from logist.store import files
from logist.store.entries import (
    CLOSING,
    RESTORE,
    Header,
    Position,
    checksum_of,
    content,
    header_line,
    read_entry,
    read_header,
    seal,
)

JsonObject = dict[str, Any]

REPLACE_BELOW = 4_000_000
"""Bytes below which the whole file is replaced, so that readers without a lock always see valid JSON."""

_CLOSINGS = (b"", b"]", b"]}")
NOT_YET = (b"]", b"\0")
"""How a line begins whose page did not reach the disk: as the old closing, or as nothing. An entry behind
it is one that was cut off, however much of it is there."""
_CHUNK = 1 << 20


class Appended(NamedTuple):
    """What an append wrote: the completed entries, where each line begins, and the new end."""

    entries: list[JsonObject]
    offsets: list[int]
    position: Position


class Problem(NamedTuple):
    """Something that does not verify."""

    message: str
    sequence: int | None = None
    offset: int | None = None


def create(path: Path) -> None:
    """An empty history, durable."""
    files.replace_file(path, header_line() + CLOSING)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The history for reading; Damaged if there is none."""
    with files.storage(path):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise Damaged("the history is missing", where=str(path), fix=RESTORE) from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise Damaged("the history is not a regular file", where=str(path), fix=RESTORE)
        with os.fdopen(fd, "rb") as file:
            yield file


def end_of(file: BinaryIO, header: Header, position: Position) -> int | None:
    """The byte after the entry at `position`, which is read again and verified; None if it is not there."""
    sequence, digest, offset = position
    if sequence < header.first_sequence:
        file.seek(header.size)
        return header.size if (sequence, digest) == header.start()[:2] else None
    if offset < header.size:
        return None
    file.seek(offset - 1)
    boundary, line = file.read(1), file.readline()
    good = boundary == b"\n" and checksum_of(content(line, sequence, header.first_sequence) or b"")
    return offset + len(line) if good and good == digest else None


def seek_afresh(file: BinaryIO, offset: int) -> None:
    """Go to `offset` and read from the file itself: a seek within what was read before would keep that."""
    file.seek(0, os.SEEK_END)
    file.seek(offset)


class Scan:
    """The entries after `begin`, in order, each verified; afterwards, where they end and what follows.

    What follows the last good entry is a torn tail: an append that was cut off and never
    acknowledged. If a complete entry stands in it, the middle is damaged instead: Damaged is raised.
    """

    def __init__(self, file: BinaryIO, path: Path, header: Header, begin: Position, end: int) -> None:
        self.position = begin
        """The last good entry."""
        self.end = end
        """Where the next entry goes."""
        self.rest = b""
        """Everything from `end` on."""
        self.torn = b""
        """The same, unless it is the closing bytes, whole or in part."""
        self._file, self._path, self._first = file, path, header.first_sequence
        file.seek(end)

    def __iter__(self) -> Iterator[JsonObject]:
        seen = -1
        # A reader without the lock may have met an append half way; then the file has grown, and reads on.
        while seen != (seen := os.fstat(self._file.fileno()).st_size):
            seek_afresh(self._file, self.end)
            yield from self._entries()
            if self.rest.strip() in _CLOSINGS:
                return
        self._refuse_damage()
        self.torn = self.rest

    def _entries(self) -> Iterator[JsonObject]:
        line = self._file.readline()
        while entry := read_entry(line, self.position, self._first):
            self.position = Position(entry["sequence"], entry["checksum"], self.end)
            self.end += len(line)
            yield entry
            line = self._file.readline()
        self.rest = line + self._file.read()

    def _refuse_damage(self) -> None:
        lines = self.rest.split(b"\n")
        for line in lines[1:] if lines[0].startswith(NOT_YET) else lines:
            if checksum_of(line[max(line.find(b"{"), 0) :]):
                what = f"interaction {self.position.sequence + 1} (byte {self.end})"
                message = f"{what} does not verify, yet a complete one follows it"
                raise Damaged(message, where=str(self._path), fix=RESTORE)


def scan(file: BinaryIO, path: Path, begin: Position | None = None) -> Scan:
    """A Scan of what follows `begin` (None: of the whole file); Damaged if `begin` is not in the file."""
    header = read_header(file, path)
    if begin is None or begin[:2] == header.start()[:2]:
        begin = header.start()
    end = end_of(file, header, begin)
    if end is None:
        message = f"interaction {begin.sequence}, which state.json has seen, is not at byte {begin.offset}"
        raise Damaged(message, where=str(path), fix=RESTORE)
    return Scan(file, path, header, begin, end)


def append(
    path: Path,
    expected: Position,
    entries: list[JsonObject],
    *,
    torn: bytes,
    logs: Path,
    replace_below: int = REPLACE_BELOW,
) -> Appended:
    """Write all entries after `expected` as one durable append (DESIGN §9, Append).

    Refused if the history does not end at `expected`, with nothing or `torn` behind it. A torn tail
    is copied to `logs` first. StorageError when the disk will not take it: then the old end stands.
    """
    files.require_trust(path)
    with opened(path) as file:
        first = read_header(file, path).first_sequence
        end, tail, lead = _confirm_end(file, path, expected, torn)
        _keep_torn(logs, expected.sequence + 1, tail.torn)
        block, appended = _block(entries, expected, end + len(lead), first)
        # In place only one entry at a time: of several, a later one could reach the disk without
        # an earlier one when the power fails, and would then look like damage in the middle.
        if end + len(block) < replace_below or len(entries) != 1:
            file.seek(0)
            files.replace_chunks(path, itertools.chain(_copy(file, end), (lead, block)))
        else:
            _write_in_place(path, end, lead, block, whole=tail.rest == CLOSING)
    return appended


def _confirm_end(file: BinaryIO, path: Path, expected: Position, torn: bytes) -> tuple[int, Scan, bytes]:
    """Where the append begins, what is there now, and the newline that a cut took, if it did."""
    file.seek(0)
    header = read_header(file, path)
    end = end_of(file, header, expected)
    tail = Scan(file, path, header, expected, end or 0)
    if end is None or next(iter(tail), None) is not None or (torn and torn != tail.torn):
        message = f"the history has changed since interaction {expected.sequence} was read"
        raise Refused(message, where=str(path), fix="run the command again")
    file.seek(end - 1)
    return end, tail, b"" if file.read(1) == b"\n" else b"\n"


def _keep_torn(logs: Path, sequence: int, torn: bytes) -> None:
    """Copy a torn tail to logs/torn-<sequence>.txt; one that is kept already is never overwritten."""
    if not torn:
        return
    files.ensure_directory(logs)
    name, number = f"torn-{sequence}.txt", 1
    while (kept := files.read_bytes(logs / name)) not in (None, torn):
        number += 1
        name = f"torn-{sequence}-{number}.txt"
    if kept is None:
        files.replace_file(logs / name, torn)


def _block(
    entries: list[JsonObject], after: Position, offset: int, first_sequence: int
) -> tuple[bytes, Appended]:
    """The bytes from `offset` on, closing included, and what they hold."""
    lines, done, offsets = [], [], []
    for entry in entries:
        complete, line = seal(entry, after.sequence + 1, after.hash)
        comma = b"" if complete["sequence"] == first_sequence else b","
        lines.append(b"%b%b\n" % (comma, line))
        done.append(complete)
        offsets.append(offset)
        after = Position(complete["sequence"], complete["checksum"], offset)
        offset += len(lines[-1])
    return b"".join(lines) + CLOSING, Appended(done, offsets, after)


def _copy(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size and (chunk := file.read(min(size, _CHUNK))):
        size -= len(chunk)
        yield chunk


def _write_in_place(path: Path, end: int, lead: bytes, block: bytes, *, whole: bool) -> None:
    """One write over the closing bytes; `whole` says that they are all there, and nothing else is."""
    with files.storage(path):
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not whole:
                os.ftruncate(fd, end)
            try:
                files.write_all(fd, lead + block, end)
            except OSError:
                _put_back(fd, path, end, lead + CLOSING)
                raise
            files.fsync(fd, path)
        finally:
            os.close(fd)


def _put_back(fd: int, path: Path, end: int, closing: bytes) -> None:
    """The old end again. The closing goes over bytes that exist, so a full disk has room for it.

    Errors are left alone: the file reads without the closing too, and one error is on its way already.
    """
    with suppress(OSError):
        files.write_all(fd, closing, end)
        end += len(closing)
    with suppress(OSError):
        os.ftruncate(fd, end)
        files.fsync(fd, path)
