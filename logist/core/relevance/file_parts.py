"""Shows parts of a file that is too large to be shown whole: the definitions and lines that match the task, with
their line numbers, and where the other definitions begin.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from math import log

from logist.core.relevance.occurrences import CodeNames, make_finder
from logist.core.relevance.outline import Definition, list_definitions
from logist.core.relevance.words import Keyword
from logist.quick_dataclass import dataclass

WHOLE_DEFINITION = 80
"""A definition of at most so many lines is shown whole if a line of it matches."""
SMALL_DEFINITION = 5
"""A shorter definition says little without what is around it."""
BEFORE, AFTER = 3, 6
"""Lines around a match in a longer definition, or outside of all definitions."""
NEAR = 6
"""Matches at most so many lines apart are shown together. On past bug fixes, this shows as many of the lines that they
changed as no such limit, or more.
"""
LONGEST_GROUP = 40
"""The first and the last of these matches are fewer lines apart: a group without an end fits into no room."""
MOST_COMMENTS = 10
"""Lines of comments and decorators that are shown above a definition."""
HEAD = 12
"""The first lines of a long definition whose name matches, and of a file in which nothing matches."""
LONGEST_LINE = 300
"""Characters of a line that is shown; of a longer one, the part with the match."""
OUTLINE_SHARE = 6
"""The outline takes at most one of so many parts of the room, unless the parts leave more."""
MAX_OUTLINE = 6_000
"""The maximum number of bytes of the outline."""
NAME = 1.0
"""The weight of a word in the name of a definition, compared to one occurrence in it."""
LENGTH = 0.3
"""How much less a word counts in longer parts, from 0 to 1."""
USUAL = 20
"""The usual number of lines of a part."""
LEAST = 0.15
"""Parts below this share of the best score are left out, because they are not worth their tokens."""
MANY = 2_000
"""So many occurrences of a word are looked at; more in one file say little about where to look."""
MOST_SHRUNK = 3
"""So many parts that don't fit are reduced to the surroundings of their matches; scraps of more say little."""
GAP = "..."


@dataclass(frozen=True)
class Matches:
    """What to look for in a file: words of the task, and lines that it names."""

    keywords: Sequence[Keyword] = ()
    lines: Sequence[int] = ()
    """Numbers of lines, the first one is 1: for example from `app.py:12` in a traceback."""


@dataclass(frozen=True)
class FileParts:
    """Parts of a file as a prompt shows them."""

    text: str
    """Lines with their numbers; empty if the room is too small for any."""
    total: int
    """The number of lines of the file."""


def show_file(text: str, matches: Matches, room: int, *, headings: bool = False) -> FileParts:
    """Return the parts of a file that match best, the best first, in at most `room` bytes of UTF-8.

    `headings`: it is a text for people, so its outline is that of its headings (Markdown).
    """
    file = _FileLines(text, headings=headings)
    hits = _find_hits(file, matches)
    page = _Page(file, hits.columns)
    reserved = min(room // OUTLINE_SHARE, MAX_OUTLINE, sum(map(measure_name, file.definitions)))
    crowded_out = 0
    for passage in _list_passages(file, hits):
        if page.add(passage, room - reserved):
            continue
        crowded_out += 1
        if crowded_out > MOST_SHRUNK:
            break
        for piece in _shrink_passage(passage, file, hits):
            page.add(piece, room - reserved)
    page.fill_holes(room - reserved)
    page.add_outline(file.definitions, min(room, page.used + MAX_OUTLINE))
    return FileParts(page.render(), len(file.lines))


class _FileLines:
    """The lines of a file, and its definitions; lines count from 0."""

    def __init__(self, text: str, *, headings: bool) -> None:
        self.data = text.encode("utf-8", "surrogatepass")
        self.low = self.data.lower()
        self.lines = text.split("\n")
        if not self.lines[-1]:
            self.lines.pop()
        sizes = [len(line.encode("utf-8", "surrogatepass")) + 1 for line in self.lines]
        self.starts = [0, *accumulate(sizes)][: max(1, len(sizes))]
        self.definitions = list_definitions(self.data, self.lines, self.starts, headings=headings)
        self.first_code = 0 if headings else _find_first_code(self.lines)
        self._firsts = [definition.first for definition in self.definitions]
        self._by_first = {definition.first: definition for definition in self.definitions}

    def find_line(self, place: int) -> int:
        return bisect_right(self.starts, place) - 1

    def get_column(self, place: int) -> int:
        start = self.starts[self.find_line(place)]
        return len(self.data[start:place].decode("utf-8", "replace"))

    def list_around(self, line: int) -> list[Definition]:
        """Return the definitions that a line is in, the innermost first."""
        around = []
        number = bisect_right(self._firsts, line) - 1
        definition = self.definitions[number] if number >= 0 else None
        while definition is not None:
            if definition.last >= line:
                around.append(definition)
            definition = self._by_first[definition.parent] if definition.parent is not None else None
        return around

    def find_beginning(self, definition: Definition) -> int:
        """Return the first line of the comments and decorators directly above a definition."""
        first = definition.first
        while first > max(0, definition.first - MOST_COMMENTS) and self.lines[first - 1].lstrip().startswith(
            _ABOVE_DEFINITIONS
        ):
            first -= 1
        return first


def _find_first_code(lines: Sequence[str]) -> int:
    """Return the first line after the comment at the top of a file, which is mostly its license."""
    for number, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith(_COMMENTS):
            return number if number > 1 else 0
    return 0


_COMMENTS = ("#", "//", "/*", "*", "--", ";", "<!--")
_ABOVE_DEFINITIONS = ("@", "#", "//", "/*", "*", "--")


@dataclass
class _Hits:
    """What was found in a file."""

    by_line: dict[int, dict[int, int]]
    """For each line: how often it has each keyword, by the number of the keyword."""
    weights: Sequence[float]
    """The weight of each keyword in this file: a word in every other line says little about where to look."""
    names: Mapping[int, frozenset[int]]
    """By the first line of a definition: the keywords in its name."""
    named_lines: frozenset[int]
    """The lines that the task names."""
    columns: Mapping[int, int]
    """Where the first match in a long line is."""

    def score_lines(self, lines: Sequence[int], named: Collection[int] = ()) -> float:
        counts: dict[int, int] = {}
        for line in lines:
            for number, count in self.by_line.get(line, {}).items():
                counts[number] = counts.get(number, 0) + count
        score = sum(self.weights[number] * 2 * count / (count + 1) for number, count in counts.items())
        return score + sum(NAME * self.weights[number] for number in named)


def _find_hits(file: _FileLines, matches: Matches) -> _Hits:
    by_line: dict[int, dict[int, int]] = {}
    columns: dict[int, int] = {}
    weights: list[float] = []
    for number, keyword in enumerate(matches.keywords):
        lines = set()
        for place in islice(make_finder(keyword)(file.data, file.low), MANY):
            line = file.find_line(place)
            if line < file.first_code:
                continue
            lines.add(line)
            counts = by_line.setdefault(line, {})
            counts[number] = counts.get(number, 0) + 1
            if len(file.lines[line]) > LONGEST_LINE and line not in columns:
                columns[line] = file.get_column(place)
        weights.append(keyword.weight * log((1 + len(file.lines)) / (1 + len(lines))))
    named_lines = frozenset(line - 1 for line in matches.lines if 0 < line <= len(file.lines))
    return _Hits(by_line, weights, _find_names(file, matches.keywords), named_lines, columns)


def _find_names(file: _FileLines, keywords: Sequence[Keyword]) -> dict[int, frozenset[int]]:
    names = CodeNames(keywords)
    inside = {definition.first: names.find_keywords(definition.name) for definition in file.definitions}
    return {first: numbers for first, numbers in inside.items() if numbers}


@dataclass(frozen=True)
class _Passage:
    """Lines that are shown together."""

    first: int
    last: int
    above: tuple[int, ...] = ()
    """The first lines of the definitions around it, which say what it is part of."""
    hits: tuple[int, ...] = ()
    """Its lines with matches."""
    named: frozenset[int] = frozenset()
    """The keywords in the name of the definition that it is."""


def _list_passages(file: _FileLines, hits: _Hits) -> list[_Passage]:
    """Return the parts that match, the best first; the beginning of the file if nothing matches or is defined."""
    passages = [*_iter_passages(file, hits)]
    scores = {
        passage: hits.score_lines(passage.hits, passage.named)
        / (1 - LENGTH + LENGTH * (passage.last - passage.first + 1) / USUAL)
        for passage in passages
    }
    wanted = {passage for passage in passages if not hits.named_lines.isdisjoint(passage.hits)}
    least = LEAST * max(scores.values(), default=0.0)
    ranked = sorted(passages, key=lambda passage: (passage not in wanted, -scores[passage], passage.first))
    kept = [passage for passage in ranked if passage in wanted or scores[passage] >= least]
    if kept or file.definitions:
        return kept
    return [_Passage(0, min(HEAD, len(file.lines)) - 1)]


def _iter_passages(file: _FileLines, hits: _Hits) -> Iterator[_Passage]:
    """Yield definitions of a fitting size with matches in them, and groups of other lines with matches."""
    inside: dict[int, list[int]] = {}
    definitions: dict[int, Definition] = {}
    group: list[int] = []
    for line in sorted({*hits.by_line, *hits.names, *hits.named_lines}):
        around = file.list_around(line)
        whole = next(filter(_is_shown_whole, around), None)
        if whole is not None:
            definitions[whole.first] = whole
            inside.setdefault(whole.first, []).append(line)
        elif group and line - group[-1] <= NEAR and line - group[0] < LONGEST_GROUP:
            group.append(line)
        else:
            if group:
                yield _build_group(file, hits, group, BEFORE, AFTER)
            group = [line]
    if group:
        yield _build_group(file, hits, group, BEFORE, AFTER)
    for first, lines in inside.items():
        definition = definitions[first]
        named = frozenset().union(*(hits.names.get(line, ()) for line in lines))
        yield _Passage(
            file.find_beginning(definition),
            definition.last,
            _list_above(file, definition.first),
            tuple(lines),
            named,
        )


def _is_shown_whole(definition: Definition) -> bool:
    return SMALL_DEFINITION <= definition.last - definition.first + 1 <= WHOLE_DEFINITION


def _build_group(file: _FileLines, hits: _Hits, lines: Sequence[int], before: int, after: int) -> _Passage:
    """Return the lines around matches, up to the ends of the definition that they are in."""
    around = file.list_around(lines[0])
    start, end = (around[0].first, around[0].last) if around else (0, len(file.lines) - 1)
    named = frozenset().union(*(hits.names.get(line, ()) for line in lines))
    return _Passage(
        max(start, lines[0] - before),
        max(lines[-1], min(end, lines[-1] + (HEAD if named else after))),
        _list_above(file, lines[0]),
        tuple(lines),
        named,
    )


def _list_above(file: _FileLines, line: int) -> tuple[int, ...]:
    return tuple(definition.first for definition in file.list_around(line) if definition.first != line)


def _shrink_passage(passage: _Passage, file: _FileLines, hits: _Hits) -> list[_Passage]:
    """Return the lines around each match of a passage, the best first, because there is no room for the whole passage."""
    lines = sorted(
        passage.hits, key=lambda line: (line not in hits.named_lines, -hits.score_lines([line]), line)
    )
    return [_build_group(file, hits, [line], 1, 2) for line in lines]


class _Page:
    """The lines that are shown so far, and their bytes."""

    def __init__(self, file: _FileLines, columns: Mapping[int, int]) -> None:
        self.used = 0
        self._file = file
        self._columns = columns
        self._width = len(str(len(file.lines)))
        self._shown: dict[int, str] = {}
        self._outline: dict[int, Definition] = {}

    def add(self, passage: _Passage, room: int) -> bool:
        """Add a passage if there is room for it."""
        lines = [*passage.above, *range(passage.first, passage.last + 1)]
        new = {line: self._format(line) for line in lines if line not in self._shown}
        # A gap before and after it, and after each line above it.
        size = sum(map(_count_bytes, new.values())) + (2 + len(passage.above)) * _count_bytes(GAP)
        if self.used + size > room:
            return False
        self._shown |= new
        self.used += size
        return True

    def fill_holes(self, room: int) -> None:
        """Show single lines between others: the mark of a gap would take nearly as much room."""
        for line in sorted(self._shown):
            if line + 1 not in self._shown and line + 2 in self._shown:
                text = self._format(line + 1)
                size = _count_bytes(text) - _count_bytes(GAP)
                if self.used + size <= room:
                    self._shown[line + 1] = text
                    self.used += size

    def add_outline(self, definitions: Sequence[Definition], room: int) -> None:
        """Name as many of the other definitions as there is room for: outer ones first, spread over the file."""
        by_depth: dict[int, list[Definition]] = {}
        for definition in definitions:
            if definition.first not in self._shown:
                by_depth.setdefault(definition.depth, []).append(definition)
        for depth in sorted(by_depth):
            group = by_depth[depth]
            size, left = sum(map(measure_name, group)), room - self.used
            every = max(1, -(-size // left)) if left > 0 else len(group) + 1
            for definition in group[every // 2 :: every]:
                if self.used + measure_name(definition) <= room:
                    self._outline[definition.first] = definition
                    self.used += measure_name(definition)
            if every > 1:
                return

    def _format(self, line: int) -> str:
        text = _cut_line(self._file.lines[line].rstrip("\r"), self._columns.get(line, 0))
        return f"{line + 1:>{self._width}}  {text}".rstrip()

    def render(self) -> str:
        """Return the lines in the order of the file, each with its number; "" if there are none."""
        if not self._shown and not self._outline:
            return ""
        rendered: list[str] = []
        names: list[Definition] = []
        previous = -1
        for line in sorted({*self._shown, *self._outline}):
            if line in self._outline:
                names.append(self._outline[line])
                continue
            if line != previous + 1:
                rendered.append(_render_gap(names))
            names = []
            rendered.append(self._shown[line])
            previous = line
        if previous + 1 < len(self._file.lines):
            rendered.append(_render_gap(names))
        return "\n".join(rendered)


def measure_name(definition: Definition) -> int:
    """Return the bytes that the name of a definition takes in the outline, with its number and commas."""
    return len(f"({definition.first + 1} {definition.name}), ".encode())


def _render_gap(names: Sequence[Definition]) -> str:
    """Return the line for lines that are left out: `... 12 Parser (20 parse, 31 _read), 45 main`."""
    text, depth = "", names[0].depth if names else 0
    for definition in names:
        if definition.depth > depth:
            text += " (" * (definition.depth - depth)
        else:
            text += ")" * (depth - definition.depth) + (", " if text else "")
        text += f"{definition.first + 1} {definition.name}"
        depth = definition.depth
    return f"{GAP} {text}{')' * (depth - names[0].depth)}" if text else GAP


def _count_bytes(line: str) -> int:
    return len(line.encode("utf-8", "surrogatepass")) + 1


def _cut_line(line: str, column: int) -> str:
    """Return a line, or its part around the column with a mark if it is too long."""
    if len(line) <= LONGEST_LINE:
        return line
    start = max(0, min(column - LONGEST_LINE // 3, len(line) - LONGEST_LINE))
    mark = f" ({len(line):,} characters)"
    return f"{'... ' if start else ''}{line[start : start + LONGEST_LINE]} ...{mark}"
