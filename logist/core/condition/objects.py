"""Build conditions written as an object: `{var, equals, gt, and, or, not}`. Agent guidance servers use this form
too.

All operators of one object must match. Texts are compared like labels: ignoring case and surrounding space.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from logist.core.condition import values
from logist.core.condition.evaluation import DataReader, Lookup, Test, name_path
from logist.core.condition.fault import ConditionError, Unusable
from logist.core.text import paths

MAX_NAMES = 1_000
"""The maximum number of values of an `in`."""

Operator = Callable[[Any, Any], bool]
"""(value, operand in the condition) -> result; a message of Unusable completes the sentence "`path` ..."."""


def _make_order(holds: Callable[[Any, Any], bool]) -> Operator:
    def test(value: Any, wanted: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, str if isinstance(wanted, str) else int | float):
            raise Unusable(f"is {values.describe_kind(value)}, not {values.describe_kind(wanted)}")
        return holds(value, wanted)

    return test


def _make_text_operator(holds: Callable[[str, str], bool]) -> Operator:
    def test(value: Any, wanted: Any) -> bool:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise Unusable(f"is {values.describe_kind(value)}, not text")
        return holds(_fold_value(value), _fold_value(wanted))

    return test


def _fold_value(value: Any) -> str:
    return values.fold_text(value if isinstance(value, str) else paths.format_value(value))


def _is_contained(value: Any, wanted: Any) -> bool:
    if isinstance(value, list | tuple):
        if len(value) > values.MAX_MEMBERS:
            raise Unusable(f"is too long to search: {len(value):,} items")
        return any(values.is_alike(item, wanted) for item in value)
    return _make_text_operator(str.__contains__)(value, wanted)


OPERATORS: dict[str, Operator] = {
    "equals": values.is_alike,
    "not_equals": lambda value, wanted: not values.is_alike(value, wanted),
    "gt": _make_order(lambda value, wanted: bool(value > wanted)),
    "gte": _make_order(lambda value, wanted: bool(value >= wanted)),
    "lt": _make_order(lambda value, wanted: bool(value < wanted)),
    "lte": _make_order(lambda value, wanted: bool(value <= wanted)),
    "in": lambda value, wanted: any(values.is_alike(value, item) for item in wanted),
    "contains": _is_contained,
    "startsWith": _make_text_operator(str.startswith),
    "endsWith": _make_text_operator(str.endswith),
    "exists": lambda value, wanted: (value is not paths.MISSING) is wanted,
}
"""The operators that need a `var`."""
LOGIC = ("and", "or", "not", "unless")
KEYS = ("var", *OPERATORS, *LOGIC)

_SIGNS = {"equals": "=", "not_equals": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def check_object(form: dict[Any, Any]) -> None:
    """Raise ConditionError for an unknown operator, an operator without `var`, or an operand of the wrong type."""
    for key in form:
        if key not in KEYS:
            known = ", ".join(KEYS)
            raise ConditionError(f"unknown operator `{str(key)[:40]}`; known: {known}")
    if operators := [key for key in OPERATORS if key in form]:
        if "var" not in form:
            raise ConditionError(f"`{operators[0]}` needs a `var`, the path of the value to compare")
        for key in operators:
            _check_wanted(key, form[key])
    if "var" in form and not isinstance(form["var"], str):
        raise ConditionError("`var` must be a path, as in `output.score`")
    for key in ("and", "or"):
        if key in form and not isinstance(form[key], list | tuple):
            raise ConditionError(f"`{key}` must be a list of conditions")


def _check_wanted(key: str, wanted: Any) -> None:
    scalar = isinstance(wanted, str | int | float) and not isinstance(wanted, bool)
    if key in ("gt", "gte", "lt", "lte") and not scalar:
        raise ConditionError(f"`{key}` must be a number or text")
    if key in ("startsWith", "endsWith") and not scalar:
        raise ConditionError(f"`{key}` must be text")
    if key == "contains" and not isinstance(wanted, str | int | float):
        raise ConditionError("`contains` must be text, a number, true or false")
    if key == "in" and (not isinstance(wanted, list | tuple) or len(wanted) > MAX_NAMES):
        raise ConditionError(f"`in` must be a list of at most {MAX_NAMES:,} values")
    if key == "exists" and not isinstance(wanted, bool):
        raise ConditionError("`exists` must be true or false")


def build_tests(form: dict[Any, Any], reader: DataReader, known_roots: Collection[str]) -> list[Test]:
    """Build one test for each operator of this object."""
    if "var" not in form:
        return []
    operators = [key for key in OPERATORS if key in form]
    try:
        path = paths.parse(form["var"])
    except paths.PathError as fault:
        raise ConditionError(f"`var`: {fault.message}") from None
    var = Variable(path, not path or path[0] in known_roots, reader.lookup)
    for read in var.paths:
        reader.add_path(read)
    if not operators:
        return [lambda data: values.is_truthy(var.value(data, missing=False))]
    return [_build_test(key, form[key], var) for key in operators]


def _build_test(key: str, wanted: Any, var: Variable) -> Test:
    operator = OPERATORS[key]
    missing = key == "exists" or (key in ("equals", "not_equals") and wanted is None)

    def test(data: Any) -> bool:
        value = var.value(data, missing=missing)
        if key != "exists" and value is paths.MISSING:
            value = None
        try:
            return operator(value, wanted)
        except Unusable as fault:
            raise Unusable(f"`{var.written}` {fault}") from None

    return test


class Variable:
    """What a `var` refers to: a path, or for a bare name a field of the last output or else of the input.

    A bare name that is in neither is null, as on the servers that use such conditions.
    """

    def __init__(self, path: paths.Path, rooted: bool, lookup: Lookup) -> None:
        self._lookup = lookup
        self.written = name_path(path)
        self.paths = [path] if rooted else [("output", *path), ("input", *path)]
        self._rooted = rooted

    def value(self, data: Any, *, missing: bool) -> Any:
        """Return the value. A missing field is MISSING if `missing` is true; otherwise raises Unusable."""
        for path in self.paths:
            value = self._lookup(data, path)
            if value is not paths.MISSING:
                return value
        if missing:
            return paths.MISSING
        if self._rooted:
            raise Unusable(f"`{self.written}` is missing")
        return None


def describe_tests(form: dict[Any, Any]) -> list[str]:
    """Return the tests of this object as text for people, for example `output.score > 80`."""
    var = str(form["var"])[:200] if "var" in form else ""
    descriptions = [
        f"{var} {_SIGNS.get(key, key)} {paths.format_value(form[key])}" for key in OPERATORS if key in form
    ]
    return descriptions or ([var] if var else [])
