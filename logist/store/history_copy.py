"""The entries of one history as the beginning of another: byte for byte, or in a chain of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from logist.core.text.json_object import JsonObject
from logist.errors import Damaged
from logist.store import files
from logist.store.entries import CLOSING, Position, header_line, seal


def begin(path: Path, entries: Iterable[JsonObject]) -> Position:
    """Makes `path` the history that holds `entries`, as another history has them, and returns its end.

    Their numbers, links and checksums stay: the chain goes on from them. One entry is in memory at a
    time; whole and durable, or not there. Raises Damaged for one whose checksum is not that of its bytes.
    """
    return _written(path, entries, _same)


def chained(path: Path, entries: Iterable[JsonObject], each: Callable[[JsonObject], None]) -> Position:
    """The same with numbers from 1, links and checksums of their own; `each` is told every entry as it stands."""

    def tell(given: JsonObject, complete: JsonObject) -> None:
        each(complete)

    return _written(path, entries, tell)


def _same(given: JsonObject, complete: JsonObject) -> None:
    if complete["checksum"] != given.get("checksum"):
        raise Damaged(f"interaction {complete['sequence']} is not as its checksum says")


def _written(
    path: Path, entries: Iterable[JsonObject], look: Callable[[JsonObject, JsonObject], None]
) -> Position:
    header = header_line()
    end = Position(0, None, len(header))

    def lines() -> Iterator[bytes]:
        nonlocal end
        yield header
        offset = len(header)
        for entry in entries:
            complete, line = seal(entry, end.sequence + 1, end.hash)
            look(entry, complete)
            text = b"%b%b\n" % (b"," if end.sequence else b"", line)
            end = Position(complete["sequence"], complete["checksum"], offset)
            offset += len(text)
            yield text
        yield CLOSING

    files.replace_chunks(path, lines())
    return end
