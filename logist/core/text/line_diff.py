"""Compare two texts by lines, for people to read; time, number of lines and line length are limited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest

AROUND = 2
"""The number of equal lines shown before and after a difference."""
MOST_LINES = 60
"""The maximum number of lines of one difference; the rest is counted."""
COMPARED = 200
"""The maximum number of lines that are compared one by one; longer parts are shown as replaced."""
WIDEST = 200
"""The maximum length of a line, in characters."""
REMEMBERED = 100_000
"""Characters. Differences of shorter texts are cached, because many prompts of a history share them."""
_SHOWN = 25
"""The maximum number of replaced lines shown, on each side."""
_LED_BY = 40
"""The number of characters of a cut line before the first difference."""


def diff_lines(old: str, new: str) -> tuple[str, ...]:
    """Return the lines that differ, each with a mark: `-` old, `+` new, a space for both, `...` for omitted lines.

    Empty if the texts are equal. No line has a line break, or is longer than about WIDEST.
    """
    if old == new:
        return ()
    return _remembered(old, new) if len(old) + len(new) <= REMEMBERED else _compute_diff(old, new)


def _compute_diff(old: str, new: str) -> tuple[str, ...]:
    lines = list(_mark_lines(old.split("\n"), new.split("\n")))
    more = len(lines) - MOST_LINES
    if more <= 1:
        return tuple(lines)
    return (*lines[:MOST_LINES], f"... and {more:,} more lines")


_remembered = lru_cache(maxsize=64)(_compute_diff)


def mark_all_lines(mark: str, text: str) -> tuple[str, ...]:
    """Return all lines of a text that exists on only one side, each with the mark."""
    lines = text.split("\n")
    marked = [f"{mark}{_cut_line(line, 0)}" for line in lines[:MOST_LINES]]
    more = len(lines) - MOST_LINES
    return (*marked, f"... and {more:,} more lines") if more > 0 else tuple(marked)


def _mark_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    head = _count_equal_lines(old, new)
    tail = _count_equal_lines(old[head:][::-1], new[head:][::-1])
    before = old[max(0, head - AROUND) : head]
    after = old[len(old) - tail :][:AROUND]
    if head > AROUND:
        yield "..."
    yield from (f" {_cut_line(line, 0)}" for line in before)
    yield from _mark_middle(old[head : len(old) - tail], new[head : len(new) - tail])
    yield from (f" {_cut_line(line, 0)}" for line in after)
    if tail > AROUND:
        yield "..."


def _count_equal_lines(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    same = (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(same, min(len(one), len(other)))


def _mark_middle(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the marked lines between the first and the last difference."""
    if max(len(old), len(new)) > COMPARED:
        yield from _mark_replaced(old, new)
        return
    groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(AROUND)
    for number, group in enumerate(groups):
        if number:
            yield "..."
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                yield from (f" {_cut_line(line, 0)}" for line in old[start:end])
            else:
                yield from _mark_replaced(old[start:end], new[new_start:new_end])


def _mark_replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield lines and their replacements; a long line is cut around the first difference."""
    places = [
        _count_common_characters(one, other) for one, other in zip(old[:_SHOWN], new[:_SHOWN], strict=False)
    ]
    for mark, lines in (("-", old), ("+", new)):
        cut_places = zip_longest(lines[:_SHOWN], places[: len(lines)], fillvalue=0)
        yield from (f"{mark}{_cut_line(str(line), place)}" for line, place in cut_places)
        if len(lines) > _SHOWN:
            yield f"... and {len(lines) - _SHOWN:,} more {'removed' if mark == '-' else 'added'}"


def _count_common_characters(one: str, other: str) -> int:
    """Return the number of equal characters at the beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _cut_line(line: str, place: int) -> str:
    """Return at most WIDEST characters of a line, with the character at `place` among them."""
    if len(line) <= WIDEST:
        return line
    start = max(0, place - _LED_BY) if place + _LED_BY > WIDEST else 0
    end = start + WIDEST
    return f"{'...' if start else ''}{line[start:end]}{'...' if end < len(line) else ''}"
