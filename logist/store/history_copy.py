"""Copies the entries of one history to the beginning of another: byte for byte, or in a new chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from logist.core.text.json_object import JsonObject
from logist.errors import Damaged
from logist.store import files, history, segments
from logist.store.entries import CLOSING, Position, format_header, read_header, seal_entry


def copy_history(path: Path, entries: Iterable[JsonObject]) -> Position:
    """Make `path` a history of these entries, unchanged from another history, and return its end.

    Their numbers, links and checksums stay, so the chain can continue from them. One entry is in memory at a
    time; the file appears complete and durable, or not at all. Raises Damaged for an entry whose checksum
    does not match.
    """
    return _write_entries(path, entries, _require_same_checksum)


def rechain_history(
    path: Path, entries: Iterable[JsonObject], each: Callable[[JsonObject], None]
) -> Position:
    """Like copy_history, but with a new chain: numbers from 1, new links and checksums.

    `each` is called with every completed entry.
    """

    def report_complete(given: JsonObject, complete: JsonObject) -> None:
        each(complete)

    return _write_entries(path, entries, report_complete)


def rewrite_history(
    old: Path, new: Path, change: Callable[[JsonObject], JsonObject], look: Callable[[JsonObject], None]
) -> Position:
    """Make `new` a history of the changed entries of `old`, in a new chain, and return its end.

    Numbers and segments stay the same. One entry is in memory at a time; `look` is called with every completed one.
    The caller holds the lock of the old one. Raises Damaged at the first bad entry.
    """

    def look_at_complete(given: JsonObject, complete: JsonObject) -> None:
        look(complete)

    with history.open_history(old) as file:
        header = read_header(file, old)
        end = Position(0, None, 0)
        for number in range(1, header.segment):
            writer = _EntryWriter(end, number)
            older = segments.HistorySegment(old, number)
            segments.write_segment(new, number, writer.write(map(change, older), look_at_complete))
            end = writer.end
        file.seek(0)
        writer = _EntryWriter(end, header.segment)
        entries = map(change, history.scan_history(file, old))
        files.replace_chunks(new, writer.write(entries, look_at_complete))
        return writer.end


class _EntryWriter:
    """Writes one file of a history in a new chain."""

    def __init__(self, after: Position, segment: int) -> None:
        self._header = format_header(segment, after.sequence + 1, after.hash)
        self.end = after._replace(offset=len(self._header))

    def write(
        self, entries: Iterable[JsonObject], look: Callable[[JsonObject, JsonObject], None]
    ) -> Iterator[bytes]:
        """Yield the file in pieces; `end` is the last entry then. `look` gets each entry, and the same completed."""
        yield self._header
        offset, first = len(self._header), self.end.sequence + 1
        for entry in entries:
            complete, line = seal_entry(entry, self.end.sequence + 1, self.end.hash)
            look(entry, complete)
            text = b"%b%b\n" % (b"," if complete["sequence"] != first else b"", line)
            self.end = Position(complete["sequence"], complete["checksum"], offset)
            offset += len(text)
            yield text
        yield CLOSING


def _require_same_checksum(given: JsonObject, complete: JsonObject) -> None:
    if complete["checksum"] != given.get("checksum"):
        raise Damaged(f"checksum mismatch in interaction {complete['sequence']}")


def _write_entries(
    path: Path, entries: Iterable[JsonObject], look: Callable[[JsonObject, JsonObject], None]
) -> Position:
    writer = _EntryWriter(Position(0, None, 0), 1)
    files.replace_chunks(path, writer.write(entries, look))
    return writer.end
