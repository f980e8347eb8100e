"""jobHistory.json on disk: reading from a position, durable appends, recovery of a torn end."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from logist import store  # `store.segments` is loaded on first use: most histories have one file
from logist.core.text.json_object import JsonObject
from logist.errors import Damaged, Refused, StorageError
from logist.quick_tuple import NamedTuple
from logist.store import files
from logist.store.entries import (
    CLOSING,
    LONGEST,
    MOST_TORN,
    Header,
    Position,
    describe_excess,
    extract_sealed_bytes,
    format_header,
    is_complete_entry,
    read_closing,
    read_entry,
    read_header,
    read_lines,
    seal_entry,
    seek_afresh,
    suggest_restore,
    verify_line,
)

NEVER = 0
"""As `rotate_at`: keep the history in one file, however long it is."""
REPLACE_BELOW = 4_000_000
"""Bytes below which the whole file is replaced, so that readers without a lock always see valid JSON."""

_CHUNK = 1 << 20


class Appended(NamedTuple):
    """The result of an append: the completed entries, where each line begins, and the new end."""

    entries: list[JsonObject]
    offsets: list[int]
    position: Position


class ProblemKind(StrEnum):
    """What a problem is about, as far as the repair depends on it."""

    HISTORY = "history"
    STATE_FILE = "state_file"
    """state.json is missing or invalid, was changed, or belongs to another history."""
    STATE_FIELD = "state_field"
    """A field of a valid state.json differs from the full history."""
    WORKSPACE = "workspace"
    """The workspace is missing."""


class HistoryProblem(NamedTuple):
    """One thing in a history, or in the files that belong to it, that does not verify."""

    message: str
    sequence: int | None = None
    offset: int | None = None
    kind: ProblemKind = ProblemKind.HISTORY

    @property
    def is_about_state(self) -> bool:
        """True if state.json does not verify, or differs from the history."""
        return self.kind in (ProblemKind.STATE_FILE, ProblemKind.STATE_FIELD)


def create_history(path: Path) -> None:
    """Create an empty history, durably."""
    files.replace_file(path, format_header() + CLOSING)


def open_history(path: Path) -> AbstractContextManager[BinaryIO]:
    """Open the live file of a history for reading. Raises Damaged if it is missing."""
    return files.open_required_file(path, "the history", lambda: suggest_restore(path))


def read_all_entries(path: Path) -> Iterator[JsonObject]:
    """Yield every entry from the first one on, one in memory at a time. Raises Damaged at the first bad one.

    The live file is opened first: even if it is rotated meanwhile, it and the segments below it are one
    history.
    """
    with open_history(path) as file:
        header = read_header(file, path)
        if header.segment > 1:
            yield from store.segments.read_older_entries(path, header)
        file.seek(0)
        yield from scan_history(file, path)


def read_entries_after(path: Path, head: Position | None) -> tuple[list[JsonObject], Position, bytes]:
    """Read what follows `head`, which is verified again; return the entries, the last position and the torn
    tail.

    From the start if `head` is None. Only the live file is read, unless `head` is older than that.
    """
    with open_history(path) as file:
        header = read_header(file, path)
        # state.json may be older than the last rotation; then the entries after its head are in segments.
        older = head is not None and head.sequence < header.first_sequence - 1
        entries: list[JsonObject] = []
        if older or head is None:
            if older or header.segment > 1:
                entries = list(store.segments.read_older_entries(path, header, head))
            head = None
        file.seek(0)
        history_scan = scan_history(file, path, head)
        entries += history_scan
        return entries, history_scan.position, history_scan.read_torn_tail()


def has_entry(path: Path, head: Position) -> bool:
    """True if the entry is at its position. Raises Damaged, Refused for a history that can't be read."""
    with open_history(path) as file:
        header = read_header(file, path)
        if head.sequence >= header.first_sequence - 1:
            return find_entry_end(file, header, head) is not None
        return store.segments.is_in_segment(path, header, head)


def find_entry_end(file: BinaryIO, header: Header, position: Position) -> int | None:
    """The offset after the entry at `position`, which is read and verified again; None if it is not there."""
    sequence, digest, offset = position
    if sequence < header.first_sequence:
        file.seek(header.size)
        return header.size if (sequence, digest) == header.start_position()[:2] else None
    if not header.size <= offset < file.seek(0, os.SEEK_END):
        return None
    file.seek(offset - 1)
    # The byte before must end a line. Otherwise an offset into the middle of an entry could point to text
    # that an agent wrote to look like an entry.
    boundary, line = file.read(1), file.readline(LONGEST)
    good = boundary == b"\n" and verify_line(
        extract_sealed_bytes(line, sequence, header.first_sequence) or b""
    )
    return offset + len(line) if good and good == digest else None


class HistoryScan:
    """The entries after `begin`, in order, each verified; afterwards, where they end and what follows.

    What follows the last good entry is a torn tail: an append that was interrupted and never acknowledged. If it
    contains a complete entry, or is longer than an append, the middle of the file is damaged instead: Damaged
    is raised. It is read a line at a time, and not kept.
    """

    def __init__(self, file: BinaryIO, path: Path, header: Header, begin: Position, end: int) -> None:
        self.position = begin
        """The last good entry."""
        self.end = end
        """The offset of the next entry."""
        self.closing: bytes | None = None
        """The bytes from `end` on, if they are the closing, complete or in part."""
        self._file, self._path, self._first = file, path, header.first_sequence
        file.seek(end)

    def __iter__(self) -> Iterator[JsonObject]:
        size = -1
        # Without the lock, a reader may see an unfinished append; if the file has grown since, it reads on.
        while size != (size := os.fstat(self._file.fileno()).st_size):
            seek_afresh(self._file, self.end)
            yield from self._read_entries()
            self.closing = read_closing(self._file, self.end)
            if self.closing is not None:
                return
            damage = self._describe_damage()
        if damage:
            what = f"interaction {self.position.sequence + 1} (byte {self.end})"
            raise Damaged(
                f"{what} failed verification: {damage}",
                where=str(self._path),
                fix=suggest_restore(self._path),
            )

    def read_torn_tail(self) -> bytes:
        """Read the torn tail, empty if there is none; the file must be open."""
        if self.closing is not None:
            return b""
        seek_afresh(self._file, self.end)
        return self._file.read(MOST_TORN)

    def _read_entries(self) -> Iterator[JsonObject]:
        line = self._file.readline(LONGEST)
        while entry := read_entry(line, self.position, self._first):
            self.position = Position(entry["sequence"], entry["checksum"], self.end)
            self.end += len(line)
            yield entry
            line = self._file.readline(LONGEST)

    def _describe_damage(self) -> str | None:
        """Why the rest can't be an interrupted append; None if it can be."""
        # Check the size first: a file that was put here by hand may have gigabytes.
        if excess := describe_excess(os.fstat(self._file.fileno()).st_size - self.end):
            return excess
        seek_afresh(self._file, self.end)
        for number, line in enumerate(read_lines(self._file)):
            if is_complete_entry(line, next_one=number == 0):
                return "a complete interaction follows it"
        return None


def scan_history(file: BinaryIO, path: Path, begin: Position | None = None) -> HistoryScan:
    """A HistoryScan of what follows `begin` (None: of the whole file).
    Raises Damaged if `begin` is not in the file.
    """
    header = read_header(file, path)
    if begin is None or begin[:2] == header.start_position()[:2]:
        begin = header.start_position()
    end = find_entry_end(file, header, begin)
    if end is None:
        message = (
            f"interaction {begin.sequence}, the last one in state.json, not found at byte {begin.offset}"
        )
        raise Damaged(message, where=str(path), fix=suggest_restore(path))
    return HistoryScan(file, path, header, begin, end)


def append_entries(
    path: Path,
    expected: Position,
    entries: list[JsonObject],
    *,
    torn: bytes,
    logs: Path,
    replace_below: int = REPLACE_BELOW,
    rotate_at: int = NEVER,
    on_written: Callable[[], None] = lambda: None,
) -> Appended:
    """Write all entries after `expected` as one durable append.

    A file that has `rotate_at` bytes is closed first, and the entries begin a new one (see _rotate_history).
    The new bytes are written over the closing bytes, or, below `replace_below` bytes, the whole file is
    replaced by a rename, so that readers without a lock always see valid JSON.

    Raises Refused if the history does not end at `expected`, followed by nothing or by `torn`. A torn tail is
    copied to `logs` first. Raises StorageError when the disk does not take it: then the old end is still in
    place. `on_written` is called before an append in place is flushed.
    """
    files.require_trust(path)
    with open_history(path) as file:
        first = read_header(file, path).first_sequence
        end, tail, lead = _confirm_end(file, path, expected, torn)
        _save_torn_tail(logs, expected.sequence + 1, tail.read_torn_tail())
        if rotate_at and end >= rotate_at and entries and expected.sequence >= first:
            rotated = _rotate_history(file, path, expected, entries, end, lead)
            if rotated:
                return rotated
        block, appended = _seal_block(entries, expected, end + len(lead), first)
        # In place only one entry at a time: of several, a later one could reach the disk without
        # an earlier one when the power fails, and would then look like damage in the middle.
        if end + len(block) < replace_below or len(entries) != 1:
            file.seek(0)
            files.replace_chunks(path, itertools.chain(_read_chunks(file, end), (lead, block)))
        else:
            _write_in_place(path, end, lead, block, whole=tail.closing == CLOSING, on_written=on_written)
    return appended


def _rotate_history(
    file: BinaryIO, path: Path, expected: Position, entries: list[JsonObject], end: int, lead: bytes
) -> Appended | None:
    """Close the file as a segment and begin the next one with the entries; None if the file must stay as it is.

    First the segment is made durable and read again; then one rename puts the new file, entries included, in
    the place of the old one. Until then the old file is the history, and nothing reads the segment.
    A file that can't be closed, because the disk is full or because it does not verify, is left alone: a
    plain append may still succeed.
    """
    file.seek(0)
    number = read_header(file, path).segment
    if store.segments.has_later_entries(path, number, expected.sequence):
        return None
    header = format_header(number + 1, expected.sequence + 1, expected.hash)
    block, appended = _seal_block(entries, expected, len(header), expected.sequence + 1)
    try:
        file.seek(0)
        store.segments.write_segment(path, number, itertools.chain(_read_chunks(file, end), (lead, CLOSING)))
        _require_end(store.segments.HistorySegment(path, number), expected)
        files.replace_file(path, header + block)
    except (Damaged, StorageError):
        files.require_trust(path)
        store.segments.remove_segment(path, number)
        return None
    return appended


def _require_end(segment: store.segments.HistorySegment, expected: Position) -> None:
    for _ in segment:
        pass
    if segment.position is None or segment.position[:2] != expected[:2]:
        raise Damaged("the new segment differs from the history", where=str(segment.path))


def _confirm_end(
    file: BinaryIO, path: Path, expected: Position, torn: bytes
) -> tuple[int, HistoryScan, bytes]:
    """The offset where the append begins, a scan of what is there now, and the newline to add if a cut
    removed it.

    Raises Refused if the history is not as it was when `expected` and `torn` were read.
    """
    file.seek(0)
    header = read_header(file, path)
    end = find_entry_end(file, header, expected)
    tail = HistoryScan(file, path, header, expected, end or 0)
    if end is None or next(iter(tail), None) is not None or (torn and torn != tail.read_torn_tail()):
        message = f"the history has changed since interaction {expected.sequence} was read"
        raise Refused(message, where=str(path), fix="run the command again")
    file.seek(end - 1)
    return end, tail, b"" if file.read(1) == b"\n" else b"\n"


def _save_torn_tail(logs: Path, sequence: int, torn: bytes) -> None:
    """Copy a torn tail to logs/torn-<sequence>.txt; a tail saved earlier is never overwritten."""
    if not torn:
        return
    files.ensure_directory(logs)
    name, number = f"torn-{sequence}.txt", 1
    while (saved := files.read_bytes(logs / name, MOST_TORN)) not in (None, torn):
        number += 1
        name = f"torn-{sequence}-{number}.txt"
    if saved is None:
        files.replace_file(logs / name, torn)


def _seal_block(
    entries: list[JsonObject], after: Position, offset: int, first_sequence: int
) -> tuple[bytes, Appended]:
    """Seal the entries into the bytes from `offset` on, closing included, and describe what they hold."""
    lines, completed, offsets = [], [], []
    for entry in entries:
        complete, line = seal_entry(entry, after.sequence + 1, after.hash)
        comma = b"" if complete["sequence"] == first_sequence else b","
        lines.append(b"%b%b\n" % (comma, line))
        completed.append(complete)
        offsets.append(offset)
        after = Position(complete["sequence"], complete["checksum"], offset)
        offset += len(lines[-1])
    return b"".join(lines) + CLOSING, Appended(completed, offsets, after)


def _read_chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size and (chunk := file.read(min(size, _CHUNK))):
        size -= len(chunk)
        yield chunk


def _write_in_place(
    path: Path, end: int, lead: bytes, block: bytes, *, whole: bool, on_written: Callable[[], None]
) -> None:
    """Write once over the closing bytes; `whole`: they are complete, and nothing follows them."""
    with files.convert_os_errors(path):
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not whole:
                os.ftruncate(fd, end)
            try:
                files.write_all(fd, lead + block, end)
            except OSError:
                _restore_closing(fd, path, end, lead + CLOSING)
                raise
            on_written()
            files.fsync(fd, path)
        finally:
            os.close(fd)


def _restore_closing(fd: int, path: Path, end: int, closing: bytes) -> None:
    """Write the old end again. The closing overwrites existing bytes, so a full disk has room for it.

    Errors are ignored: the file can be read without the closing too, and one error is being raised already.
    """
    with suppress(OSError):
        files.write_all(fd, closing, end)
        end += len(closing)
    with suppress(OSError):
        os.ftruncate(fd, end)
        files.fsync(fd, path)
