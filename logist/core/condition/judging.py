"""Evaluate a valid condition on data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from typing import Any

from logist.core.condition import values
from logist.core.condition.evaluation import Lookup, Test
from logist.core.condition.fault import Unusable
from logist.core.condition.forms import ConditionBuilder
from logist.core.text import paths
from logist.quick_dataclass import dataclass

NO_VALUE = "the condition can't be evaluated with any data"


@dataclass(frozen=True)
class ConditionVerdict:
    """Whether a condition matches, and the values that decided it."""

    taken: bool
    values: dict[str, Any] = field(default_factory=dict)
    """The value at each path, as JSON; long values are shortened."""
    error: str | None = None
    """Why the condition can't be evaluated; then the branch is not taken."""
    missing: tuple[str, ...] = ()
    """The paths without a value."""


@dataclass(frozen=True)
class Condition:
    """A valid condition, ready to be evaluated; built by `compile_condition`."""

    form: Any
    """The condition as its author wrote it."""
    paths: tuple[paths.Path, ...]
    """Every path it reads, in order."""
    _test: Test = field(repr=False, compare=False)
    _lookup: Lookup = field(repr=False, compare=False)

    @property
    def roots(self) -> frozenset[str]:
        """The first names of its paths."""
        return frozenset(str(path[0]) for path in self.paths if path)

    def judge_data(self, data: Any) -> ConditionVerdict:
        """Evaluate the condition on the data. Never raises."""
        values_by_name = {paths.path_to_text(path): self._lookup(data, path) for path in self.paths}
        shortened_values = {
            name: values.shorten_value(value)
            for name, value in values_by_name.items()
            if value is not paths.MISSING
        }
        missing = tuple(name for name, value in values_by_name.items() if value is paths.MISSING)
        try:
            return ConditionVerdict(self._test(data), shortened_values, None, missing)
        except Unusable as fault:
            return ConditionVerdict(
                False, shortened_values, str(fault) or _describe_kinds(values_by_name), missing
            )


def _describe_kinds(found: dict[str, Any]) -> str:
    kinds = [f"`{name[:200]}` is {values.describe_kind(value)}" for name, value in found.items()]
    return ": ".join(["the types of the values don't match", ", ".join(kinds[:5])]) if kinds else NO_VALUE


def compile_condition(form: Any, known_roots: Collection[str], *, javascript: bool = True) -> Condition:
    """Return a condition that can be evaluated. Raises ConditionError, with a column, for an invalid one.

    Without `javascript`, the rule of earlier versions applies to values of different types and to `.length`.
    """
    reading = ConditionBuilder(frozenset(known_roots), javascript=javascript)
    test = reading.build_test(form)
    return Condition(form, tuple(reading.reader.paths), test, reading.reader.lookup)
