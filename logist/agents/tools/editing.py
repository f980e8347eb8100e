"""edit_file: replaces an exact piece of a text file; line endings, byte order mark and mode are kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from logist.agents.tools import paths, text, writing
from logist.agents.tools.context import Arguments, Context, ToolError
from logist.core.permissions.tools import MAX_EDITED_BYTES
from logist.core.secrets.redact import REDACTED
from logist.workspace.files import safe_open

MAX_LINE = 160
MAX_PLACES = 5
MAX_COMPARED = 50_000
"""Maximum lines that are compared to find the most similar one."""
MAX_WORDS = 64

_WORD = re.compile(r"\w+|[^\w\s]")


def edit_file(arguments: Arguments, context: Context) -> tuple[str, int]:
    """Replace `old` by `new`.

    Raises ToolError with the number of occurrences if `old` does not occur exactly once.
    """
    path, everywhere = arguments["path"], arguments.get("replace_all", False)
    old, new = arguments["old"], arguments["new"]
    writing.encode_content(old)
    writing.encode_content(new)
    if not old:
        raise ToolError("`old` is empty; it must be the text to replace")
    if old == new:
        raise ToolError("`old` and `new` are the same; nothing to change")
    content = _read_content(context, path)
    if REDACTED in new and REDACTED not in content:
        writing.require_no_stand_in(context, content)
    old, new = _match_line_ends(content, old, new)
    count = content.count(old)
    if not count:
        raise ToolError(_describe_not_found(context, path, content, old))
    if count > 1 and not everywhere:
        raise ToolError(_describe_not_unique(path, content, old, count))
    _write_edited(context, path, content, (old, new, count))
    times = (
        f"{count:,} times" if count > 1 else f"in line {content.count(chr(10), 0, content.find(old)) + 1:,}"
    )
    return f"edited {text.format_path(path)}: replaced {times}", 0


def _read_content(context: Context, path: str) -> str:
    with paths.open_tool_file(context, path) as descriptor:
        file_status = os.fstat(descriptor)
        writing.require_writable(file_status, path)
        if file_status.st_size > MAX_EDITED_BYTES:
            raise ToolError(
                f"{text.format_path(path)} has {file_status.st_size:,} bytes; the limit is {MAX_EDITED_BYTES:,}"
            )
        data = b"".join(safe_open.read_exactly(descriptor, file_status.st_size))
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{text.format_path(path)} is not UTF-8 text, so it can't be edited") from None


def _match_line_ends(held: str, old: str, new: str) -> tuple[str, str]:
    """Convert the line endings of both to those of the file. If the file mixes them, `old` is first tried unchanged."""
    crlf = held.count("\r\n")
    if not crlf or (crlf < held.count("\n") and (old in held or "\n" not in old)):
        return old, new
    return _to_crlf(old), _to_crlf(new)


def _to_crlf(piece: str) -> str:
    return piece.replace("\r\n", "\n").replace("\n", "\r\n")


def _write_edited(context: Context, path: str, held: str, change: tuple[str, str, int]) -> None:
    old, new, count = change
    size = len(held.encode()) + count * (len(new.encode()) - len(old.encode()))
    if size > MAX_EDITED_BYTES:
        raise ToolError(f"the file would have {size:,} bytes; the limit is {MAX_EDITED_BYTES:,}")
    data = held.replace(old, new).encode()
    with paths.open_parent(context, path) as (directory, name):
        file_status = paths.read_status(directory, name)
        if file_status is None:
            raise ToolError(f"{text.format_path(path)} no longer exists")
        writing.require_writable(file_status, path)
        writing.write_atomically(directory, name, data, file_status)


def _describe_not_unique(path: str, held: str, old: str, count: int) -> str:
    places = ", ".join(
        f"{number:,}" for number, _ in zip(_find_lines(held, old), range(MAX_PLACES), strict=False)
    )
    more = ", ..." if count > MAX_PLACES else ""
    return (
        f"`old` occurs {count:,} times in {text.format_path(path)} (lines {places}{more}), but must occur once; "
        "include more of the text around it, or set replace_all"
    )


def _find_lines(held: str, old: str) -> Iterator[int]:
    """Yield the numbers of the lines in which `old` begins."""
    number, seen, place = 1, 0, held.find(old)
    while place >= 0:
        number += held.count("\n", seen, place)
        seen = place
        yield number
        place = held.find(old, place + len(old))


def _describe_not_found(context: Context, path: str, held: str, old: str) -> str:
    message = f"`old` not found in {text.format_path(path)}; it must match exactly, including spaces"
    if REDACTED in old:
        message += f" ({REDACTED} replaces a secret that you can't see)"
    nearest = _find_nearest_line(held, old)
    if nearest is None:
        return message
    number, line = nearest
    return (
        f"{message}. The most similar line is {number:,}: {text.format_line(context.redact, line, MAX_LINE)}"
    )


def _find_nearest_line(held: str, old: str) -> tuple[int, str] | None:
    """Return the line that shares most words with the first line of `old` that is not blank."""
    wanted = next((_split_words(line) for line in old.splitlines() if line.strip()), set())
    best, score = None, 0.0
    for number, line in zip(range(1, MAX_COMPARED), held.split("\n"), strict=False):
        words = _split_words(line)
        shared = len(words & wanted) / (len(words | wanted) or 1)
        if shared > score:
            best, score = (number, line), shared
    return best


def _split_words(line: str) -> set[str]:
    """Return the first words of a line, a limited number of them."""
    return {found.group() for found, _ in zip(_WORD.finditer(line[:4096]), range(MAX_WORDS), strict=False)}
