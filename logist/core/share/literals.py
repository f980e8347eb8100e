"""Strings of JSON within a text, as an answer or a quoted output has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

DEEPEST = 4
"""How many strings within each other are looked into."""
MOST_BACKSLASHES = 8
# One without escapes ends before its last quote, which may be the first of the next; one without an end ends
# with its line. So every character is read once, and a lost quote hides no string.
_LITERAL = re.compile(r'"[^"\\\n]*+(?:(?:\\[^\n][^"\\\n]*+)++(?P<end>")?)?')


class StringLiteral(NamedTuple):
    """A string with escapes: `text[start:end]`, quotes included."""

    start: int
    end: int
    value: str


def escaped(text: str) -> Iterator[StringLiteral]:
    """The strings of a text that have escapes: only these read otherwise than they are written."""
    if "\\" not in text or '"' not in text:
        return
    for found in _LITERAL.finditer(text):
        value = decoded(found[0]) if found["end"] else None
        if value is not None:
            yield StringLiteral(found.start(), found.end(), value)


def decoded(literal: str) -> str | None:
    """The value of a string of JSON with its quotes; None if it is none, or no text."""
    try:
        value = json.loads(literal, strict=False)
        str(value).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def unescaped(text: str) -> str:
    """What a piece of a JSON string stands for; itself if it is no such piece."""
    value = decoded(f'"{text}"') if "\\" in text else None
    return text if value is None else value


def encoded(value: str, like: str) -> str:
    """The literal of `value`, with escapes for all that is not ASCII if `like` has such."""
    return json.dumps(value, ensure_ascii="\\u" in like)


def is_plain(text: str) -> bool:
    """Whether nothing in a text is escaped: who has looked through the JSON it is in has seen it all."""
    return "\\" not in text


def spelled(values: Mapping[str, str]) -> dict[str, str]:
    """The same values, and as they read in two ways that a search alone does not take.

    As they are written in JSON: found in that, they are found in JSON within JSON. And without a backslash of
    theirs, which is taken for a part of the line break where a value is broken just behind it.
    """
    found: dict[str, str] = {}
    for value, kind in values.items():
        for plain in (True, False):
            found[json.dumps(value, ensure_ascii=plain)[1:-1]] = kind
        for at in [at for at, sign in enumerate(value) if sign == "\\"][:MOST_BACKSLASHES]:
            found[value[:at] + value[at + 1 :]] = kind
    return found | dict(values)
