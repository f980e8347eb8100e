"""What a template says, as a tree, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from logist.core.text import paths


class TemplateError(ValueError):
    """A template that can't be read or rendered; `line` and `column` count from 1."""

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
    """A list of the data that is shown in words of its own, not as JSON, where it is looked up as a whole."""

    def __init__(self, items: Iterable[Any], shown: Iterable[SourcedText]) -> None:
        super().__init__(items)
        self.shown = tuple(shown)


class ToldFields(dict[str, Any]):
    """The same of an object."""

    def __init__(self, fields: dict[str, Any], shown: SourcedText) -> None:
        super().__init__(fields)
        self.shown = (shown,)


@dataclass(frozen=True)
class ActionPlace:
    """Where an action stands, from 1, and how it is written."""

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
    """What `if` asks: the truth of a value, or whether two are equal."""

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
    """An action that is none of ours; it stays as it is written."""

    message: str
    place: ActionPlace


@dataclass(frozen=True)
class Branch:
    """`{{if}}` or `{{else if}}` with what it shows."""

    holds: Holds
    body: tuple[Node, ...]
    place: ActionPlace


@dataclass(frozen=True)
class If:
    """Its branches in order, then what is shown if none holds."""

    branches: tuple[Branch, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True)
class Range:
    """`{{range path}}`, then what is shown if there is no item."""

    name: Name
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    place: ActionPlace


Node: TypeAlias = str | Look | Unknown | If | Range
