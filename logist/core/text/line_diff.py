"""Compare two texts in lines that a person can read: bounded in time, in lines, and in the length of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest

AROUND = 2
"""Equal lines that are shown before and after what differs."""
MOST_LINES = 60
"""Of one difference; the rest is counted."""
COMPARED = 200
"""Lines of each text that are compared one by one; longer stretches are told as a whole."""
WIDEST = 200
"""Characters of a line."""
REMEMBERED = 100_000
"""Characters: the difference of shorter texts is found once, for all the prompts of a history that have it."""
_SHOWN = 25
"""Of lines that gave way to others, on each side."""
_LED_BY = 40
"""Characters of a cut line before the place where it differs."""


def diff_lines(old: str, new: str) -> tuple[str, ...]:
    """Return the lines that differ, each with its mark: `-` is old, `+` is new, a blank is in both, `...` was
    left out.

    Empty if the texts are equal. No line has a line break; none is wider than about WIDEST.
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
    """Return the lines of a text that only one side has, each with the mark."""
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
    """Return how many of the first lines are the same."""
    same = (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(same, min(len(one), len(other)))


def _mark_middle(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the lines between the first and the last line that differ."""
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
    """Yield lines and those that replaced them; a long line is cut around
    the place where it begins to differ.
    """
    places = [
        _count_common_characters(one, other) for one, other in zip(old[:_SHOWN], new[:_SHOWN], strict=False)
    ]
    for mark, lines in (("-", old), ("+", new)):
        cut_places = zip_longest(lines[:_SHOWN], places[: len(lines)], fillvalue=0)
        yield from (f"{mark}{_cut_line(str(line), place)}" for line, place in cut_places)
        if len(lines) > _SHOWN:
            yield f"... and {len(lines) - _SHOWN:,} more {'that are gone' if mark == '-' else 'that are new'}"


def _count_common_characters(one: str, other: str) -> int:
    """Return how many of the first characters are the same."""
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
