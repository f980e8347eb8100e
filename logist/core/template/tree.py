"""The syntax tree of a template, and the error for an invalid template."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from logist.core.text import paths
from logist.quick_dataclass import dataclass


class TemplateError(ValueError):
    """Raised for a template that can't be parsed or rendered; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message = message
        self.line = line
        self.column = column


class SourcedText(str):
    """A text in the data that knows its source."""

    source: str

    def __new__(cls, text: str, source: str) -> SourcedText:
        sourced_text = super().__new__(cls, text)
        sourced_text.source = source
        return sourced_text


class ToldList(list[Any]):
    """A list in the data that is rendered as `shown` instead of JSON, if the complete list is inserted."""

    def __init__(self, items: Iterable[Any], shown: Iterable[SourcedText]) -> None:
        super().__init__(items)
        self.shown = tuple(shown)


class ToldFields(dict[str, Any]):
    """An object in the data that is rendered as `shown` instead of JSON, if the complete object is inserted."""

    def __init__(self, fields: dict[str, Any], shown: SourcedText) -> None:
        super().__init__(fields)
        self.shown = (shown,)


@dataclass(frozen=True)
class ActionPlace:
    """Line and column of an action, counted from 1, and its text."""

    line: int
    column: int
    written: str


@dataclass(frozen=True)
class Name:
    """A path in an action: `.x` is in the item (or the data), `$.x` in the data, `x` in the nearest scope that has it."""

    path: paths.Path
    dotted: bool

    @property
    def from_root(self) -> bool:
        """Whether the path begins with `$`, the complete data."""
        return not self.dotted and self.path[:1] == ("$",)


@dataclass(frozen=True)
class Holds:
    """The condition of an `if`: whether a value is true, or whether two values are equal."""

    left: Name | str | float | bool | None
    right: Name | str | float | bool | None = None
    compares: bool = False
    negated: bool = False


@dataclass(frozen=True)
class Look:
    """`{{path}}`."""

    name: Name
    place: ActionPlace


@dataclass(frozen=True)
class Unknown:
    """An action that can't be parsed; it is kept unchanged."""

    message: str
    place: ActionPlace


@dataclass(frozen=True)
class Branch:
    """`{{if}}` or `{{else if}}` with its body."""

    holds: Holds
    body: tuple[Node, ...]
    place: ActionPlace


@dataclass(frozen=True)
class If:
    """The branches in order, and the body that is rendered if none of them is taken."""

    branches: tuple[Branch, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True)
class Range:
    """`{{range path}}`, and the body that is rendered if there are no items."""

    name: Name
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    place: ActionPlace


Node: TypeAlias = str | Look | Unknown | If | Range
