"""What a program needs to know: one name for each value, and how it is taken out of the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from logist.core import paths
from logist.core.condition import values
from logist.core.condition.fault import ConditionError, Unusable

Take = Callable[[Any], Any]
"""From the data to a value for CEL; raises Unusable."""

Operand: TypeAlias = "paths.Path | str | float | bool | None"
"""Of an order: a path, or a constant."""
Lookup = Callable[[Any, paths.Path], Any]
"""From the data and a path to what stands there, or MISSING."""

MAX_SLOTS = 200


class Slots:
    """The names of one program; the same value keeps its name."""

    def __init__(self, *, javascript: bool = True) -> None:
        self.javascript = javascript
        self.lookup: Lookup = paths.lookup if javascript else values.lookup_of_earlier_versions
        self._names: dict[Hashable, str] = {}
        self.takes: list[Take] = []
        self.reads: dict[paths.Path, None] = {}
        """Every path that is looked at, in order."""

    def name(self, key: Hashable, take: Take) -> str:
        """The name of that value; `key` tells it from every other."""
        if key not in self._names:
            if len(self.takes) == MAX_SLOTS:
                raise ConditionError(f"the condition looks at too much: at most {MAX_SLOTS} different values")
            self._names[key] = f"v{len(self.takes)}"
            self.takes.append(take)
        return self._names[key]

    def constant(self, value: Any) -> str:
        """The name of a value that no data changes."""
        return self.name(("constant", type(value).__name__, value), lambda data: value)

    def value(self, path: paths.Path) -> str:
        """What stands there."""
        return self._read("value", path, values.plain)

    def term(self, path: paths.Path) -> str:
        """What stands there, to calculate with."""
        return self._read("term", path, values.term)

    def truth(self, path: paths.Path) -> str:
        """Whether it counts as true."""
        return self._read("truth", path, values.truth)

    def nothing(self, path: paths.Path) -> str:
        """Whether nothing stands there: null, or no such field."""
        self.reads[path] = None
        return self.name(("nothing", path), lambda data: self.lookup(data, path) in (None, paths.MISSING))

    def given(self, path: paths.Path) -> str:
        """Whether something stands there that counts as true; a missing field is no error here."""
        self.reads[path] = None
        return self.name(("given", path), lambda data: values.truth(self.lookup(data, path)))

    def _read(self, use: str, path: paths.Path, what: Callable[[Any], Any]) -> str:
        self.reads[path] = None
        return self.name((use, path), lambda data: self._taken(data, path, what))

    def ordered(self, sign: str, one: Operand, other: Operand) -> str:
        """Whether `one < other`, with that sign, as JavaScript orders them."""
        for operand in (one, other):
            if isinstance(operand, tuple):
                self.reads[operand] = None

        def take(data: Any) -> bool:
            left, right = (
                self._taken(data, operand, values.primitive) if isinstance(operand, tuple) else operand
                for operand in (one, other)
            )
            if not (isinstance(left, str) and isinstance(right, str)):
                left, right = _number_of(left), _number_of(right)
            return values.is_ordered(sign, left, right)

        return self.name(("ordered", sign, _key(one), _key(other)), take)

    def _taken(self, data: Any, path: paths.Path, what: Callable[[Any], Any]) -> Any:
        value = self.lookup(data, path)
        if value is paths.MISSING:
            raise Unusable(f"`{named(path)}` is missing")
        try:
            return what(value)
        except Unusable as fault:
            raise Unusable(f"`{named(path)}` {fault}") from None


def _number_of(value: Any) -> float:
    """The number that JavaScript makes of a value. Unusable where it makes none of a text."""
    number = values.to_number(value)
    if math.isnan(number) and isinstance(value, str):
        raise Unusable("")  # JavaScript would say false; the verdict names the kinds of all values
    return number


def _key(operand: Operand) -> Hashable:
    return operand if isinstance(operand, tuple) else (type(operand).__name__, operand)


def named(path: paths.Path) -> str:
    """A path for a message, cut where it is very long."""
    return paths.written(path)[:200]
