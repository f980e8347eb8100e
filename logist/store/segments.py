"""Closed segments of a long history: `jobHistory.<n>.json.gz`, numbered from 1, each verified as it is read.

A segment holds, compressed, the bytes that jobHistory.json had when it was rotated: a whole history file.
The first line of the live file says which segment it is itself; those below it belong to the history, and
never change. One that is not below was left by a rotation that was cut off, and nobody reads it.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from logist.core.text.json_object import JsonObject
from logist.errors import Damaged, Refused, StorageError
from logist.store import files
from logist.store.entries import CLOSING, LONGEST, Header, Position, read_entry, read_header, restore

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


NAME = re.compile(r"(.+)\.([1-9]\d{0,9})\.json\.gz")
"""How a segment is called: as its history, and its number."""

_LEVEL = 6
"""Of a history, a tenth is left; more effort gains nothing."""
_GZIP = 31
"""What zlib calls one gzip member, with its checksum."""
_RAW = -15
"""What zlib calls the compressed bytes alone, without gzip's header and checksum."""
_HEADER = bytes.fromhex("1f8b 08 00 00000000 00 03")
"""How every segment begins: gzip, deflate, no flags, no time, no level, Unix.

zlib would write the system it runs on, and ignores most of these bytes when it reads them.
"""
_CHUNK = 1 << 16
_BLOCK = 1 << 18


def path_of(history: Path, number: int) -> Path:
    """Where segment `number` of a history lies: beside it."""
    return history.with_name(f"{history.stem}.{number}.json.gz")


def history_of(path: Path) -> Path:
    """The live file that a segment belongs to; any other path as it is."""
    match = NAME.fullmatch(path.name)
    return path.with_name(f"{match[1]}.json") if match else path


def found(history: Path) -> dict[int, Path]:
    """What lies beside a history under the name of a segment, by number; whatever it is."""
    with files.storage(history.parent):
        names = os.listdir(history.parent)
    matches = [match for match in map(NAME.fullmatch, names) if match and match[1] == history.stem]
    return {number: path_of(history, number) for number in sorted(int(match[2]) for match in matches)}


def lacking(history: Path, live: Header) -> list[tuple[int, int, str]]:
    """The segments below the live file that are not there, as stretches of numbers, each in words."""
    there = [0, *(number for number in found(history) if number < live.segment), live.segment]
    gaps = [(before + 1, after - 1) for before, after in itertools.pairwise(there) if before + 1 < after]
    return [(*gap, _missing(history, *gap)) for gap in gaps]


def _missing(history: Path, first: int, last: int) -> str:
    names = " to ".join(path_of(history, number).name for number in sorted({first, last}))
    return f"{names} {'is' if first == last else 'are'} missing"


def write(history: Path, number: int, chunks: Iterable[bytes]) -> None:
    """Makes a segment of the bytes of a live file; durable, or not there."""
    files.replace_chunks(path_of(history, number), _compressed(chunks))


def above(history: Path, number: int) -> list[int]:
    """The segments that no live file of this number leaves behind: an older file was put in the place of a later one."""
    return [each for each in found(history) if each > number]


def hold_more(history: Path, number: int, last: int) -> bool:
    """Whether a live file of this number, which ends with interaction `last`, lacks what a segment of that
    number or a later one has. Such a segment is no left-over: it must not be written over."""
    if above(history, number):
        return True
    if not os.path.lexists(path_of(history, number)):
        return False
    segment = HistorySegment(history, number)
    with suppress(Damaged, Refused, StorageError):
        for _ in segment:
            pass
    return segment.position is not None and segment.position.sequence > last


def forget(history: Path, number: int) -> None:
    """Removes a segment whose bytes the live file still has; one that can't be removed is in nobody's way."""
    with suppress(OSError):
        os.unlink(path_of(history, number))


def before(history: Path, live: Header, since: Position | None = None) -> Iterator[JsonObject]:
    """The entries of all segments below the live file, in order, each verified; one is in memory at a time.

    With `since` only those after it. Raises Damaged, with its name, at the first segment that is missing, is not
    whole, or does not go on where the one before it ends; and where no segment holds `since`.
    """
    number = 1 if since is None else _holding(history, live, since.sequence)
    end = Position(0, None, 0) if number == 1 else None
    met = since is None
    while number < live.segment:
        segment = HistorySegment(history, number, end)
        for entry in segment:
            if met:
                yield entry
            elif since is not None and entry["sequence"] == since.sequence:
                met = segment.position == since
        end, number = segment.position, number + 1
    if not met and since is not None:
        message = f"interaction {since.sequence}, which state.json has seen, is not in its segment"
        raise Damaged(message, where=str(history), fix=restore(history))
    if end is not None and end[:2] != live.start()[:2]:
        raise detached(history, path_of(history, live.segment - 1), live.start(), end)


def has_own_header(history: Path, number: int) -> bool:
    """Whether a segment begins with the bytes that Logist writes. Raises Damaged where it is no file."""
    path = path_of(history, number)
    with files.regular(path, path.name, restore(path)) as file:
        return file.read(len(_HEADER)) == _HEADER


def holds(history: Path, live: Header, position: Position) -> bool:
    """Whether the entry is there in its segment. Raises Damaged for a segment that does not read so far."""
    segment = HistorySegment(history, _holding(history, live, position.sequence))
    return any(segment.position == position for _ in segment)


def detached(later: Path, earlier: Path, start: Position, end: Position) -> Damaged:
    """A file of the history does not go on where the one before it ends."""
    message = f"{later.name} goes on from interaction {start.sequence}, and {earlier.name} ends with "
    message += "another one of that number" if start.sequence == end.sequence else str(end.sequence)
    return Damaged(message, where=str(later), fix=restore(later, f"{earlier.name} and {later.name}"))


def _holding(history: Path, live: Header, sequence: int) -> int:
    """The number of the segment that has an interaction."""
    number = live.segment - 1
    while number > 1 and HistorySegment(history, number).header().first_sequence > sequence:
        number -= 1
    return number


class HistorySegment:
    """The entries of one segment, in order, each verified; afterwards, where they end.

    Raises Damaged, with the name of the file, at the first that does not verify: nothing can be torn here, for a
    segment is there whole or not at all.
    """

    def __init__(self, history: Path, number: int, after: Position | None = None) -> None:
        """`after`: the entry it must go on from, if that is known."""
        self.path = path_of(history, number)
        self._before = path_of(history, number - 1)
        self.number = number
        self.position: Position | None = after
        """The last good entry, its offset within what is compressed."""
        self.first = 0
        """The number of its first entry; 0 if its first line does not read."""

    def header(self) -> Header:
        """What its first line says."""
        with self._opened() as file:
            return self._header(file)

    def __iter__(self) -> Iterator[JsonObject]:
        with self._opened() as file:
            header = self._header(file)
            self.first = header.first_sequence
            at, begin = header.size, header.start()
            if self.position is not None and self.position[:2] != begin[:2]:
                raise detached(self.path, self._before, begin, self.position)
            self.position = begin
            while entry := read_entry(line := self._line(file), self.position, header.first_sequence):
                self.position = Position(entry["sequence"], entry["checksum"], at)
                at += len(line)
                yield entry
            if line != CLOSING or self._line(file) or self.position is begin:
                raise self._damaged(f"interaction {self.position.sequence + 1} does not verify")

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        fix = restore(self.path)
        with files.regular(self.path, self.path.name, fix) as file, inflated(file) as text:
            yield text

    def _header(self, file: BinaryIO) -> Header:
        try:
            with self._readable():
                header = read_header(file, self.path)
        except Damaged as error:
            raise self._damaged("its first line is damaged") from error
        except Refused as error:
            raise Refused(f"{self.path.name}: {error.message}", where=error.where, fix=error.fix) from error
        if header.segment != self.number:
            raise self._damaged(f"it is segment {header.segment}, and not {self.number}")
        return header

    def _line(self, file: BinaryIO) -> bytes:
        with self._readable():
            return file.readline(LONGEST)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (zlib.error, EOFError) as error:
            number = self.position.sequence + 1 if self.position else 1
            raise self._damaged(f"it can't be unpacked from interaction {number} on ({error})") from error

    def _damaged(self, what: str) -> Damaged:
        return Damaged(f"{self.path.name}: {what}", where=str(self.path), fix=restore(self.path))


def inflated(file: BinaryIO) -> io.BufferedReader:
    """What a segment holds; a block is in memory at a time.

    Reading raises zlib.error or EOFError for what is not exactly one whole gzip member.
    """
    return io.BufferedReader(_Inflated(file), _BLOCK)


class _Inflated(io.RawIOBase):
    """The bytes of one gzip member, as many at a time as are asked for: a small file may hold no end of them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._member = file, zlib.decompressobj(_GZIP)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fills the buffer as far as it goes; 0 at the end."""
        view = memoryview(buffer)
        while not self._member.eof:
            data = self._member.unconsumed_tail or self._file.read(_CHUNK)
            out = self._member.decompress(data, len(view))
            if out:
                view[: len(out)] = out
                return len(out)
            if not data:
                raise EOFError("it is cut off")
        if self._member.unused_data or self._file.read(1):
            raise EOFError("something follows its end")
        return 0


def _compressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes give the same file, whenever and wherever."""
    press, checksum, size = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW), 0, 0
    yield _HEADER
    for chunk in chunks:
        checksum, size = zlib.crc32(chunk, checksum), size + len(chunk)
        yield press.compress(chunk)
    yield press.flush()
    yield struct.pack("<II", checksum, size & 0xFFFFFFFF)
