"""Reads the patches that git writes: the files, and their hunks with numbered lines.

Only the positions of the files are kept; hunks are read when they are wanted, and no more lines than wanted. So a patch of many
megabytes needs little more memory than its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

LineSign = Literal[" ", "+", "-"]

_FILE = b"diff --git "
_HUNK = re.compile(rb"@@ -([0-9]+)(?:,[0-9]+)? \+([0-9]+)(?:,[0-9]+)? @@ ?(.*)", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))
_SIGNS: dict[bytes, LineSign] = {b" ": " ", b"+": "+", b"-": "-"}


class PatchLine(NamedTuple):
    """A line of a hunk, without its line break."""

    sign: LineSign
    old: int | None
    """Its number before; None if it was added."""
    new: int | None
    text: bytes
    has_line_break: bool = True
    """False if it is the end of a file that doesn't end with a line break."""


class Hunk(NamedTuple):
    """Lines that differ, with some around them."""

    old_start: int
    new_start: int
    section: bytes
    """The beginning of the function or section that it is in, as git finds it; may be empty."""
    lines: list[PatchLine]


@dataclass(frozen=True)
class FilePatch:
    """The part of a patch that is about one file."""

    path: bytes
    old_path: bytes | None
    """The path before, if it was renamed."""
    is_binary: bool
    """Then it has no lines."""
    _patch: bytes
    _start: int
    """Where its first hunk begins."""
    _end: int

    def count_lines(self) -> int:
        """Return how many lines its hunks have."""
        # Each line begins with its sign, and the line before the first one is the head of a hunk.
        return sum(self._patch.count(b"\n" + sign, self._start, self._end) for sign in _SIGNS)

    def read_hunks(self, most_lines: int) -> list[Hunk]:
        """Return the hunks, with at most so many lines."""
        hunks: list[Hunk] = []
        lines: list[PatchLine] = []
        old = new = count = 0
        for text in _iter_lines(self._patch, self._start, self._end):
            sign = _SIGNS.get(text[:1])
            if sign is None:
                if head := _HUNK.fullmatch(text):
                    lines, old, new = [], int(head[1]), int(head[2])
                    hunks.append(Hunk(old, new, head[3], lines))
                elif lines:  # "\ No newline at end of file"
                    lines[-1] = lines[-1]._replace(has_line_break=False)
                continue
            if count == most_lines:
                break
            count += 1
            lines.append(
                PatchLine(sign, old if sign != "+" else None, new if sign != "-" else None, text[1:])
            )
            old += sign != "+"
            new += sign != "-"
        return [hunk for hunk in hunks if hunk.lines]


def iter_file_patches(patch: bytes) -> Iterator[FilePatch]:
    """Yield the files of a patch that git wrote with the prefixes `a/` and `b/`. The patch may end in the middle."""
    start = 0 if patch.startswith(_FILE) else patch.find(b"\n" + _FILE) + 1
    while patch.startswith(_FILE, start):
        # No line of a hunk begins like this: each begins with its sign.
        following = patch.find(b"\n" + _FILE, start) + 1
        yield _read_file(patch, start, following or len(patch))
        start = following or len(patch)


def _read_file(patch: bytes, start: int, end: int) -> FilePatch:
    first_hunk = patch.find(b"\n@@ ", start, end) + 1 or end
    named, *more = _iter_lines(patch, start, first_hunk)
    path, old_path, is_binary = _read_common_name(named.removeprefix(_FILE)), None, False
    for line in more:
        if line.startswith(b"rename from "):
            old_path = _unquote(line.removeprefix(b"rename from "))
        elif line.startswith(b"rename to "):
            path = _unquote(line.removeprefix(b"rename to "))
        elif line.startswith((b"Binary files ", b"GIT binary patch")):
            is_binary = True
    return FilePatch(path, old_path, is_binary, patch, first_hunk, end)


def _read_common_name(names: bytes) -> bytes:
    """Return the name from `a/NAME b/NAME`; both are the same, unless the file was renamed."""
    return _unquote(names[: len(names) // 2]).removeprefix(b"a/")


def _unquote(name: bytes) -> bytes:
    """Return a name as it is; git quotes names with control characters, quotes or backslashes."""
    if not (name.startswith(b'"') and name.endswith(b'"') and len(name) > 1):
        return name
    return _ESCAPE.sub(_unescape, name[1:-1])


def _unescape(escape: re.Match[bytes]) -> bytes:
    escaped = escape[1]
    return bytes([int(escaped, 8) & 0xFF if len(escaped) == 3 else _ESCAPED.get(escaped[0], escaped[0])])


def _iter_lines(patch: bytes, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        line_end = patch.find(b"\n", start, end)
        line_end = end if line_end < 0 else line_end
        yield patch[start:line_end]
        start = line_end + 1
