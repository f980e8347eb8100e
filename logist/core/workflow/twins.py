"""Find duplicate keys in the objects of a JSON text, and blank them out without changing any line number."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import field

from logist.quick_dataclass import dataclass

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\],:]')


@dataclass(frozen=True)
class Twin:
    """A pair that a later one with the same key overrides: `text[start:end]`, its comma included."""

    key: str
    start: int
    end: int
    line: int


@dataclass
class _Open:
    is_object: bool
    wants_key: bool = True
    key: str = ""
    start: int = 0
    pairs: dict[str, tuple[int, int]] = field(default_factory=dict)


def find_duplicate_keys(text: str) -> Iterator[Twin]:
    """Yield every pair but the last of its key; nothing if the text is not valid JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return
    stack: list[_Open] = []
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in "{[":
            stack.append(_Open(sign == "{"))
        elif sign in "}]":
            stack.pop()
        elif stack and stack[-1].is_object:
            yield from _read_object_token(stack[-1], token, text)


def _read_object_token(here: _Open, token: re.Match[str], text: str) -> Iterator[Twin]:
    if token[0] == ",":
        here.pairs[here.key] = (here.start, token.end())
        here.wants_key = True
    elif token[0] != ":" and here.wants_key:
        here.key, here.start, here.wants_key = json.loads(token[0]), token.start(), False
        if here.key in here.pairs:
            start, end = here.pairs[here.key]
            yield Twin(here.key, start, end, text.count("\n", 0, start) + 1)


def blank_duplicates(text: str, found: Iterable[Twin]) -> str:
    """Return the text with spaces in place of the pairs."""
    for twin in found:
        spaces = re.sub(r"[^\n]", " ", text[twin.start : twin.end])
        text = text[: twin.start] + spaces + text[twin.end :]
    return text
