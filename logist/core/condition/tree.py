"""What an expression says, as a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from logist.core import paths

ComparisonSign: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
Function: TypeAlias = Literal["includes", "startsWith", "endsWith"]


@dataclass(frozen=True)
class Read:
    """What stands at a path."""

    path: paths.Path
    column: int


@dataclass(frozen=True)
class Constant:
    """A text, a number, true, false or null (None)."""

    value: str | float | bool | None
    column: int


@dataclass(frozen=True)
class Items:
    """A list that is written out."""

    items: tuple[Node, ...]
    column: int


@dataclass(frozen=True)
class Not:
    """The opposite of a yes or no."""

    node: Node
    column: int


@dataclass(frozen=True)
class Negative:
    """A number with its sign turned."""

    node: Node
    column: int


@dataclass(frozen=True)
class Logic:
    """All of them, or any of them."""

    sign: Literal["&&", "||"]
    nodes: tuple[Node, ...]
    column: int


@dataclass(frozen=True)
class Comparison:
    """Two values side by side."""

    sign: ComparisonSign
    left: Node
    right: Node
    column: int


@dataclass(frozen=True)
class Arithmetic:
    """Terms from left to right, each with the sign before it (the first has none)."""

    first: Node
    rest: tuple[tuple[str, Node], ...]
    column: int


@dataclass(frozen=True)
class Member:
    """`item in holder`."""

    item: Node
    holder: Node
    column: int


@dataclass(frozen=True)
class Call:
    """A function of what stands before the dot."""

    function: Function
    holder: Node
    argument: Node
    column: int


@dataclass(frozen=True)
class Choice:
    """`condition ? yes : no`."""

    condition: Node
    yes: Node
    no: Node
    column: int


Node: TypeAlias = (
    Read | Constant | Items | Not | Negative | Logic | Comparison | Arithmetic | Member | Call | Choice
)
