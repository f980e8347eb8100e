"""Splits a stream of bytes into server-sent events."""

from __future__ import annotations

import re
from collections.abc import Iterator

from logist.quick_tuple import NamedTuple

_LINE_COST = 64
"""Bytes that each line of an event counts for in addition to its text: its overhead in memory."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
"""The end of a line, and an empty line. The second end may be the first half of a CRLF of which the rest arrives later: then
that is an empty line before the next event."""
_LONGEST_END = 4


class StreamEvent(NamedTuple):
    """One event."""

    raw: bytes
    """Its bytes, with the empty line after it; the bytes of all events are the stream."""
    data: str
    """Its data, decoded; "" for a comment and other events without data."""


class EventSplitter:
    """Splits a stream that arrives in pieces; keeps only the event that is not complete yet."""

    def __init__(self, most: int) -> None:
        """`most`: the bytes of the longest event; raises OverflowError for longer ones."""
        self._most = most
        self._rest = bytearray()
        self._is_first = True

    def feed(self, piece: bytes) -> Iterator[StreamEvent]:
        """Yield the events that are complete with this piece."""
        searched = max(0, len(self._rest) - _LONGEST_END)
        self._rest += piece
        ends = [match.end() for match in _EVENT_END.finditer(self._rest, searched)]
        begin = 0
        for end in ends:
            yield self._build_event(bytes(self._rest[begin:end]))
            begin = end
        del self._rest[:begin]
        self._check_size(len(self._rest))

    def finish(self) -> Iterator[StreamEvent]:
        """Yield the last event, if the stream ended without the empty line after it."""
        if self._rest:
            raw = bytes(self._rest)
            self._rest.clear()
            yield self._build_event(raw)

    def _build_event(self, raw: bytes) -> StreamEvent:
        # Many short lines take far more memory than their bytes.
        self._check_size(len(raw) + _LINE_COST * raw.count(b"data:"))
        text = raw.removeprefix(_BYTE_ORDER_MARK) if self._is_first else raw
        self._is_first = False
        lines = [line[5:] for line in text.splitlines() if line.startswith(b"data:")]
        data = "\n".join(line.decode("utf-8", "replace").removeprefix(" ") for line in lines)
        return StreamEvent(raw, data.strip("\n"))

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise OverflowError(f"an event is longer than {self._most:,} bytes")
