"""Closed segments of a long history: `jobHistory.<n>.json.gz`, numbered from 1, each verified as it is read.

A segment holds, compressed, the bytes that jobHistory.json had when it was rotated: a complete history file.
The first line of the live file has its own segment number; segments with lower numbers belong to the history
and never change. One with the same or a higher number was left by an interrupted rotation and is never read.
"""

from __future__ import annotations

import io
import itertools
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from logist.core.text.json_object import JsonObject
from logist.errors import Damaged, Refused, StorageError
from logist.lazy_patterns import compile_on_use
from logist.store import files
from logist.store.entries import CLOSING, LONGEST, Header, Position, read_entry, read_header, suggest_restore

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


NAME = compile_on_use(r"(.+)\.([1-9]\d{0,9})\.json\.gz")
"""The file name of a segment: the name of its history, then its number."""

_LEVEL = 6
"""Reduces a history to a tenth; a higher level gains almost nothing."""
_GZIP = 31
"""The `wbits` of zlib for one gzip member, with its checksum."""
_RAW = -15
"""The `wbits` of zlib for the compressed bytes only, without the header and checksum of gzip."""
_HEADER = bytes.fromhex("1f8b 08 00 00000000 00 03")
"""How every segment begins: gzip, deflate, no flags, no time, no level, Unix.

zlib would write the operating system it runs on. When reading, it ignores most of these bytes.
"""
_CHUNK = 1 << 16
_BLOCK = 1 << 18


def segment_path(history: Path, number: int) -> Path:
    """The path of segment `number` of a history, in the same directory."""
    return history.with_name(f"{history.stem}.{number}.json.gz")


def live_path(path: Path) -> Path:
    """The live file that a segment belongs to; any other path is returned unchanged."""
    match = NAME.fullmatch(path.name)
    return path.with_name(f"{match[1]}.json") if match else path


def find_segments(history: Path) -> dict[int, Path]:
    """Find everything in the directory of a history that has the name of a
    segment, by number, whatever it is.
    """
    with files.convert_os_errors(history.parent):
        names = os.listdir(history.parent)
    matches = [match for match in map(NAME.fullmatch, names) if match and match[1] == history.stem]
    return {number: segment_path(history, number) for number in sorted(int(match[2]) for match in matches)}


def find_missing_segments(history: Path, live: Header) -> list[tuple[int, int, str]]:
    """Find the missing segments below the live file, as (first number, last number, description)."""
    there = [0, *(number for number in find_segments(history) if number < live.segment), live.segment]
    gaps = [(before + 1, after - 1) for before, after in itertools.pairwise(there) if before + 1 < after]
    return [(*gap, _describe_missing(history, *gap)) for gap in gaps]


def _describe_missing(history: Path, first: int, last: int) -> str:
    names = " to ".join(segment_path(history, number).name for number in sorted({first, last}))
    return f"{names} {'is' if first == last else 'are'} missing"


def write_segment(history: Path, number: int, chunks: Iterable[bytes]) -> None:
    """Write a segment from the bytes of a live file; it becomes durable, or does not appear at all."""
    files.replace_chunks(segment_path(history, number), _compress_chunks(chunks))


def find_later_segments(history: Path, number: int) -> list[int]:
    """The segments numbered above `number`. If there are any, an older copy has replaced the live file."""
    return [each for each in find_segments(history) if each > number]


def has_later_entries(history: Path, number: int, last: int) -> bool:
    """True if segments hold entries that a live file of this number, ending with interaction `last`, lacks.

    These are segments with that number or a higher one; such a segment is not a leftover, and must not be
    overwritten.
    """
    if find_later_segments(history, number):
        return True
    if not os.path.lexists(segment_path(history, number)):
        return False
    segment = HistorySegment(history, number)
    with suppress(Damaged, Refused, StorageError):
        for _ in segment:
            pass
    return segment.position is not None and segment.position.sequence > last


def remove_segment(history: Path, number: int) -> None:
    """Remove a segment whose bytes the live file still has. A failure is
    ignored: such a segment does no harm.
    """
    with suppress(OSError):
        os.unlink(segment_path(history, number))


def read_older_entries(history: Path, live: Header, since: Position | None = None) -> Iterator[JsonObject]:
    """Yield the entries of all segments below the live file, in order and verified, one in memory at a time.

    With `since`, only those after it. Raises Damaged, with the name of the segment, at the first that is
    missing, incomplete, or does not continue where the one before it ends; and if no segment holds `since`.
    """
    number = 1 if since is None else _find_segment_number(history, live, since.sequence)
    end = Position(0, None, 0) if number == 1 else None
    is_after_since = since is None
    while number < live.segment:
        segment = HistorySegment(history, number, end)
        for entry in segment:
            if is_after_since:
                yield entry
            elif since is not None and entry["sequence"] == since.sequence:
                is_after_since = segment.position == since
        end, number = segment.position, number + 1
    if not is_after_since and since is not None:
        message = f"interaction {since.sequence}, the last one in state.json, not found in its segment"
        raise Damaged(message, where=str(history), fix=suggest_restore(history))
    if end is not None and end[:2] != live.start_position()[:2]:
        raise broken_link_error(history, segment_path(history, live.segment - 1), live.start_position(), end)


def has_own_header(history: Path, number: int) -> bool:
    """True if a segment begins with the gzip header that Logist writes.
    Raises Damaged if it is not a regular file.
    """
    path = segment_path(history, number)
    with files.open_required_file(path, path.name, lambda: suggest_restore(path)) as file:
        return file.read(len(_HEADER)) == _HEADER


def is_in_segment(history: Path, live: Header, position: Position) -> bool:
    """True if the entry at `position` is in its segment. Raises Damaged if
    the segment can't be read up to it.
    """
    segment = HistorySegment(history, _find_segment_number(history, live, position.sequence))
    return any(segment.position == position for _ in segment)


def broken_link_error(later: Path, earlier: Path, start: Position, end: Position) -> Damaged:
    """The error for a history file that does not continue where the one before it ends."""
    message = f"{later.name} continues from interaction {start.sequence}, but {earlier.name} ends with "
    message += (
        "a different interaction with that number" if start.sequence == end.sequence else str(end.sequence)
    )
    return Damaged(message, where=str(later), fix=suggest_restore(later, f"{earlier.name} and {later.name}"))


def _find_segment_number(history: Path, live: Header, sequence: int) -> int:
    """Find the number of the segment that holds an interaction."""
    number = live.segment - 1
    while number > 1 and HistorySegment(history, number).load_header().first_sequence > sequence:
        number -= 1
    return number


class HistorySegment:
    """The entries of one segment, in order, each verified; afterwards, where they end.

    Raises Damaged, with the name of the file, at the first entry that does not verify: a segment is
    written completely or not at all, so it can't have an incomplete end.
    """

    def __init__(self, history: Path, number: int, after: Position | None = None) -> None:
        """`after`: the entry that the segment must continue from, if that is known."""
        self.path = segment_path(history, number)
        self._before = segment_path(history, number - 1)
        self.number = number
        self.position: Position | None = after
        """The last good entry; its offset is in the decompressed bytes."""
        self.first = 0
        """The number of its first entry; 0 if its first line is unreadable."""

    def load_header(self) -> Header:
        """Open the segment and parse its first line."""
        with self._open_text() as file:
            return self._parse_header(file)

    def __iter__(self) -> Iterator[JsonObject]:
        with self._open_text() as file:
            header = self._parse_header(file)
            self.first = header.first_sequence
            at, begin = header.size, header.start_position()
            if self.position is not None and self.position[:2] != begin[:2]:
                raise broken_link_error(self.path, self._before, begin, self.position)
            self.position = begin
            while entry := read_entry(line := self._read_line(file), self.position, header.first_sequence):
                self.position = Position(entry["sequence"], entry["checksum"], at)
                at += len(line)
                yield entry
            if line != CLOSING or self._read_line(file) or self.position is begin:
                raise self._damaged_error(f"interaction {self.position.sequence + 1} failed verification")

    @contextmanager
    def _open_text(self) -> Iterator[BinaryIO]:
        opened = files.open_required_file(self.path, self.path.name, lambda: suggest_restore(self.path))
        with opened as file, open_inflated(file) as text:
            yield text

    def _parse_header(self, file: BinaryIO) -> Header:
        try:
            with self._convert_unpack_errors():
                header = read_header(file, self.path)
        except Damaged as error:
            raise self._damaged_error("its first line is damaged") from error
        if header.segment != self.number:
            raise self._damaged_error(f"it contains segment {header.segment}, expected {self.number}")
        return header

    def _read_line(self, file: BinaryIO) -> bytes:
        with self._convert_unpack_errors():
            return file.readline(LONGEST)

    @contextmanager
    def _convert_unpack_errors(self) -> Iterator[None]:
        try:
            yield
        except (zlib.error, EOFError) as error:
            number = self.position.sequence + 1 if self.position else 1
            raise self._damaged_error(
                f"can't decompress it from interaction {number} on ({error})"
            ) from error

    def _damaged_error(self, what: str) -> Damaged:
        return Damaged(f"{self.path.name}: {what}", where=str(self.path), fix=suggest_restore(self.path))


def open_inflated(file: BinaryIO) -> io.BufferedReader:
    """Open the decompressed content of a segment; one block is in memory at a time.

    Reading raises zlib.error or EOFError for anything but exactly one complete gzip member.
    """
    return io.BufferedReader(_Inflated(file), _BLOCK)


class _Inflated(io.RawIOBase):
    """The bytes of one gzip member, decompressed only as far as requested: a
    small file may expand without end.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._member = file, zlib.decompressobj(_GZIP)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer as far as possible; 0 at the end."""
        view = memoryview(buffer)
        while not self._member.eof:
            data = self._member.unconsumed_tail or self._file.read(_CHUNK)
            out = self._member.decompress(data, len(view))
            if out:
                view[: len(out)] = out
                return len(out)
            if not data:
                raise EOFError("the file is truncated")
        if self._member.unused_data or self._file.read(1):
            raise EOFError("unexpected data after its end")
        return 0


def _compress_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Compress to gzip, reproducibly: the same bytes always give the same file, on any machine."""
    press, checksum, size = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW), 0, 0
    yield _HEADER
    for chunk in chunks:
        checksum, size = zlib.crc32(chunk, checksum), size + len(chunk)
        yield press.compress(chunk)
    yield press.flush()
    yield struct.pack("<II", checksum, size & 0xFFFFFFFF)
