"""The syntax tree of an expression."""

from __future__ import annotations

from typing import Literal, TypeAlias

from logist.core.text import paths
from logist.quick_dataclass import dataclass

ComparisonSign: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
Function: TypeAlias = Literal["includes", "startsWith", "endsWith"]


@dataclass(frozen=True)
class PathNode:
    """The value at a path."""

    path: paths.Path
    column: int


@dataclass(frozen=True)
class ConstantNode:
    """A text, a number, true, false or null (None)."""

    value: str | float | bool | None
    column: int


@dataclass(frozen=True)
class ListNode:
    """A list literal."""

    items: tuple[Node, ...]
    column: int


@dataclass(frozen=True)
class NotNode:
    """`!node`."""

    node: Node
    column: int


@dataclass(frozen=True)
class NegativeNode:
    """`-node`."""

    node: Node
    column: int


@dataclass(frozen=True)
class LogicNode:
    """All of the nodes joined by `&&`, or any of them by `||`."""

    sign: Literal["&&", "||"]
    nodes: tuple[Node, ...]
    column: int


@dataclass(frozen=True)
class ComparisonNode:
    """A comparison of two values."""

    sign: ComparisonSign
    left: Node
    right: Node
    column: int


@dataclass(frozen=True)
class ArithmeticNode:
    """Terms from left to right, each with the sign before it (the first has none)."""

    first: Node
    rest: tuple[tuple[str, Node], ...]
    column: int


@dataclass(frozen=True)
class MembershipNode:
    """`item in holder`."""

    item: Node
    holder: Node
    column: int


@dataclass(frozen=True)
class CallNode:
    """`holder.function(argument)`."""

    function: Function
    holder: Node
    argument: Node
    column: int


@dataclass(frozen=True)
class ChoiceNode:
    """`condition ? yes : no`."""

    condition: Node
    yes: Node
    no: Node
    column: int


Node: TypeAlias = (
    PathNode
    | ConstantNode
    | ListNode
    | NotNode
    | NegativeNode
    | LogicNode
    | ComparisonNode
    | ArithmeticNode
    | MembershipNode
    | CallNode
    | ChoiceNode
)
