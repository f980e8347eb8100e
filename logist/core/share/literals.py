"""JSON strings inside a text, for example in an answer or a quoted output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from logist.quick_tuple import NamedTuple

DEEPEST = 4
"""The maximum depth of nested strings that are searched."""
MOST_BACKSLASHES = 8
# A match without escapes ends before its last quote, which may be the first of the next string; a match without
# an end stops at the end of the line. So every character is read once, and a missing quote hides no string.
_LITERAL = re.compile(r'"[^"\\\n]*+(?:(?>(?:\\[^\n][^"\\\n]*+)+)(?P<end>")?)?')


class StringLiteral(NamedTuple):
    """A string with escapes: `text[start:end]`, quotes included."""

    start: int
    end: int
    value: str


def escaped(text: str) -> Iterator[StringLiteral]:
    """Yield the strings of a text that contain escapes: only their value differs from what is written."""
    if "\\" not in text or '"' not in text:
        return
    for found in _LITERAL.finditer(text):
        value = decoded(found[0]) if found["end"] else None
        if value is not None:
            yield StringLiteral(found.start(), found.end(), value)


def decoded(literal: str) -> str | None:
    """Return the value of a JSON string, given with its quotes; None if it is not a valid string."""
    try:
        value = json.loads(literal, strict=False)
        str(value).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def unescaped(text: str) -> str:
    """Return the value of a piece of a JSON string; the piece itself if it can't be decoded."""
    value = decoded(f'"{text}"') if "\\" in text else None
    return text if value is None else value


def encoded(value: str, like: str) -> str:
    """Return `value` as a JSON string, with escapes for non-ASCII characters if `like` has such escapes."""
    return json.dumps(value, ensure_ascii="\\u" in like)


def is_plain(text: str) -> bool:
    """Whether a text contains no escapes, so that a search of the surrounding JSON has covered it."""
    return "\\" not in text


def spelled(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values and two more spellings of each, which the search for secrets does not cover.

    The first is the spelling in JSON, to find values in JSON within JSON. The second leaves out one backslash,
    which the search treats as part of a line break if the value is broken right after it.
    """
    found: dict[str, str] = {}
    for value, kind in values.items():
        for plain in (True, False):
            found[json.dumps(value, ensure_ascii=plain)[1:-1]] = kind
        for at in [at for at, sign in enumerate(value) if sign == "\\"][:MOST_BACKSLASHES]:
            found[value[:at] + value[at + 1 :]] = kind
    return found | dict(values)
