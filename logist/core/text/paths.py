"""The syntax for the path of a value in JSON data, used by conditions, items paths and templates.

`output.files[0].path`; a dot before the first name is optional (`.Title`). A name consists of letters of any
script and digits, with dashes inside (`pr-number`); every other key is quoted: `steps["phase 1.2"].output`. `a.0`
is the same as `a[0]`. A path follows only keys of objects and indices of lists, never attributes. `.length` is the
number of items of a list, or the length of a text in UTF-16 units, as in JavaScript. An object has no length,
unless it has such a key.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

Path: TypeAlias = tuple[str | int, ...]

MAX_CHARACTERS = 1_000
"""The maximum length of a path."""

_NAME_CHARACTER = r"""[^\s.\[\](){}'"`<>=!&|?:,;+*/%\\^~-]"""
NAME = rf"{_NAME_CHARACTER}+(?:-+{_NAME_CHARACTER}+)*"
"""The pattern of a name that needs no quotes."""
_NAME = re.compile(NAME)
_INDEX = re.compile(r"\[\s*([0-9]{1,9})\s*\]")
_KEY = re.compile(r"""\[\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_DIGITS = re.compile(r"[0-9]{1,9}")


class Missing(Enum):
    """The result of a lookup that finds nothing."""

    MISSING = "missing"


MISSING: Final[Literal[Missing.MISSING]] = Missing.MISSING


class PathError(ValueError):
    """Raised for a text that is not a path; `column` counts from 1."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


@lru_cache(maxsize=512)
def parse(path: str) -> Path:
    """Return the keys and indices of a path, outermost first; `.` alone is the data itself. Raises PathError."""
    if len(path) > MAX_CHARACTERS:
        raise PathError(f"the path is too long: {len(path):,} characters, at most {MAX_CHARACTERS:,}", 1)
    text = path.rstrip()
    start = len(text) - len(text.lstrip())
    if text[start:] == ".":
        return ()
    parts, end = scan_path(text, start)
    if end < len(text):
        raise PathError(_describe_fault(text, end), end + 1)
    if not parts:
        raise PathError("the path is empty", 1)
    return parts


def scan_path(text: str, start: int) -> tuple[Path, int]:
    """Return the longest path that begins at `start`, and where it ends; `((), start)` if there is none."""
    parts: list[str | int] = []
    here = start
    while True:
        dotted = text.startswith(".", here)
        if (dotted or not parts) and (name := _NAME.match(text, here + dotted)):
            parts.append(name[0])
            here = name.end()
        elif (parts or dotted) and (index := _INDEX.match(text, here + (dotted and not parts))):
            parts.append(int(index[1]))
            here = index.end()
        elif key := _KEY.match(text, here + (dotted and not parts)):
            parts.append(_ESCAPE.sub(r"\1", key[1][1:-1]))
            here = key.end()
        else:
            return tuple(parts), here


def _describe_fault(text: str, here: int) -> str:
    """Return the problem with the path at this position."""
    if text[here] == "[":
        return (
            'expected a number from 0 or a key in quotes after `[`, then `]`, as in `files[0]` or `["a key"]`'
        )
    if text[here] == ".":
        return "expected a name after `.`"
    return f'unexpected `{text[here]}` in a path; put a key that contains it in quotes, as in `["a key"]`'


def path_to_text(path: Path) -> str:
    """Return the path as text that `parse` reads back."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]" if text else f".[{part}]"
        elif _NAME.fullmatch(part):
            text += f".{part}" if text else part
        else:
            escaped = part.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{escaped}"]'
    return text or "."


def lookup(data: Any, path: str | Path) -> Any:
    """Return the value at the path, or MISSING. Raises PathError for text that is not a path."""
    here = data
    for part in parse(path) if isinstance(path, str) else path:
        here = _get_member(here, part)
        if here is MISSING:
            return MISSING
    return here


def _get_member(value: Any, part: str | int) -> Any:
    if isinstance(value, dict):
        key = str(part)
        if key in value:
            return value[key]
    elif isinstance(value, list | tuple):
        index = _to_index(part)
        if index is not None and index < len(value):
            return value[index]
    if part == "length" and isinstance(value, list | tuple):
        return len(value)
    if part == "length" and isinstance(value, str):
        return len(value.encode("utf-16-be", "surrogatepass")) // 2
    return MISSING


def _to_index(part: str | int) -> int | None:
    if isinstance(part, int):
        return part
    return int(part) if _DIGITS.fullmatch(part) else None


def format_value(value: Any, limit: int = 200) -> str:
    """Return a value on one line for people, as JSON, cut at `limit` characters."""
    text = ""
    try:
        for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
            text += piece[: limit + 1]
            if len(text) > limit:
                return f"{text[:limit]}..."
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__})"
    return text
