"""Replaces known values in texts and JSON, in all spellings in which `redact` finds them. For `job scrub`."""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from logist.core.secrets import redact
from logist.core.secrets.redact import KNOWN, REDACTED
from logist.core.secrets.secrets_table import Match
from logist.quick_dataclass import dataclass

LONGEST = 1 << 16
"""The maximum number of characters of a value."""
ROUNDS = 4
"""How often a text is searched: what is before and after a value can form the value again."""
_WIDEST = 12
"""A spelling has at most this many characters for each character of the value."""


@dataclass(frozen=True)
class Eraser:
    """Replaces some values by `[redacted]`."""

    values: tuple[str, ...]

    @cached_property
    def _wanted(self) -> dict[str, str]:
        return dict.fromkeys(self.values, KNOWN)

    def find(self, text: str) -> list[Match]:
        """Return the places of the values in a text, in order, without overlaps."""
        return redact.find_spellings(text, self._wanted) if text else []

    def replace(self, text: str) -> tuple[str, int]:
        """Return the text without the values, and the number of replacements."""
        replaced, _, count = self.replace_marked(text, ())
        return replaced, count

    def replace_marked(self, text: str, marks: Sequence[int]) -> tuple[str, list[int], int]:
        """Do the same, and return the new positions of `marks`; one inside a value moves to an end of its replacement."""
        moved, total = list(marks), 0
        for _ in range(ROUNDS):
            places = self.find(text)
            if not places:
                break
            total += len(places)
            moved = _move_marks(moved, places)
            text = _substitute(text, places)
        return text, moved, total

    def replace_json(self, value: Any) -> tuple[Any, int]:
        """Return a JSON value with the values replaced in all texts, keys of objects and numbers."""
        if isinstance(value, str):
            return self.replace(value)
        if isinstance(value, dict):
            return self._replace_members(value)
        if isinstance(value, list):
            pairs = [self.replace_json(member) for member in value]
            return [member for member, _ in pairs], sum(count for _, count in pairs)
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = json.dumps(value)
            if any(each in written for each in self.values):
                return REDACTED, 1
        return value, 0

    def _replace_members(self, value: dict[str, Any]) -> tuple[dict[str, Any], int]:
        done: dict[str, Any] = {}
        total = 0
        for key, member in value.items():
            (name, in_key), (inner, in_member) = self.replace(key), self.replace_json(member)
            done[find_free_name(name, done) if in_key else name] = inner
            total += in_key + in_member
        return done, total

    def replace_blocks(self, blocks: Iterable[str], counted: list[int]) -> Iterator[str]:
        """Yield a text of any length without the values; each number of replacements is added to `counted`.

        Bytes that are not UTF-8 must be surrogates (surrogateescape).
        """
        window = ""
        for block in blocks:
            window += block
            if len(window) > 4 * self._carried:
                done, window = self._replace_start(window, len(window) - self._carried, counted)
                yield done
        yield self._replace_start(window, len(window), counted)[0]

    @cached_property
    def _carried(self) -> int:
        return max([LONGEST, *(_WIDEST * len(value) for value in self.values)])

    def _replace_start(self, window: str, end: int, counted: list[int]) -> tuple[str, str]:
        """Return the start of the window up to about `end`, with replacements, and the unchanged rest."""
        places = [place for place in self.find(window) if place.start < end]
        end = max([end, *(place.end for place in places)])
        if not places:
            return window[:end], window[end:]
        done, again = self.replace(_substitute(window[:end], places))
        counted.append(len(places) + again)
        return done, window[end:]


def list_variants(value: str) -> tuple[str, ...]:
    """Return a value as other programs write it: macOS decomposes accents in names of files, and older ones don't use UTF-8."""
    variants = [value, *(unicodedata.normalize(form, value) for form in ("NFC", "NFD"))]
    for variant in variants[:2]:
        with suppress(UnicodeEncodeError):
            variants.append(variant.encode("latin-1").decode("utf-8", "surrogateescape"))
    return tuple(dict.fromkeys(variants))


def find_free_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, with a number if it is taken: two names can become the same."""
    names = set(taken)
    return next(
        each
        for each in (name, *(f"{name}-{number}" for number in range(2, len(names) + 3)))
        if each not in names
    )


def _substitute(text: str, places: Sequence[Match]) -> str:
    pieces: list[str] = []
    position = 0
    for place in places:
        pieces += (text[position : place.start], REDACTED)
        position = place.end
    return "".join([*pieces, text[position:]])


def _move_marks(marks: Sequence[int], places: Sequence[Match]) -> list[int]:
    starts = [place.start for place in places]
    shift_after, shifts = 0, []
    for place in places:
        shifts.append(shift_after)
        shift_after += len(REDACTED) - (place.end - place.start)
    shifts.append(shift_after)
    moved = []
    for mark in marks:
        index = bisect_right(starts, mark) - 1
        if index < 0:
            moved.append(mark)
        elif mark >= places[index].end:
            moved.append(mark + shifts[index + 1])
        else:
            inside = mark > places[index].start
            moved.append(places[index].start + shifts[index] + (len(REDACTED) if inside else 0))
    return moved
