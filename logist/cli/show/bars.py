"""Draws horizontal bars of several pieces, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from logist.cli.show.output import Line, StyledText
from logist.cli.show.render import clean_for_terminal, shorten_for_terminal
from logist.core.text.columns import count_columns, pad_to_columns
from logist.quick_tuple import NamedTuple

FULL = ("█", "▓", "▒", "░")
PLAIN = ("#", "=", "-", ".")
"""Characters for the pieces without Unicode; the pieces are different even without colors."""
SHORTEST = 10
"""Minimum columns of a bar, even on a narrow terminal."""
LONGEST = 60
LABEL = 40


class Bar(NamedTuple):
    """One line."""

    label: str
    pieces: tuple[int, ...]
    """Amount of each piece, in the order of the legend; negative amounts count as zero."""
    told: str
    """Text after the bar."""


class BarPiece(NamedTuple):
    """Name and style of a piece, the same in every bar."""

    name: str
    style: str


def draw_bars(rows: Sequence[Bar], legend: Sequence[BarPiece], columns: int, *, unicode: bool) -> list[Line]:
    """Return a line for each row, and a legend if there are several pieces; the largest bar fills the width."""
    marks = FULL if unicode else PLAIN
    label = min(LABEL, max((count_columns(_to_one_line(row.label)) for row in rows), default=0))
    value_width = max((count_columns(row.told) for row in rows), default=0)
    room = min(LONGEST, max(SHORTEST, columns - label - value_width - 4))
    most = max((_sum_pieces(row.pieces) for row in rows), default=0)
    lines = [_draw_bar(row, legend, marks, label, room, most) for row in rows]
    return [*lines, *([_draw_legend(legend, marks, label)] if len(legend) > 1 and rows else [])]


def _draw_bar(
    row: Bar, legend: Sequence[BarPiece], marks: Sequence[str], label: int, room: int, most: int
) -> Line:
    lengths = share_columns(row.pieces, room, most)
    drawn = [
        StyledText(mark * length, piece.style)
        for piece, mark, length in zip(legend, marks, lengths, strict=False)
        if length
    ]
    return (_pad_text(row.label, label), "  ", *drawn, " " * (room - sum(lengths)), "  ", row.told)


def share_columns(pieces: Sequence[int], room: int, most: int) -> list[int]:
    """Return the length of each piece in a bar in which `most` fills `room` columns.

    A piece that is not 0 is visible if possible. The sum is the rounded length of the bar.
    """
    amounts = [max(0, piece) for piece in pieces]
    total = sum(amounts)
    if not total or not most:
        return [0] * len(amounts)
    length = max(1, round(room * total / most))
    lengths = [amount * length // total for amount in amounts]
    by_rest = sorted(range(len(amounts)), key=lambda n: (-(amounts[n] * length % total), n))
    for n in by_rest[: length - sum(lengths)]:
        lengths[n] += 1
    for n, amount in enumerate(amounts):
        longest = max(range(len(lengths)), key=lengths.__getitem__)
        if amount and not lengths[n] and lengths[longest] > 1:
            lengths[n], lengths[longest] = 1, lengths[longest] - 1
    return lengths


def _draw_legend(legend: Sequence[BarPiece], marks: Sequence[str], label: int) -> Line:
    line: list[StyledText | str] = [" " * label]
    for piece, mark in zip(legend, marks, strict=False):
        line += ["  ", StyledText(mark, piece.style), f" {piece.name}"]
    return tuple(line)


def _pad_text(text: str, width: int) -> str:
    """Return one line of exactly `width` columns."""
    return pad_to_columns(cut_to_width(text, width), width)


def cut_to_width(text: str, width: int) -> str:
    """Return one line of at most `width` columns."""
    return shorten_for_terminal(_to_one_line(text), width)


def _to_one_line(text: str) -> str:
    return " ".join(clean_for_terminal(text).split())


def _sum_pieces(pieces: Sequence[int]) -> int:
    return sum(max(0, piece) for piece in pieces)
