"""Draws why files are among the relevant files of a prompt, or why not: the table of `job preview --why`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from logist.cli.show.output import Line, StyledText
from logist.core.prompt.prompt_parts import escape_unprintable
from logist.core.text.columns import count_columns
from logist.core.text.counts import format_count
from logist.quick_tuple import NamedTuple
from logist.workspace.context import showing

if TYPE_CHECKING:
    from logist.core.prompt.budget import BudgetRow
    from logist.core.prompt.search_report import SearchReport
    from logist.core.prompt.shown_files import Relevant
    from logist.core.relevance.ranking_report import WordPoints
    from logist.workspace.context import FileExplanation

MAX_WORDS = 6
"""The words of one file that people read; `--json` has all."""
WIDTH = 79
"""The longest line with words of the task, in columns."""
_INDENT = " " * 6


class ExplainedFile(NamedTuple):
    """A file, why it was chosen or not, and what the prompt contains of it."""

    explanation: FileExplanation
    tokens: int
    note: str
    """Why the text is not there, or not complete."""


def describe_texts(
    listed: Sequence[FileExplanation], report: SearchReport, rows: Sequence[BudgetRow]
) -> list[ExplainedFile]:
    """Add to each file what the prompt contains of its text."""
    by_source = {row.source: row for row in rows}
    chosen = {each.file.path: each for each in report.chosen}
    return [
        ExplainedFile(each, *_describe_text(chosen.get(each.path), by_source.get(f"relevant:{each.path}")))
        for each in listed
    ]


def _describe_text(chosen: Relevant | None, row: BudgetRow | None) -> tuple[int, str]:
    if chosen is None:
        return 0, ""
    note = chosen.file.note or ""
    if row is None:
        return 0, note
    if row.cut != "none":
        cut = f"{row.cut} by the budget of the prompt: {row.whole:,} tokens before"
        note = f"{note}; {cut}" if note else cut
    return row.tokens, note


def build_data(report: SearchReport, files: Sequence[ExplainedFile]) -> dict[str, Any]:
    """Return the value of `relevance` in the JSON document."""
    return {
        "words": [
            {"word": each.word, "weight": round(each.weight, 4), "files": each.files}
            for each in report.ranking.words
        ],
        "floor": round(report.ranking.floor, 4),
        "files": [_build_file(each) for each in files],
    }


def _build_file(file: ExplainedFile) -> dict[str, Any]:
    each = file.explanation
    return {
        "path": each.path,
        "listed": each.is_listed,
        "rank": each.rank,
        "score": round(each.score, 4),
        "why": each.why,
        "tokens": file.tokens,
        "note": file.note,
        "points": [
            {"place": one.place, "word": one.word, "points": round(one.points, 4), "times": one.times}
            for one in each.points
        ],
        "factors": [{"factor": one.value, "why": one.why} for one in each.factors],
    }


def format_relevance(report: SearchReport, files: Sequence[ExplainedFile]) -> Iterator[Line]:
    """Yield the words of the task, then a block of lines for each file."""
    words = report.ranking.words
    if words:
        yield "Words of the task, each with its weight and the number of files that contain it:"
        yield from _wrap_items([f"{each.word} {each.weight:.2f} ({each.files:,})" for each in words])
    else:
        yield "The task has no words to search for."
    if not files:
        yield "No file is relevant by these rules."
        return
    yield ""
    yield StyledText(f"{'rank':>4}  {'score':>7}  {'tokens':>7}  file", "bold")
    for file in files:
        yield from _format_file(file)


def _wrap_items(items: Sequence[str]) -> Iterator[str]:
    """Yield the items separated by commas, in lines that a narrow terminal doesn't break within an item."""
    line = ""
    for number, item in enumerate(items, 1):
        text = item if number == len(items) else f"{item},"
        if line and count_columns(f"  {line} {text}") > WIDTH:
            yield f"  {line}"
            line = text
        else:
            line = f"{line} {text}" if line else text
    yield f"  {line}"


def _format_file(file: ExplainedFile) -> Iterator[Line]:
    each = file.explanation
    rank = f"{each.rank:,}" if each.rank else "-"
    tokens = f"{file.tokens:,}" if file.tokens else "-"
    score = f"{each.score:.2f}" if each.score else "-"
    yield f"{rank:>4}  {score:>7}  {tokens:>7}  {escape_unprintable(each.path)}"
    if not each.is_listed:
        yield (_INDENT, StyledText(f"not listed: {escape_unprintable(each.why)}", "yellow"))
    elif not each.points or each.why == "named in the task":
        yield f"{_INDENT}{each.why}"
    by_word = _group_points(each.points)
    for word, points in islice(by_word.items(), MAX_WORDS):
        yield (
            _INDENT,
            StyledText(f"{escape_unprintable(word)}: {', '.join(map(_format_points, points))}", "dim"),
        )
    rest = [one for points in islice(by_word.values(), MAX_WORDS, None) for one in points]
    if rest:
        more = len(by_word) - MAX_WORDS
        text = f"{format_count(more, 'more word')}: {sum(one.points for one in rest):.2f}"
        yield (_INDENT, StyledText(text, "dim"))
    for factor in each.factors:
        yield (_INDENT, StyledText(f"times {factor.value:g}: {factor.why}", "dim"))
    if file.note:
        yield f"{_INDENT}{file.note.replace(showing.FOR_AGENTS, '')}"


def _group_points(points: Sequence[WordPoints]) -> Mapping[str, list[WordPoints]]:
    """Group the points by word; the word with most points first."""
    groups: dict[str, list[WordPoints]] = {}
    for one in points:
        groups.setdefault(one.word, []).append(one)
    ordered = sorted(groups, key=lambda word: -sum(one.points for one in groups[word]))
    return {word: groups[word] for word in ordered}


def _format_points(one: WordPoints) -> str:
    times = f" ({one.times} times)" if one.times > 1 else ""
    return f"{one.place} {one.points:.2f}{times}"
