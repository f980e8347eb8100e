"""Place the boxes of a graph in rows, and route its edges between them.

The rows are the layers of the longest paths, without edges that lead back. In a row, boxes are ordered by the mean
position of their neighbours, and moved as near to them as the other boxes allow. Edges run down from row to row;
edges that lead back, or over many rows, run on the right side, where edges to the same box share a line.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

GAP = 28
"""Between two boxes of a row."""
MARGIN = 16
MOST_ROWS = 4
"""An edge over more rows than this runs on the right side."""
_SWEEPS = 6
_CURVE = 30
"""The least height between two rows, for the curves."""
_LABEL = 16
_ARROW = 6
"""Below a label, so that it does not hide the head of the arrow."""
_CHANNEL = 8
_LABELLED_CHANNEL = 19
_LANE = 14
_VIA = 12
"""The width of the room that an edge needs in a row that it passes."""

Point = tuple[int, int]


class Size(NamedTuple):
    """How large a box is."""

    width: int
    height: int


class DrawnEdge(NamedTuple):
    """An edge to draw. There is at most one from one box to another."""

    source: str
    target: str
    label_width: int = 0
    """How wide its label is; 0 without a label."""


class PlacedBox(NamedTuple):
    """Where a box is."""

    x: int
    y: int
    width: int
    height: int


class RoutedLink(NamedTuple):
    """Where an edge runs."""

    link: DrawnEdge
    points: tuple[Point, ...]
    """From the lower side of the source to the upper side of the target. An aside edge is a line with corners at the
    points between; any other edge is a curve that is vertical at each of them."""
    is_aside: bool
    label_at: Point | None = None
    """The middle of its label's base line; for an aside edge, its left end."""


class Layered(NamedTuple):
    """A graph with its places."""

    width: int
    height: int
    boxes: dict[str, PlacedBox]
    links: list[RoutedLink]


@dataclass
class _Item:
    """What takes room in a row: a box, or an edge that passes the row."""

    row: int
    width: int
    above: list[_Item] = field(default_factory=list)
    below: list[_Item] = field(default_factory=list)
    position: float = 0.0
    """In its row: first its number, then its centre."""


class _Gap:
    """The room above a row, from top to bottom: lines of aside edges that leave, curves and labels, lines that arrive."""

    def __init__(self) -> None:
        self.leaving: dict[tuple[str, str], int] = {}
        self.arriving: dict[str, int] = {}
        self.labels: dict[int, int] = {}
        """How many labels there are, by the box that they are above."""
        self.leaving_height = self.arriving_height = 8
        self.top = 0

    def add_leaving(self, key: tuple[str, str], has_label: bool) -> None:
        if key not in self.leaving:
            self.leaving_height += _LABELLED_CHANNEL if has_label else _CHANNEL
            self.leaving[key] = self.leaving_height

    def add_arriving(self, target: str) -> None:
        if target not in self.arriving:
            self.arriving_height += _CHANNEL
            self.arriving[target] = self.arriving_height

    @property
    def height(self) -> int:
        most = max(self.labels.values(), default=0)
        return self.leaving_height + self.arriving_height + _CURVE + _LABEL * most + _ARROW * bool(most)


def place_layers(sizes: Mapping[str, Size], links: Sequence[DrawnEdge], back: Iterable[DrawnEdge]) -> Layered:
    """Place boxes of these sizes. Without the links in `back`, the graph has no cycles."""
    aside = set(back)
    rows_of = _find_rows(sizes, [link for link in links if link not in aside])
    aside |= {link for link in links if rows_of[link.target] - rows_of[link.source] > MOST_ROWS}
    items, chains, rows = _fill_rows(sizes, [link for link in links if link not in aside], rows_of)
    _order_rows(rows)
    _set_centres(rows)
    return _Placement(sizes, links, aside, items, chains, rows).place()


def _find_rows(sizes: Mapping[str, Size], forward: Sequence[DrawnEdge]) -> dict[str, int]:
    """Return the row of each box: the length of the longest path to it."""
    leaving: dict[str, list[str]] = defaultdict(list)
    entering = dict.fromkeys(sizes, 0)
    for link in forward:
        leaving[link.source].append(link.target)
        entering[link.target] += 1
    rows = dict.fromkeys(sizes, 0)
    ready = [box for box, count in entering.items() if not count]
    for box in ready:  # grows meanwhile
        for target in leaving[box]:
            rows[target] = max(rows[target], rows[box] + 1)
            entering[target] -= 1
            if not entering[target]:
                ready.append(target)
    return rows


def _fill_rows(
    sizes: Mapping[str, Size], links: Sequence[DrawnEdge], rows_of: Mapping[str, int]
) -> tuple[dict[str, _Item], dict[DrawnEdge, list[_Item]], list[list[_Item]]]:
    """Return the items of the boxes, those of each link from its source to its target, and all by row."""
    rows: list[list[_Item]] = [[] for _ in range(1 + max(rows_of.values(), default=0))]
    items: dict[str, _Item] = {}
    for box, size in sizes.items():
        items[box] = _Item(rows_of[box], size.width)
        rows[rows_of[box]].append(items[box])
    chains: dict[DrawnEdge, list[_Item]] = {}
    for link in links:
        chain = [items[link.source]]
        for row in range(rows_of[link.source] + 1, rows_of[link.target]):
            is_first = len(chain) == 1
            chain.append(_Item(row, max(_VIA, link.label_width if is_first else 0)))
            rows[row].append(chain[-1])
        chain.append(items[link.target])
        for above, below in itertools.pairwise(chain):
            above.below.append(below)
            below.above.append(above)
        chains[link] = chain
    return items, chains, rows


def _order_rows(rows: list[list[_Item]]) -> None:
    """Order each row by the mean position of the neighbours, to have few crossings."""
    _number_rows(rows)
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 0
        for row in rows if is_down else reversed(rows):
            means = {id(item): _find_mean(item.above if is_down else item.below, item) for item in row}
            row.sort(key=lambda item: means[id(item)])
            for number, item in enumerate(row):
                item.position = number


def _number_rows(rows: list[list[_Item]]) -> None:
    for row in rows:
        for number, item in enumerate(row):
            item.position = number


def _find_mean(neighbours: Sequence[_Item], item: _Item) -> float:
    if not neighbours:
        return item.position
    return sum(other.position for other in neighbours) / len(neighbours)


def _set_centres(rows: list[list[_Item]]) -> None:
    for row in rows:
        _settle(row, [0.0] * len(row))
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 1
        for row in rows if is_down else reversed(rows):
            _settle(row, [_find_mean(item.above if is_down else item.below, item) for item in row])


def _settle(row: Sequence[_Item], wanted: Sequence[float]) -> None:
    """Move the items as near to the wanted centres as their order and their widths allow (least squares)."""
    # With the room between neighbours subtracted, the centres must only not decrease: neighbours that would are
    # put together at the mean of their places.
    offsets, offset = [], 0.0
    for number, item in enumerate(row):
        if number:
            offset += (row[number - 1].width + item.width) / 2 + GAP
        offsets.append(offset)
    blocks: list[tuple[float, int]] = []  # the sum of places, and the number of items
    for place, offset in zip(wanted, offsets, strict=True):
        total, count = place - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    places = [total / count for total, count in blocks for _ in range(count)]
    for item, place, offset in zip(row, places, offsets, strict=True):
        item.position = place + offset


class _Placement:
    """Turns the items into places."""

    def __init__(
        self,
        sizes: Mapping[str, Size],
        links: Sequence[DrawnEdge],
        aside: set[DrawnEdge],
        items: Mapping[str, _Item],
        chains: Mapping[DrawnEdge, list[_Item]],
        rows: list[list[_Item]],
    ) -> None:
        self.sizes, self.links, self.aside = sizes, links, aside
        self.items, self.chains, self.rows = items, chains, rows
        self.gaps = [_Gap() for _ in range(len(rows) + 1)]
        left = min((item.position - item.width / 2 for row in rows for item in row), default=0)
        self.shift = MARGIN - left
        self.label_numbers: dict[DrawnEdge, int] = {}

    def place(self) -> Layered:
        for link in self.links:
            self._reserve(link)
        heights = [0] * len(self.rows)
        for box, item in self.items.items():
            heights[item.row] = max(heights[item.row], self.sizes[box].height)
        top = MARGIN
        self.tops: list[int] = []
        for gap, height in zip(self.gaps, [*heights, 0], strict=True):
            gap.top = top
            self.tops.append(top + gap.height)
            top += gap.height + height
        self.bottoms = [top + height for top, height in zip(self.tops, heights, strict=False)]
        boxes = {box: self._place_box(box) for box in self.sizes}
        right = max(
            (round(item.position + item.width / 2 + self.shift) for item in self._iter_items()), default=0
        )
        lanes = self._assign_lanes()
        ports = self._assign_ports(boxes)
        routed = [
            self._route_aside(link, boxes, right + _LANE * (1 + lanes[link.target]))
            if link in self.aside
            else self._route(link, boxes, ports)
            for link in self.links
        ]
        width = right + _LANE * (1 + max(lanes.values(), default=-1)) + MARGIN
        ends = [
            route.label_at[0] + route.link.label_width + MARGIN
            for route in routed
            if route.label_at and route.is_aside
        ]
        return Layered(max([width, *ends]), top + MARGIN, boxes, routed)

    def _iter_items(self) -> Iterable[_Item]:
        return (item for row in self.rows for item in row)

    def _reserve(self, link: DrawnEdge) -> None:
        source, target = self.items[link.source], self.items[link.target]
        gap = self.gaps[source.row + 1]
        if link in self.aside:
            gap.add_leaving(self._get_key(link), bool(link.label_width))
            self.gaps[target.row].add_arriving(link.target)
        elif link.label_width:
            below = id(self.chains[link][1])
            self.label_numbers[link] = gap.labels.get(below, 0)
            gap.labels[below] = self.label_numbers[link] + 1

    @staticmethod
    def _get_key(link: DrawnEdge) -> tuple[str, str]:
        """Lines that leave a row for the same box are one line, unless they have labels."""
        return link.target, link.source if link.label_width else ""

    def _place_box(self, box: str) -> PlacedBox:
        item, size = self.items[box], self.sizes[box]
        x = round(item.position - size.width / 2 + self.shift)
        return PlacedBox(x, self.tops[item.row], size.width, size.height)

    def _assign_lanes(self) -> dict[str, int]:
        """Return the lane of each box that aside edges lead to: the first one that is free where they run."""
        spans: dict[str, tuple[int, int]] = {}
        for link in self.links:
            if link in self.aside:
                ends = (self.items[link.source].row + 1, self.items[link.target].row)
                low, high = spans.get(link.target, ends)
                spans[link.target] = min(low, *ends), max(high, *ends)
        lanes: dict[str, int] = {}
        ends_of_lanes: list[int] = []
        for target, (low, high) in sorted(spans.items(), key=lambda each: each[1]):
            free = next((lane for lane, end in enumerate(ends_of_lanes) if end < low), len(ends_of_lanes))
            ends_of_lanes[free:] = [high, *ends_of_lanes[free + 1 :]]
            lanes[target] = free
        return lanes

    def _assign_ports(self, boxes: Mapping[str, PlacedBox]) -> dict[tuple[DrawnEdge, bool], int]:
        """Return where each edge leaves its source (True) and enters its target (False), from left to right."""
        ends: dict[tuple[str, bool], list[tuple[float, int, DrawnEdge]]] = defaultdict(list)
        for number, (link, chain) in enumerate(self.chains.items()):
            ends[link.source, True].append((chain[1].position, number, link))
            ends[link.target, False].append((chain[-2].position, number, link))
        ports: dict[tuple[DrawnEdge, bool], int] = {}
        for (box, leaves), found in ends.items():
            x, _, width, _ = boxes[box]
            for place, (_, _, link) in enumerate(sorted(found), 1):
                ports[link, leaves] = x + round(width * place / (len(found) + 1))
        return ports

    def _route(
        self, link: DrawnEdge, boxes: Mapping[str, PlacedBox], ports: Mapping[tuple[DrawnEdge, bool], int]
    ) -> RoutedLink:
        source, target = boxes[link.source], boxes[link.target]
        points = [(ports[link, True], source.y + source.height)]
        via = self.chains[link][1:-1]
        for item in via:
            x = round(item.position + self.shift)
            points += [(x, self.tops[item.row]), (x, self.bottoms[item.row])]
        points.append((ports[link, False], target.y))
        label_at = None
        if link.label_width:
            row = self.items[link.source].row + 1
            x = round(self.chains[link][1].position + self.shift)
            above = self.gaps[row].arriving_height + _ARROW + _LABEL * self.label_numbers[link]
            label_at = (x, self.tops[row] - above)
        return RoutedLink(link, tuple(points), is_aside=False, label_at=label_at)

    def _route_aside(self, link: DrawnEdge, boxes: Mapping[str, PlacedBox], lane: int) -> RoutedLink:
        source, target = boxes[link.source], boxes[link.target]
        leaving = self.gaps[self.items[link.source].row + 1]
        arriving = self.gaps[self.items[link.target].row]
        out = leaving.top + leaving.leaving[self._get_key(link)]
        back = self.tops[self.items[link.target].row] - arriving.arriving[link.target]
        start = source.x + source.width - source.width // 8
        end = target.x + target.width - target.width // 8
        points = (
            (start, source.y + source.height),
            (start, out),
            (lane, out),
            (lane, back),
            (end, back),
            (end, target.y),
        )
        label_at = (start + 8, out - 5) if link.label_width else None
        return RoutedLink(link, points, is_aside=True, label_at=label_at)
