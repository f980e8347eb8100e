"""A condition that was found sound, and what it says of data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from logist.core import paths
from logist.core.condition import cel, values
from logist.core.condition.fault import Unusable
from logist.core.condition.forms import Reading
from logist.core.condition.slots import Lookup, Take

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
    _program: Any = field(repr=False, compare=False)
    _takes: tuple[Take, ...] = field(repr=False, compare=False)
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
        given, reasons = self._given(data)
        try:
            return Verdict(cel.judged(self._program, given), seen, None, missing)
        except cel.Faulty as fault:
            reason = reasons.get(fault.name or "") or _misfit(found)
            return Verdict(False, seen, reason, missing)

    def _given(self, data: Any) -> tuple[dict[str, Any], dict[str, str]]:
        """The values for the program, and why others can't be had."""
        given: dict[str, Any] = {}
        reasons: dict[str, str] = {}
        for place, take in enumerate(self._takes):
            try:
                given[f"v{place}"] = take(data)
            except Unusable as fault:
                reasons[f"v{place}"] = str(fault)
        return given, reasons


def _misfit(found: dict[str, Any]) -> str:
    kinds = [f"`{name[:200]}` is {values.kind(value)}" for name, value in found.items()]
    return ": ".join(["the kinds of the values do not fit", ", ".join(kinds[:5])]) if kinds else NO_VALUE


def compiled(form: Any, known_roots: Collection[str], *, javascript: bool = True) -> Condition:
    """The condition, ready to be judged. ConditionError, with a column, for one that no data could decide.

    Not `javascript` is the rule of earlier versions for values of different kinds, and for the length of an object.
    """
    reading = Reading(frozenset(known_roots), javascript=javascript)
    text = reading.program(form)
    program = cel.compiled(text, len(reading.slots.takes))
    slots = reading.slots
    return Condition(form, tuple(slots.reads), program, tuple(slots.takes), slots.lookup)
