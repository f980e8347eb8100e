"""The graph of a diagram: nodes, edges and groups, each with its line."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from logist.quick_dataclass import dataclass

Shape = Literal[
    "square",  # [x]
    "round",  # (x)
    "stadium",  # ([x])
    "subroutine",  # [[x]]
    "cylinder",  # [(x)]
    "circle",  # ((x))
    "doublecircle",  # (((x)))
    "odd",  # >x]
    "diamond",  # {x}
    "hexagon",  # {{x}}
    "lean_right",  # [/x/]
    "lean_left",  # [\x\]
    "trapezoid",  # [/x\]
    "inv_trapezoid",  # [\x/]
    "ellipse",  # (-x-)
    "plain",  # an id alone
]


@dataclass(frozen=True)
class Node:
    """A node of a diagram; `label` is its text with decoded entities."""

    id: str
    label: str
    shape: Shape = "plain"
    classes: tuple[str, ...] = ()
    line: int = 0
    """The line, from 1, that declares its shape, or that first names it."""


@dataclass(frozen=True)
class Link:
    """An edge of a diagram."""

    source: str
    target: str
    label: str | None = None
    stroke: Literal["normal", "thick", "dotted", "invisible"] = "normal"
    heads: tuple[str, str] = ("", "arrow")
    """At the source and at the target: "", "arrow", "circle", "cross"."""
    line: int = 0


@dataclass(frozen=True)
class Group:
    """A subgraph: its id, its title, and its members, groups included."""

    id: str
    title: str
    members: tuple[str, ...] = ()
    line: int = 0
    direction: str = ""
    """The direction of its content; empty if it sets none."""


@dataclass(frozen=True)
class Graph:
    """A flowchart: everything in the order of the text."""

    direction: str = "TB"
    nodes: tuple[Node, ...] = ()
    links: tuple[Link, ...] = ()
    groups: tuple[Group, ...] = ()
    title: str = ""
    """From its front matter."""


@dataclass(frozen=True)
class ConfigEntry:
    """An entry of the config block: its data for the step `id`."""

    id: str
    data: dict[str, object] = field(default_factory=dict)
    line: int = 0
    """The line of the `%% @ID:`, from 1."""


_SHAPE_NAMES: dict[Shape, str] = {
    "square": "rect proc process rectangle",
    "round": "rounded event",
    "stadium": "stadium terminal pill",
    "subroutine": "fr-rect subprocess subproc framed-rectangle subroutine",
    "cylinder": "cyl db database cylinder",
    "circle": "circle circ",
    "doublecircle": "dbl-circ double-circle doublecircle",
    "odd": "odd",
    "diamond": "diam decision diamond question",
    "hexagon": "hex hexagon prepare",
    "lean_right": "lean-r lean-right in-out",
    "lean_left": "lean-l lean-left out-in",
    "trapezoid": "trap-b priority trapezoid-bottom trapezoid",
    "inv_trapezoid": "trap-t manual trapezoid-top inv-trapezoid",
}
_DRAWN_AS_SQUARES = """
    anchor bang bolt bow-rect bow-tie-rectangle brace brace-l brace-r braces browser bucket card choice cloud
    collate com-link comment composite console cross-circ crossed-circle curv-trap curved-trapezoid das
    data-store datastore delay directory disk display div-proc div-rect divided-process divided-rectangle doc
    docs document documents extract f-circ filled-circle flag flip-tri flipped-triangle folder fork fr-circ
    framed-circle h-cyl half-rounded-rectangle horizontal-cylinder hourglass icon internal-storage join
    junction lightning-bolt lin-cyl lin-doc lin-proc lin-rect lined-cylinder lined-document lined-process
    lined-rectangle loop-limit manual-file manual-input note notch-pent notch-rect notched-pentagon
    notched-rectangle paper-tape person processes procs shaded-process sl-rect sloped-rectangle sm-circ
    small-circle st-doc st-rect stacked-document stacked-rectangle start state stop stored-data summary
    tag-doc tag-proc tag-rect tagged-document tagged-process tagged-rectangle text tri triangle win-pane
    window-pane
"""

SHAPES: dict[str, Shape] = {
    **dict.fromkeys(_DRAWN_AS_SQUARES.split(), "square"),
    **{name: shape for shape, names in _SHAPE_NAMES.items() for name in names.split()},
}
"""The names allowed in `@{ shape: NAME }`; those that Logist has no shape for become squares."""
