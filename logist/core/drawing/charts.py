"""Draw charts as SVG. Colors are classes, for the style sheet of a page; numbers come with their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from logist.core.text.columns import shorten_to_columns, to_one_line
from logist.quick_tuple import NamedTuple

WIDTH = 640
HEIGHT = 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 26, 26
ROW_WIDTH = 320
"""Of a chart with rows: not wider than the screen of a phone."""
_ROW = 42
_NAME_COLUMNS = 26
_TICKS = 4
"""At most, besides 0."""
_MOST_LABELS = 8
"""Labels below the columns."""
_LABELLED = 10
"""With more columns than this, only the highest one has its number above it."""
_ROUND = (1, 2, 5, 10)


class Column(NamedTuple):
    """A column of a chart, one part on the other."""

    label: str
    """Below it."""
    parts: tuple[int, ...]
    """One for each series."""
    text: str
    """The numbers, for a person who points at it."""


class Row(NamedTuple):
    """A bar of a chart, below its name and its number."""

    name: str
    value: float
    text: str


class Series(NamedTuple):
    """What a part of the columns is."""

    name: str
    style: str
    """A class of the style sheet."""


def draw_columns(
    name: str,
    title: str,
    columns: Sequence[Column],
    series: Sequence[Series],
    format_value: Callable[[int], str],
) -> str:
    """Return a chart with columns from left to right, with an axis; `name` makes its ids unique on a page.

    With several series, a legend names them.
    """
    return "".join(_draw_columns(name, title, columns, series, format_value))


def draw_rows(
    name: str, title: str, rows: Sequence[Row], most: float, style: str, ends: tuple[str, str]
) -> str:
    """Return a chart with bars from top to bottom. `most`: the value of the longest possible bar; `ends`: the texts at
    the ends of the axis.
    """
    return "".join(_draw_rows(name, title, rows, most, style, ends))


def choose_ticks(most: int) -> list[int]:
    """Return round numbers from 0 to at least `most`, at equal distances."""
    power = 1
    while True:
        for factor in _ROUND:
            step = factor * power
            if step * _TICKS >= most:
                return [step * number for number in range(max(1, -(-most // step)) + 1)]
        power *= 10


def _draw_columns(
    name: str,
    title: str,
    columns: Sequence[Column],
    series: Sequence[Series],
    format_value: Callable[[int], str],
) -> Iterator[str]:
    totals = [sum(max(0, part) for part in column.parts) for column in columns]
    ticks = choose_ticks(max(totals, default=0))
    bottom, room = HEIGHT - _BOTTOM, HEIGHT - _TOP - _BOTTOM
    described = (
        f"{len(columns)} columns; the highest is {columns[_find_highest(totals)].text}" if columns else ""
    )
    yield _begin(name, title, (WIDTH, HEIGHT), described)
    for tick in ticks:
        y = bottom - room * tick // ticks[-1]
        yield f'<path class="grid" d="M{_LEFT} {y}H{WIDTH - _RIGHT}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{_show(format_value(tick))}</text>'
    step = (WIDTH - _LEFT - _RIGHT) / max(1, len(columns))
    width = max(1.0, min(48.0, step * 0.78))
    highest = _find_highest(totals)
    every = -(-len(columns) // _MOST_LABELS)
    for number, (column, total) in enumerate(zip(columns, totals, strict=True)):
        middle = _LEFT + step * (number + 0.5)
        top = float(bottom)
        yield f"<g><title>{_show(column.text)}</title>"
        for part, each in zip(column.parts, series, strict=True):
            height = room * max(0, part) / ticks[-1]
            top -= height
            if height:
                yield (
                    f'<rect class="bar {each.style}" x="{middle - width / 2:.1f}" y="{top:.1f}" '
                    f'width="{width:.1f}" height="{height:.1f}"/>'
                )
        yield "</g>"
        if total and (len(columns) <= _LABELLED or number == highest):
            shown = _show(format_value(total))
            yield f'<text class="value" x="{middle:.1f}" y="{top - 5:.1f}" text-anchor="middle">{shown}</text>'
        if (len(columns) - 1 - number) % every == 0:
            yield f'<text x="{middle:.1f}" y="{bottom + 17}" text-anchor="middle">{_show(column.label)}</text>'
    if len(series) > 1:
        yield from _draw_legend(series)
    yield "</svg>"


def _find_highest(totals: Sequence[int]) -> int:
    return totals.index(max(totals)) if totals else -1


def _draw_legend(series: Sequence[Series]) -> Iterator[str]:
    for number, each in enumerate(series):
        x = _LEFT + 130 * number
        yield f'<rect class="bar {each.style}" x="{x}" y="3" width="14" height="12"/>'
        yield f'<text x="{x + 20}" y="13">{_show(each.name)}</text>'


def _draw_rows(
    name: str, title: str, rows: Sequence[Row], most: float, style: str, ends: tuple[str, str]
) -> Iterator[str]:
    bottom = _ROW * len(rows) + 4
    yield _begin(name, title, (ROW_WIDTH, bottom + 20), "; ".join(f"{row.name}: {row.text}" for row in rows))
    yield f'<path class="grid" d="M1 0V{bottom}M{ROW_WIDTH - 1} 0V{bottom}"/>'
    yield f'<text x="0" y="{bottom + 15}">{_show(ends[0])}</text>'
    yield f'<text x="{ROW_WIDTH}" y="{bottom + 15}" text-anchor="end">{_show(ends[1])}</text>'
    for number, row in enumerate(rows):
        y = _ROW * number
        length = (ROW_WIDTH - 2) * max(0.0, min(1.0, row.value / most)) if most else 0.0
        shown = shorten_to_columns(to_one_line(row.name), _NAME_COLUMNS)
        yield f"<g><title>{_show(row.name)}: {_show(row.text)}</title>"
        yield f'<text class="name" x="6" y="{y + 16}">{_show(shown)}</text>'
        yield f'<text class="value" x="{ROW_WIDTH - 6}" y="{y + 16}" text-anchor="end">{_show(row.text)}</text>'
        if length:
            yield f'<rect class="bar {style}" x="1" y="{y + 22}" width="{length:.1f}" height="16"/>'
        yield "</g>"
    yield "</svg>"


def _begin(name: str, title: str, size: tuple[int, int], description: str) -> str:
    width, height = size
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-labelledby="{name}-title {name}-desc" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<title id="{name}-title">{_show(title)}</title>'
        f'<desc id="{name}-desc">{_show(description)}. A table with the numbers follows.</desc>'
    )


def _show(text: str) -> str:
    """Return a text for XML, without the characters that XML does not allow."""
    return escape(to_one_line(text))
