"""Functions that check and convert a value, built from the annotation of its field.

Each check has a strict form, for what people write, and a lax form, which also converts "5" to 5. Strict is meant as
for JSON: an array may become a tuple, and a text a word of an enumeration.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from logist.lazy_patterns import compile_on_use
from logist.quick_model.fields import AfterValidator
from logist.quick_model.problems import Misfit, Problem
from logist.quick_tuple import NamedTuple

Run = Callable[[Any], Any]
"""Returns the value, converted if needed. Raises Misfit."""


class ValueCheck(NamedTuple):
    """How a value is checked."""

    exact: frozenset[type] | None
    """Values of exactly these types are valid unchanged; None: all values are."""
    run: Run
    """Checks all others, and may be called with any value that is not None."""
    label: str
    """pydantic's name for the check, which errors of unions contain."""


_CACHE: dict[tuple[int, int], tuple[Any, ValueCheck]] = {}
"""The checks by the id of their annotation, with the annotation, which keeps the id its own. Not by the annotation:
two literals are equal if only the order of their words differs, which errors name.
"""
_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "off", "f", "false", "n", "no"})
_INTEGER = compile_on_use(r"\s*([+-]?[0-9]+(?:_[0-9]+)*)(?:\.0+)?\s*")
_DOLLAR = compile_on_use(r"\\.|\[[^\]]*\]|\$")
NOTHING: frozenset[type] = frozenset()

_EXACT_BY_NAME = {each.__name__: frozenset({each}) for each in (str, int, float, bool)}

LAX, OWN, ALL = 0, 1, 2
"""How strict a check is: not; strict except for nested models, which decide themselves; strict everywhere."""


def build_check(annotation: Any, *, strict: int) -> ValueCheck:
    """Return the check of an annotation. Raises TypeError for one that is not supported."""
    key = (id(annotation), strict)
    if key not in _CACHE:
        _CACHE[key] = annotation, _build(annotation, strict)
    return _CACHE[key][1]


@cache
def find_exact_types(written: Any) -> frozenset[type]:
    """Return types of values that are valid unchanged, only by the text of an annotation; perhaps not all.

    Most values in a history are of these types. So they need no check, which takes longer to build than to run.
    """
    if not isinstance(written, str):
        return NOTHING
    text = written.removesuffix(" | None")
    exact = frozenset({NoneType}) if text != written else NOTHING
    if text.startswith("Open[Literal["):
        return exact | {str}
    return exact | _EXACT_BY_NAME.get(text, NOTHING)


def _build(annotation: Any, strict: int) -> ValueCheck:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _build_annotated(annotation, strict)
    if origin is Union or origin is UnionType:
        return _build_union(get_args(annotation), strict, ordered=False)
    if origin is Literal:
        return _build_literal(get_args(annotation))
    if origin in (list, tuple):
        return _build_sequence(annotation, origin, strict)
    if origin is dict:
        keys, values = get_args(annotation)
        return _build_dict(keys, values, strict)
    return _build_plain(annotation, strict)


def _build_plain(annotation: Any, strict: int) -> ValueCheck:
    if annotation is Any:
        return ValueCheck(None, _pass, "any")
    if annotation in _SCALARS:
        run, lax = _SCALARS[annotation]
        return ValueCheck(frozenset({annotation}), run if strict else lax, annotation.__name__)
    if annotation is dict:
        return _build_dict(Any, Any, strict)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _build_enum(annotation)
    if hasattr(annotation, "_check_nested"):
        return _build_model(annotation, strict)
    if isinstance(annotation, type):
        return _build_instance(annotation)
    raise TypeError(f"models don't support the annotation {annotation!r}")


def _pass(value: Any) -> Any:
    return value


# Texts and numbers


def _check_str(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)  # also a word of an enumeration becomes a plain text
    raise Misfit(Problem("string_type", "Input should be a valid string", value))


def _check_strict_int(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise Misfit(Problem("int_type", "Input should be a valid integer", value))


def _check_int(value: Any) -> Any:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _convert_float_to_int(value)
    if isinstance(value, str):
        if match := _INTEGER.fullmatch(value):
            return _parse_int(match[1], value)
        message = "Input should be a valid integer, unable to parse string as an integer"
        raise Misfit(Problem("int_parsing", message, value))
    return _check_strict_int(value)


def _parse_int(digits: str, value: str) -> int:
    try:
        return int(digits)
    except ValueError:  # more digits than Python converts
        message = "Unable to parse input string as an integer, exceeded maximum size"
        raise Misfit(Problem("int_parsing_size", message, value)) from None


def _convert_float_to_int(value: float) -> int:
    if not math.isfinite(value):
        raise Misfit(Problem("finite_number", "Input should be a finite number", value))
    if value.is_integer():
        return int(value)
    message = "Input should be a valid integer, got a number with a fractional part"
    raise Misfit(Problem("int_from_float", message, value))


def _check_strict_float(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _to_float(value)
    raise Misfit(Problem("float_type", "Input should be a valid number", value))


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a huge integer
        raise Misfit(Problem("float_type", "Input should be a valid number", value)) from None


def _check_float(value: Any) -> Any:
    if isinstance(value, int | float):
        return _to_float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            message = "Input should be a valid number, unable to parse string as a number"
            raise Misfit(Problem("float_parsing", message, value)) from None
    return _check_strict_float(value)


def _check_strict_bool(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    raise Misfit(Problem("bool_type", "Input should be a valid boolean", value))


def _check_bool(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, float | int) and (value % 1 != 0 or abs(value) >= 1 << 63):
        return _check_strict_bool(value)  # raises, also for infinity, and for what is no 64-bit integer
    if isinstance(value, str | int | float):
        word = value.lower() if isinstance(value, str) else str(int(value))
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        message = "Input should be a valid boolean, unable to interpret input"
        raise Misfit(Problem("bool_parsing", message, value))
    return _check_strict_bool(value)


def _check_none(value: Any) -> Any:
    if value is None:
        return None
    raise Misfit(Problem("none_required", "Input should be None", value))


_SCALARS: dict[Any, tuple[Run, Run]] = {
    str: (_check_str, _check_str),
    int: (_check_strict_int, _check_int),
    float: (_check_strict_float, _check_float),
    bool: (_check_strict_bool, _check_bool),
    NoneType: (_check_none, _check_none),
}


# Words


def _build_literal(words: tuple[Any, ...]) -> ValueCheck:
    known = {(type(word), word): word for word in words}
    expected = _join_words(words)

    def run(value: Any) -> Any:
        kind = str if isinstance(value, str) else type(value)
        try:
            return known[kind, value]
        except (KeyError, TypeError):
            message = f"Input should be {expected}"
            raise Misfit(Problem("literal_error", message, value, {"expected": expected})) from None

    return ValueCheck(NOTHING, run, f"literal[{','.join(map(repr, words))}]")


def _join_words(words: Iterable[Any]) -> str:
    shown = [repr(word) for word in words]
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def _build_enum(words: type[Enum]) -> ValueCheck:
    members = words._value2member_map_
    expected = _join_words(member.value for member in words)

    def run(value: Any) -> Any:
        if isinstance(value, words):
            return value
        member = members.get(value) if isinstance(value, str) else None
        if member is None:
            member = words._missing_(value)
        if member is not None:
            return member
        raise Misfit(Problem("enum", f"Input should be {expected}", value, {"expected": expected}))

    label = "str-enum" if issubclass(words, str) else "enum"
    return ValueCheck(frozenset({words}), run, f"{label}[{words.__name__}]")


# Constraints


def _build_annotated(annotation: Any, strict: int) -> ValueCheck:
    inner, *metadata = get_args(annotation)
    if any(getattr(each, "union_mode", None) == "left_to_right" for each in metadata):
        return _build_union(get_args(inner), strict, ordered=True)
    check = build_check(inner, strict=strict)
    for each in metadata:
        if isinstance(each, AfterValidator):
            check = _add_function(check, each.func)
        elif constraints := getattr(each, "constraints", None):
            check = _add_constraints(check, constraints)
    return check


def _add_function(check: ValueCheck, function: Run) -> ValueCheck:
    inner = _guard(check)

    def run(value: Any) -> Any:
        valid = inner(value)
        try:
            return function(valid)
        except ValueError as error:
            raise Misfit(Problem("value_error", f"Value error, {error}", value, {"error": error})) from error

    return ValueCheck(NOTHING, run, f"function-after[{function.__name__}(), {check.label}]")


def _guard(check: ValueCheck) -> Run:
    """Return a function that checks any value, also one of an exact type."""
    exact, run = check.exact, check.run
    return lambda value: value if exact is None or type(value) in exact else run(value)


def _add_constraints(check: ValueCheck, constraints: Mapping[str, Any]) -> ValueCheck:
    kind = check.label.removeprefix("constrained-")
    if kind == "str":
        tests = _build_text_tests(constraints)
    elif kind in ("int", "float"):
        tests = _build_number_tests(constraints, float if kind == "float" else int)
    else:
        return _add_length(check, constraints)
    inner = _guard(check)

    def run(value: Any) -> Any:
        valid = inner(value)
        for test in tests:
            if problem := test(valid):
                raise Misfit(problem._replace(input=value))
        return valid

    return ValueCheck(NOTHING, run, f"constrained-{kind}")


Test = Callable[[Any], Problem | None]

_COMPARISONS: dict[str, tuple[Callable[[Any, Any], bool], str, str]] = {
    "le": (lambda value, limit: value <= limit, "less_than_equal", "less than or equal to"),
    "lt": (lambda value, limit: value < limit, "less_than", "less than"),
    "ge": (lambda value, limit: value >= limit, "greater_than_equal", "greater than or equal to"),
    "gt": (lambda value, limit: value > limit, "greater_than", "greater than"),
}
"""By constraint: the comparison, and its names in errors. In the order in which pydantic tries them."""


def _build_number_tests(constraints: Mapping[str, Any], kind: type) -> list[Test]:
    tests: list[Test] = []
    if constraints.get("allow_inf_nan") is False:
        tests.append(_find_infinity)
    for name in _COMPARISONS:
        if name in constraints:
            tests.append(_build_comparison(name, kind(constraints[name])))
    return tests


def _find_infinity(value: Any) -> Problem | None:
    if math.isfinite(value):
        return None
    return Problem("finite_number", "Input should be a finite number", value)


def _build_comparison(name: str, limit: Any) -> Test:
    compare, type_name, words = _COMPARISONS[name]
    shown = int(limit) if limit == int(limit) else limit
    problem = Problem(type_name, f"Input should be {words} {shown}", None, {name: limit})
    return lambda value: None if compare(value, limit) else problem


def _build_text_tests(constraints: Mapping[str, Any]) -> list[Test]:
    tests: list[Test] = [_find_surrogates]
    if (most := constraints.get("max_length")) is not None:
        message = f"String should have at most {_count_characters(most)}"
        longest = Problem("string_too_long", message, None, {"max_length": most})
        tests.append(lambda value: longest if len(value) > most else None)
    if (least := constraints.get("min_length")) is not None:
        message = f"String should have at least {_count_characters(least)}"
        shortest = Problem("string_too_short", message, None, {"min_length": least})
        tests.append(lambda value: shortest if len(value) < least else None)
    if (pattern := constraints.get("pattern")) is not None:
        search = re.compile(_translate_pattern(pattern)).search
        message = f"String should match pattern '{pattern}'"
        different = Problem("string_pattern_mismatch", message, None, {"pattern": pattern})
        tests.append(lambda value: None if search(value) else different)
    return tests


def _count_characters(count: int) -> str:
    return f"{count} character{'' if count == 1 else 's'}"


def _translate_pattern(pattern: str) -> str:
    """Return the pattern with `$` as the end of the text only; in Python it also matches before a last line feed."""
    return _DOLLAR.sub(lambda match: r"\Z" if match[0] == "$" else match[0], pattern)


def _find_surrogates(value: str) -> Problem | None:
    if is_unicode(value):
        return None
    message = "Input should be a valid string, unable to parse raw data as a unicode string"
    return Problem("string_unicode", message, value)


def is_unicode(text: str) -> bool:
    """Whether the text can be encoded: it has no surrogates."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def _add_length(check: ValueCheck, constraints: Mapping[str, Any]) -> ValueCheck:
    """Add a minimum length to a list or tuple."""
    least, kind = constraints["min_length"], check.label.partition("[")[0].title()
    if {*constraints} != {"min_length"} or kind not in ("List", "Tuple"):
        raise TypeError(f"models don't support the constraints {dict(constraints)} for {check.label}")
    run_inner = check.run
    items = f"{least} item{'' if least == 1 else 's'}"

    def run(value: Any) -> Any:
        problems: tuple[Problem, ...] = ()
        count = 0
        try:
            valid = run_inner(value)
            count = len(valid)
        except Misfit as misfit:
            problems = misfit.problems
            if kind == "List" or not problems[0].loc:  # pydantic counts the valid items of tuples only
                raise
            count = len(value) - len({problem.loc[0] for problem in problems})
        if count < least:
            message = f"{kind} should have at least {items} after validation, not {count}"
            context = {"field_type": kind, "min_length": least, "actual_length": count}
            problems = (*problems, Problem("too_short", message, value, context))
        if problems:
            raise Misfit(*problems)
        return valid

    return ValueCheck(NOTHING, run, check.label)


# Lists, mappings, models

_LISTS: dict[Any, tuple[type, ...]] = {list: (list,), tuple: (list, tuple)}
"""What is accepted as a list or tuple if strict."""


def _build_sequence(annotation: Any, kind: Any, strict: int) -> ValueCheck:
    arguments = get_args(annotation)
    if kind is tuple and arguments[1:] != (...,):
        raise TypeError(f"models don't support the annotation {annotation!r}")
    exact, run_item, label = build_check(arguments[0], strict=strict)
    name = kind.__name__
    others: Any = _LISTS[kind] if strict else (list, tuple, set, frozenset)

    def run(value: Any) -> Any:
        if not isinstance(value, others):
            raise Misfit(Problem(f"{name}_type", f"Input should be a valid {name}", value))
        if exact is None or exact.issuperset(map(type, value)):
            return kind(value)
        return kind(_check_items(value, exact, run_item))

    return ValueCheck(NOTHING, run, f"{name}[{label}, ...]" if kind is tuple else f"{name}[{label}]")


def _check_items(values: Iterable[Any], exact: frozenset[type], run: Run) -> list[Any]:
    checked = []
    problems: list[Problem] = []
    for index, value in enumerate(values):
        if type(value) in exact:
            checked.append(value)
            continue
        try:
            checked.append(run(value))
        except Misfit as misfit:
            problems += [each.below(index) for each in misfit.problems]
    if problems:
        raise Misfit(*problems)
    return checked


def _build_dict(key_annotation: Any, value_annotation: Any, strict: int) -> ValueCheck:
    keys = build_check(key_annotation, strict=strict)
    values = build_check(value_annotation, strict=strict)

    def run(value: Any) -> Any:
        if not isinstance(value, dict if strict else Mapping):
            raise Misfit(Problem("dict_type", "Input should be a valid dictionary", value))
        if (keys.exact is None or keys.exact.issuperset(map(type, value))) and (
            values.exact is None or values.exact.issuperset(map(type, value.values()))
        ):
            return dict(value)
        return _check_entries(value, keys, values)

    return ValueCheck(NOTHING, run, f"dict[{keys.label},{values.label}]")


def _check_entries(mapping: Mapping[Any, Any], keys: ValueCheck, values: ValueCheck) -> dict[Any, Any]:
    run_key, run_value = _guard(keys), _guard(values)
    checked = {}
    problems: list[Problem] = []
    for key, value in mapping.items():
        valid_key = valid_value = None
        count = len(problems)
        try:
            valid_key = run_key(key)
        except Misfit as misfit:
            problems += [each.below(key, "[key]") for each in misfit.problems]
        try:
            valid_value = run_value(value)
        except Misfit as misfit:
            problems += [each.below(key) for each in misfit.problems]
        if len(problems) == count:
            checked[valid_key] = valid_value
    if problems:
        raise Misfit(*problems)
    return checked


def _build_model(model: Any, strict: int) -> ValueCheck:
    return ValueCheck(NOTHING, lambda value: model._check_nested(value, strict == ALL), model.__name__)


def _build_instance(kind: type) -> ValueCheck:
    def run(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        message = f"Input should be an instance of {kind.__name__}"
        raise Misfit(Problem("is_instance_of", message, value, {"class": kind.__name__}))

    return ValueCheck(frozenset({kind}), run, f"is-instance[{kind.__name__}]")


# Unions


def _build_union(members: tuple[Any, ...], strict: int, *, ordered: bool) -> ValueCheck:
    optional = NoneType in members
    choices = [build_check(member, strict=strict) for member in members if member is not NoneType]
    if len(choices) == 1:
        check = choices[0]
    elif ordered:
        check = _build_ordered_choice(members, choices)
    else:
        precise = [build_check(member, strict=strict or OWN) for member in members if member is not NoneType]
        check = _build_choice(choices, precise)
    if not optional or check.exact is None:
        return check
    return ValueCheck(check.exact | {NoneType}, check.run, f"nullable[{check.label}]")


def _build_ordered_choice(members: tuple[Any, ...], choices: list[ValueCheck]) -> ValueCheck:
    """Return a check that takes the first choice that fits: known words, or any text of a newer version."""
    is_text = all(member is str or get_origin(member) is Literal for member in members)
    exact = frozenset({str}) if is_text and str in members else choices[0].exact or NOTHING
    return ValueCheck(exact, lambda value: _choose(choices, value), "union")


def _build_choice(choices: list[ValueCheck], precise: list[ValueCheck]) -> ValueCheck:
    """Return a check that takes the choice that needs the least conversion."""
    exact = frozenset[type]().union(*(choice.exact or () for choice in choices))

    def run(value: Any) -> Any:
        for choice in precise:
            try:
                return choice.run(value)
            except Misfit:
                continue
        return _choose(choices, value)

    return ValueCheck(exact, run, "union")


def _choose(choices: list[ValueCheck], value: Any) -> Any:
    problems: list[Problem] = []
    for choice in choices:
        try:
            return choice.run(value)
        except Misfit as misfit:
            problems += [each.below(choice.label) for each in misfit.problems]
    raise Misfit(*problems)
