"""The syntax tree of a template, and the error for a broken one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from logist.core.text import paths


class TemplateError(ValueError):
    """Raised for a template that can't be read or rendered; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message = message
        self.line = line
        self.column = column


class SourcedText(str):
    """A text of the data that says where it comes from."""

    source: str

    def __new__(cls, text: str, source: str) -> SourcedText:
        sourced_text = super().__new__(cls, text)
        sourced_text.source = source
        return sourced_text


class ToldList(list[Any]):
    """A list of the data that is rendered in its own words instead of JSON, if it is looked up as a whole."""

    def __init__(self, items: Iterable[Any], shown: Iterable[SourcedText]) -> None:
        super().__init__(items)
        self.shown = tuple(shown)


class ToldFields(dict[str, Any]):
    """An object of the data that is rendered in its own words instead of
    JSON, if it is looked up as a whole.
    """

    def __init__(self, fields: dict[str, Any], shown: SourcedText) -> None:
        super().__init__(fields)
        self.shown = (shown,)


@dataclass(frozen=True)
class ActionPlace:
    """Line and column of an action, from 1, and its text."""

    line: int
    column: int
    written: str


@dataclass(frozen=True)
class Name:
    """A path as an action names it: `.x` is of the item (or the data), `$.x` of the data, `x` of the nearest that has it."""

    path: paths.Path
    dotted: bool

    @property
    def from_root(self) -> bool:
        """Whether it begins with `$`, the data as a whole."""
        return not self.dotted and self.path[:1] == ("$",)


@dataclass(frozen=True)
class Holds:
    """The condition of an `if`: the truth of a value, or whether two are equal."""

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
    """An action that can't be read; it stays as it is written."""

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
    """The branches in order, then the body that is rendered if none is taken."""

    branches: tuple[Branch, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True)
class Range:
    """`{{range path}}`, then the body that is rendered if there is no item."""

    name: Name
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    place: ActionPlace


Node: TypeAlias = str | Look | Unknown | If | Range
