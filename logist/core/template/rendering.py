"""Render the tree of a template with data, within limits."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field
from itertools import groupby
from typing import Any

from logist.core.template.parsing import parse_template
from logist.core.template.tree import (
    ActionPlace,
    Holds,
    If,
    Look,
    Name,
    Node,
    Range,
    SourcedText,
    TemplateError,
    ToldFields,
    ToldList,
    Unknown,
)
from logist.core.text import paths
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

MAX_OUTPUT = 1_000_000
"""The maximum length of a rendered text, in characters."""
MAX_STEPS = 100_000
"""The maximum number of pieces, branches and items of one rendering."""
MAX_WARNINGS = 50

_JSON = json.JSONEncoder(ensure_ascii=False, indent=2)


class RenderedSpan(NamedTuple):
    """A part of a rendered text that comes from one source."""

    text: str
    source: str | None
    """The source of a value (`SourcedText`), or else the first name of its path; None: the template itself."""


@dataclass(frozen=True)
class Rendered:
    """A rendered text, with warnings about placeholders that could not be filled."""

    text: str
    warnings: tuple[str, ...] = ()
    spans: tuple[RenderedSpan, ...] = field(default=(), compare=False)
    """The same text, divided by source; no span is empty."""
    looked: frozenset[tuple[str, ...]] = field(default=frozenset(), compare=False)
    """The paths of the values that were inserted."""

    def has_whole_value(self, *path: str | int) -> bool:
        """Whether the text contains the complete value at this path: the value or a parent of it was inserted."""
        keys = tuple(map(str, path))
        return any(keys[:end] in self.looked for end in range(len(keys) + 1))


class _Scope(NamedTuple):
    """A value of `.` and its path in the data."""

    value: Any
    path: paths.Path = ()


class Rendering:
    """One rendering: its data, the output so far, and the use of its limits."""

    def __init__(self, data: Any, *, strict: bool, declared: Collection[str]) -> None:
        self._scopes = [_Scope(data)]
        self._strict = strict
        self._declared = declared
        self._spans: list[RenderedSpan] = []
        self._looked: set[tuple[str, ...]] = set()
        self._length = 0
        self._steps = 0
        self._warnings: dict[str, None] = {}

    def render_text(self, nodes: Iterable[Node]) -> Rendered:
        """Return the text of these nodes. Raises TemplateError if a limit is exceeded, or if a strict rendering lacks a
        value.
        """
        self._render_nodes(nodes)
        text = "".join(span.text for span in self._spans)
        return Rendered(
            text, tuple(self._warnings), tuple(_merge_spans(self._spans)), frozenset(self._looked)
        )

    def _render_nodes(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            match node:
                case str():
                    self._write_text(node, None)
                case Look():
                    self._render_value(node)
                case Unknown():
                    self._keep_as_written(node.message, node.place)
                case If():
                    self._render_nodes(self._choose_branch(node))
                case Range():
                    self._render_range(node)

    def _write_text(self, text: str, place: ActionPlace | None, source: str | None = None) -> None:
        self._count_step(place)
        self._length += len(text)
        if self._length > MAX_OUTPUT:
            raise _make_error(f"the rendered text is too long: more than {MAX_OUTPUT:,} characters", place)
        self._spans.append(RenderedSpan(text, source))

    def _count_step(self, place: ActionPlace | None) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _make_error(f"rendering takes too many steps: more than {MAX_STEPS:,}", place)

    def _render_value(self, node: Look) -> None:
        value, path = self._find_value(node.name)
        if value is paths.MISSING:
            if not self._is_declared(node.name):
                self._keep_as_written(f"`{node.place.written[:80]}` not found in the data", node.place)
            return
        self._looked.add(tuple(map(str, path)))
        if isinstance(value, ToldList | ToldFields):
            for told in value.shown:
                self._write_text(str(told), node.place, told.source)
        else:
            self._write_text(self._value_to_text(value, node.place), node.place, _name_source(value, path))

    def _keep_as_written(self, message: str, place: ActionPlace) -> None:
        if self._strict:
            raise _make_error(message, place)
        self._add_warning(f"{message}; left unchanged", place)
        self._write_text(place.written, place)

    def _add_warning(self, message: str, place: ActionPlace) -> None:
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings[f"line {place.line}, column {place.column}: {message}"] = None

    def _value_to_text(self, value: Any, place: ActionPlace) -> str:
        """Return text unchanged, and any other value as indented JSON, up to the limit."""
        if isinstance(value, str):
            return str(value)
        length, pieces = self._length, []
        try:
            for piece in _JSON.iterencode(value):
                length += len(piece)
                if length > MAX_OUTPUT:
                    break  # _write_text raises the error
                pieces.append(piece)
        except (TypeError, ValueError, RecursionError):
            raise _make_error(
                f"`{place.written[:80]}` is not a JSON value, or is nested too deeply", place
            ) from None
        return "".join(pieces) if length <= MAX_OUTPUT else " " * (MAX_OUTPUT + 1)

    def _find_value(self, name: Name) -> _Scope:
        """Return the value, or MISSING, and its path in the data."""
        if name.from_root:
            return _look_up_path(self._scopes[0], name.path[1:])
        if name.dotted:
            return _look_up_path(self._scopes[-1], name.path)
        around = (
            scope
            for scope in reversed(self._scopes)
            if paths.lookup(scope.value, name.path[:1]) is not paths.MISSING
        )
        return _look_up_path(next(around, self._scopes[0]), name.path)

    def _is_declared(self, name: Name) -> bool:
        """Whether the name is a field of the data that may be absent: by its first name, or by its complete path."""
        path = name.path[1:] if name.from_root else name.path
        of_item = name.dotted and len(self._scopes) > 1
        return (
            bool(path)
            and not of_item
            and (path[0] in self._declared or paths.path_to_text(path) in self._declared)
        )

    def _choose_branch(self, node: If) -> Sequence[Node]:
        for branch in node.branches:
            self._count_step(branch.place)
            if self._is_condition_met(branch.holds):
                return branch.body
        return node.otherwise

    def _is_condition_met(self, holds: Holds) -> bool:
        left = self._evaluate_operand(holds.left)
        is_met = _is_equal(left, self._evaluate_operand(holds.right)) if holds.compares else _is_truthy(left)
        return is_met is not holds.negated

    def _evaluate_operand(self, operand: Name | str | float | bool | None) -> Any:
        return self._find_value(operand).value if isinstance(operand, Name) else operand

    def _render_range(self, node: Range) -> None:
        items = self._list_items(node)
        if not items:
            self._render_nodes(node.otherwise)
        for item in items:
            self._count_step(node.place)
            self._scopes.append(item)
            self._render_nodes(node.body)
            self._scopes.pop()

    def _list_items(self, node: Range) -> Sequence[_Scope]:
        value, path = self._find_value(node.name)
        if isinstance(value, list | tuple):
            return [_Scope(item, (*path, number)) for number, item in enumerate(value)]
        if isinstance(value, dict):
            return [_Scope(value[key], (*path, str(key))) for key in sorted(value, key=str)]
        if value is not paths.MISSING and value is not None:
            message = f"`{node.place.written[:80]}` is not a list"
            if self._strict:
                raise _make_error(message, node.place)
            self._add_warning(f"{message}; treated as empty", node.place)
        return ()


def _look_up_path(scope: _Scope, path: paths.Path) -> _Scope:
    return _Scope(paths.lookup(scope.value, path), (*scope.path, *path))


def _name_source(value: Any, path: paths.Path) -> str:
    return value.source if isinstance(value, SourcedText) else str(path[0]) if path else ""


def _merge_spans(spans: Iterable[RenderedSpan]) -> Iterable[RenderedSpan]:
    """Join consecutive spans with the same source; leave out empty ones."""
    for source, run in groupby((span for span in spans if span.text), key=lambda span: span.source):
        yield RenderedSpan("".join(span.text for span in run), source)


def _is_truthy(value: Any) -> bool:
    """Whether the value is true in Go's templates: empty values and zero are false, also empty lists and objects."""
    if isinstance(value, float) and math.isnan(value):
        return True
    return (
        value is not paths.MISSING
        and isinstance(value, str | int | float | list | tuple | dict)
        and bool(value)
    )


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two texts, numbers, booleans or nulls are equal; a missing value equals nothing."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    return one is None and other is None


def _make_error(message: str, place: ActionPlace | None) -> TemplateError:
    return TemplateError(message, place.line if place else 1, place.column if place else 1)


def render(text: str, data: Any, strict: bool = False, declared: Collection[str] = ()) -> Rendered:
    """Fill the template from the data; the result has warnings for placeholders that could not be filled.

    `declared` are fields of the data that may be absent. Raises only TemplateError: for an invalid block, for a
    limit that is exceeded, and if `strict` for names that are not in the data.
    """
    return Rendering(data, strict=strict, declared=declared).render_text(parse_template(text))
