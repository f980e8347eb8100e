"""What a diagram says: nodes, edges and groups, each with the place it stands at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

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
    """A node of a diagram; `label` is what a reader sees, its entities decoded."""

    id: str
    label: str
    shape: Shape = "plain"
    classes: tuple[str, ...] = ()
    line: int = 0
    """From 1, where its shape was declared, or where it was first named."""


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
    """A subgraph: its id, its title, and what stands in it, groups included."""

    id: str
    title: str
    members: tuple[str, ...] = ()
    line: int = 0
    direction: str = ""
    """Of what stands in it; empty where it says none."""


@dataclass(frozen=True)
class Graph:
    """A flowchart: everything in the order of the text."""

    direction: str = "TB"
    nodes: tuple[Node, ...] = ()
    links: tuple[Link, ...] = ()
    groups: tuple[Group, ...] = ()
    title: str = ""
    """Of its front matter."""


@dataclass(frozen=True)
class ConfigEntry:
    """An entry of the config block: what it says of the step `id`."""

    id: str
    data: dict[str, object] = field(default_factory=dict)
    line: int = 0
    """From 1, of the `%% @ID:`."""
