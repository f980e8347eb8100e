"""A condition that was found sound, and what it says of data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from logist.core import paths
from logist.core.condition import values
from logist.core.condition.evaluation import Lookup, Test
from logist.core.condition.fault import Unusable
from logist.core.condition.forms import Reading

NO_VALUE = "it has no value, whatever the data"


@dataclass(frozen=True)
class Verdict:
    """Whether a branch is taken, and what was looked at on the way."""

    taken: bool
    values: dict[str, Any] = field(default_factory=dict)
    """What stood at each path, as JSON; long values are shortened."""
    error: str | None = None
    """Why it could not be decided, which counts as not taken."""
    missing: tuple[str, ...] = ()
    """The paths where nothing stood."""


@dataclass(frozen=True)
class Condition:
    """A condition that can be judged; made by `compiled`."""

    form: Any
    """As it was written."""
    paths: tuple[paths.Path, ...]
    """Every path it looks at, in order."""
    _test: Test = field(repr=False, compare=False)
    _lookup: Lookup = field(repr=False, compare=False)

    @property
    def roots(self) -> frozenset[str]:
        """The first names of its paths."""
        return frozenset(str(path[0]) for path in self.paths if path)

    def judge(self, data: Any) -> Verdict:
        """What it says of the data. Raises nothing, whatever the data is."""
        found = {paths.written(path): self._lookup(data, path) for path in self.paths}
        seen = {name: values.short(value) for name, value in found.items() if value is not paths.MISSING}
        missing = tuple(name for name, value in found.items() if value is paths.MISSING)
        try:
            return Verdict(self._test(data), seen, None, missing)
        except Unusable as fault:
            return Verdict(False, seen, str(fault) or _misfit(found), missing)


def _misfit(found: dict[str, Any]) -> str:
    kinds = [f"`{name[:200]}` is {values.kind(value)}" for name, value in found.items()]
    return ": ".join(["the kinds of the values do not fit", ", ".join(kinds[:5])]) if kinds else NO_VALUE


def compiled(form: Any, known_roots: Collection[str], *, javascript: bool = True) -> Condition:
    """The condition, ready to be judged. ConditionError, with a column, for one that no data could decide.

    Not `javascript` is the rule of earlier versions for values of different kinds, and for the length of an object.
    """
    reading = Reading(frozenset(known_roots), javascript=javascript)
    test = reading.build_test(form)
    return Condition(form, tuple(reading.reader.paths), test, reading.reader.lookup)
