"""Copies the entries of one history to the beginning of another: byte for byte, or in a new chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from logist.core.text.json_object import JsonObject
from logist.errors import Damaged
from logist.store import files
from logist.store.entries import CLOSING, Position, format_header, seal_entry


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


def _require_same_checksum(given: JsonObject, complete: JsonObject) -> None:
    if complete["checksum"] != given.get("checksum"):
        raise Damaged(f"checksum mismatch in interaction {complete['sequence']}")


def _write_entries(
    path: Path, entries: Iterable[JsonObject], look: Callable[[JsonObject, JsonObject], None]
) -> Position:
    header = format_header()
    end = Position(0, None, len(header))

    def sealed_lines() -> Iterator[bytes]:
        nonlocal end
        yield header
        offset = len(header)
        for entry in entries:
            complete, line = seal_entry(entry, end.sequence + 1, end.hash)
            look(entry, complete)
            text = b"%b%b\n" % (b"," if end.sequence else b"", line)
            end = Position(complete["sequence"], complete["checksum"], offset)
            offset += len(text)
            yield text
        yield CLOSING

    files.replace_chunks(path, sealed_lines())
    return end
