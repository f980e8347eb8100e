"""read_file: a window of a text file of any size; only the window is kept in memory."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator

from logist.agents.tools import paths, text
from logist.agents.tools.context import Arguments, Context, ToolError
from logist.core.text.counts import format_count
from logist.quick_tuple import NamedTuple

CHUNK = 1 << 20
COUNTED_BYTES = 64 << 20
"""The lines of larger files are not counted."""
SNIFFED_BYTES = 8192
BOM = "\ufeff"
LARGEST_CHARACTER = 4
"""Maximum bytes of a character in UTF-8."""

_CONTINUATION = bytes(range(0x80, 0xC0))


class Window(NamedTuple):
    """A piece of a file: where it begins and ends, in bytes, and its text."""

    start: int
    end: int
    text: str
    after: str
    """Some text after the window, for the redaction."""


def read_file(arguments: Arguments, context: Context) -> tuple[str, int]:
    """Return the requested lines, after a first line that describes them; and the number of redactions."""
    path, first = arguments["path"], arguments.get("offset", 1)
    with paths.open_tool_file(context, path) as descriptor:
        size = os.fstat(descriptor).st_size
        display_path = text.format_path(path)
        if size == 0:
            return f"[{display_path}: an empty file]", 0
        if is_binary(descriptor):
            return f"[{display_path}: a binary file of {format_count(size, 'byte')}, not shown]", 0
        start = _find_line(descriptor, first, context, display_path)
        column = arguments.get("column", 1)
        start = _find_column(descriptor, start, column, context, first)
        window = _read_window(descriptor, start, context.room, arguments.get("limit"))
        before = _read_bytes(descriptor, max(0, start - text.CONTEXT), min(start, text.CONTEXT))
        lines = _count_lines(descriptor, size, context)
    body, redactions = text.redact_between(
        context.redact, text.decode_text(before), window.text, window.after
    )
    return _describe_window(display_path, window, body, (first, column, lines, size)), redactions


def is_binary(descriptor: int) -> bool:
    """Whether the file is binary, as git and grep decide it: a NUL near the beginning."""
    return b"\0" in os.pread(descriptor, SNIFFED_BYTES, 0)


def iter_chunks(descriptor: int, start: int, context: Context) -> Iterator[tuple[int, bytes]]:
    """Yield the file from `start`, with the offset of each piece. Raises ToolError when the time is up."""
    while data := os.pread(descriptor, CHUNK, start):
        context.require_time_left()
        yield start, data
        start += len(data)


def _find_line(descriptor: int, number: int, context: Context, shown: str) -> int:
    """Return the offset where a line begins."""
    ahead = number - 1
    if not ahead:
        return 0
    end = 0
    for place, data in iter_chunks(descriptor, 0, context):
        breaks = data.count(b"\n")
        if breaks >= ahead:
            start = place + len(data) - len(data.split(b"\n", ahead)[-1])
            if os.pread(descriptor, 1, start):
                return start
        ahead -= min(breaks, ahead)
        end = place + len(data)
    last = number - ahead - (os.pread(descriptor, 1, end - 1) == b"\n")
    raise ToolError(f"{shown} has only {format_count(last, 'line')}; line {number:,} not found")


def _find_column(descriptor: int, start: int, column: int, context: Context, line: int) -> int:
    """Return the offset of a character of the line that begins at `start`."""
    ahead = column - 1
    if not ahead:
        return start
    for place, data in iter_chunks(descriptor, start, context):
        piece = data.partition(b"\n")[0]
        if _count_characters(piece) > ahead:
            return place + bisect_left(
                range(len(piece)), ahead + 1, key=lambda index: _count_characters(piece[: index + 1])
            )
        ahead -= _count_characters(piece)
        if len(piece) < len(data):
            break
    raise ToolError(f"line {line:,} has only {column - 1 - ahead:,} characters")


def _count_characters(data: bytes) -> int:
    return len(data.translate(None, _CONTINUATION))


def _read_window(descriptor: int, start: int, room: int, limit: int | None) -> Window:
    content = text.decode_text(_read_bytes(descriptor, start, (room + text.CONTEXT) * LARGEST_CHARACTER))
    end = min(room, len(content))
    lines = _find_line_ends(content, end, limit)
    if limit is not None and len(lines) >= limit:
        end = lines[limit - 1]
    elif end < len(content) and lines:
        end = lines[-1]  # complete lines, if at least one fits
    visible = content[:end]
    size = len(visible.encode("utf-8", "surrogateescape"))
    return Window(start, start + size, visible, content[end : end + text.CONTEXT])


def _find_line_ends(whole: str, end: int, limit: int | None) -> list[int]:
    ends: list[int] = []
    place = whole.find("\n", 0, end)
    while place >= 0 and (limit is None or len(ends) < limit):
        ends.append(place + 1)
        place = whole.find("\n", place + 1, end)
    return ends


def _read_bytes(descriptor: int, start: int, size: int) -> bytes:
    """Read `size` bytes; fewer only at the end of the file."""
    pieces = []
    while size > 0 and (data := os.pread(descriptor, min(size, CHUNK), start)):
        pieces.append(data)
        start, size = start + len(data), size - len(data)
    return b"".join(pieces)


def _count_lines(descriptor: int, size: int, context: Context) -> int | None:
    """Return how many lines the file has; None if it is too large to count them."""
    if size > COUNTED_BYTES:
        return None
    last = b"\n"
    count = 0
    for _, data in iter_chunks(descriptor, 0, context):
        count += data.count(b"\n")
        last = data[-1:]
    return count + (last != b"\n")


def _describe_window(shown: str, window: Window, body: str, place: tuple[int, int, int | None, int]) -> str:
    first, column, lines, size = place
    count = window.text.count("\n")
    ends_line = window.text.endswith("\n")
    last = first + count - (1 if ends_line else 0)
    notes = [
        f"{shown}: lines {first:,}-{last:,} of {lines:,}" if lines else f"{shown}: lines {first:,}-{last:,}"
    ]
    if not lines:
        notes.append(f"{format_count(size, 'byte')} in total")
    if column > 1:
        notes.append(f"from character {column:,} of line {first:,}")
    if count and window.text.count("\r\n") == count:
        body = body.replace("\r\n", "\n")
        notes.append("CRLF line endings")
    if window.start == 0 and body.startswith(BOM):
        body = body.removeprefix(BOM)
        notes.append("with a byte order mark")
    if window.text.isascii() is False and any("\udc80" <= c <= "\udcff" for c in window.text):
        notes.append("not UTF-8: other bytes are shown as \\udcNN")
    if window.end >= size and not ends_line:
        notes.append("no newline at the end")
    tail = _describe_rest(window, size, first, column) if window.end < size else ""
    return f"[{'; '.join(notes)}]\n{body}{tail}"


def _describe_rest(window: Window, size: int, first: int, column: int) -> str:
    count = window.text.count("\n")
    if window.text.endswith("\n"):
        return f"[... {size - window.end:,} more bytes; continue with offset={first + count}]"
    rest = len(window.text.rpartition("\n")[2])
    at = rest + 1 if count else column + rest
    more = f"{size - window.end:,} more bytes, the line continues"
    return f"\n[... {more}; continue with offset={first + count}, column={at}]"
