"""Conditions against hostile text and data: all of it ends at once, and nothing but ConditionError comes out."""

from __future__ import annotations

import contextlib
import inspect
import json
import operator
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.condition import (
    ROOTS,
    ConditionError,
    ConditionVerdict,
    compile_condition,
    find_roots,
    render_condition,
)
from logist.core.condition import find_paths as condition_paths
from logist.core.text.paths import path_to_text
from tests.support import examples

fuzz = settings(deadline=None, database=None, max_examples=examples(150))


def nested(key: str, depth: int) -> dict[str, Any]:
    form: dict[str, Any] = {"var": "output.x"}
    for _ in range(depth):
        form = {key: form if key == "not" else [form]}
    return form


def endless() -> dict[str, Any]:
    form: dict[str, Any] = {}
    form["and"] = [form, form]
    return form


BOMBS: list[tuple[Any, str]] = [
    ("output.x > " + "1" * 1_000_000, "too long"),
    ("(" * 10_000 + "output.x" + ")" * 10_000, "too long"),
    ("(" * 900 + "output.x" + ")" * 900, "nested too deep"),
    ("!" * 1_900 + "output", "nested too deep"),
    ("-" * 1_900 + "output.x > 1", "nested too deep"),
    ("output.x ? " * 100 + "true" + " : false" * 100, "nested too deep"),
    ("1 in " + "[" * 900, "nested too deep"),
    ("output.x" + " + output.x" * 100 + " > 1", "too many terms"),
    ("output.a.includes(" * 20 + "1" + ")" * 20, "nested too deep"),
    ({"and": [" || ".join(f"output.a{i}" for i in range(130))] * 8}, "reads too many values: at most 1,000"),
    ("[1, 2].map(x, [1, 2].map(y, x * y)).length > 1", "unknown function `map`"),
    ("output.x.filter(y, true)", "unknown function `filter`"),
    ("output.x.all(y, y > 1)", "unknown function `all`"),
    ("output.x.exists(y, y > 1)", "unknown function `exists`"),
    ("output.x.matches('(a+)+$')", "unknown function `matches`"),
    (" || ".join(f"output.a{i}" for i in range(130)) + " || output." + "b" * 100, ""),
    ("f:" + "b," * 900, "too many values"),
    (nested("not", 5_000), "nested too deep"),
    (nested("and", 5_000), "nested too deep"),
    (endless(), "nested too deep"),
    ({"or": [{"var": "x"}] * 100_000}, "too many conditions"),
    ({"var": "x", "in": ["a"] * 100_000}, "at most 1,000 values"),
]


@pytest.mark.parametrize(("form", "message"), BOMBS, ids=[message for _, message in BOMBS])
def test_a_bomb_ends_at_once(form: Any, message: str) -> None:
    if message:
        with pytest.raises(ConditionError, match=message):
            compile_condition(form, ROOTS)
    else:
        assert compile_condition(form, ROOTS).judge_data({"output": {"a129": 1}}).taken is True
    assert len(render_condition(form)) <= 503


DEEPEST = [
    ("output.x" + " % 3" * 19 + " > 1", True),
    ("(1 + 2 * " * 19 + "output.x" + ")" * 19 + " > 1", True),
    ("output.z && output.y || (" * 18 + "output.x > 1" + ")" * 18, True),
    ("output.a.includes(" * 19 + "1" + ")" * 19, False),
    ("1 in " + "[" * 19 + "1" + "]" * 19, False),
]


@pytest.mark.parametrize(("text", "taken"), DEEPEST, ids=[text[:20] for text, _ in DEEPEST])
def test_the_deepest_condition_that_is_allowed_needs_little_of_the_stack(text: str, taken: bool) -> None:
    form: Any = text
    for _ in range(9):
        form = {"and": [form]}
    data = {"output": {"x": 2, "y": True, "z": False, "a": [1]}}
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 400)
    try:
        verdict = compile_condition(form, ROOTS).judge_data(data)
    finally:
        sys.setrecursionlimit(limit)
    assert (verdict.taken, verdict.error) == (taken, None)


def deep(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def endless_data() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["output"] = data["self"] = data
    return data


LARGE: list[tuple[Any, Any, str | None]] = [
    (
        "output.s + output.s === 'x'",
        {"s": "x" * 1_000_000},
        "`output.s` is too long to join: 1,000,000 characters",
    ),
    ("output.l === output.l", {"l": [0] * 100_000}, "`output.l` is too large to compare"),
    ("output.l.includes(1)", {"l": [0] * 100_000}, "`output.l` is too large to compare"),
    ("output.l === output.l", {"l": deep(100_000)}, "`output.l` is too large to compare"),
    ({"var": "l", "contains": 1}, {"l": [0] * 100_000}, "`l` is too long to search: 100,000 items"),
    ({"var": "l", "equals": [[[1]]]}, {"l": deep(100_000)}, None),
    ("output.l.length > 99_999", {"l": [0] * 100_000}, ""),
    ("output.s === 'a'", {"s": "\ud800"}, "`output.s` is not valid Unicode text"),
    ("output.s === 'a'", {"s": {1, 2}}, "`output.s` is a set, which is not JSON"),
    ("output.s === 'a\\u0000b'", {"s": "a\0b"}, None),
    ("s:1", {"s": "1" * 1_000_000}, None),
]


@pytest.mark.parametrize(("form", "output", "error"), LARGE, ids=[str(form)[:60] for form, *_ in LARGE])
def test_large_and_odd_data_are_judged_at_once(form: Any, output: Any, error: str | None) -> None:
    if error == "":
        assert compile_condition(form.replace("_", ""), ROOTS).judge_data({"output": output}).taken is True
        return
    verdict = compile_condition(form, ROOTS).judge_data({"output": output})
    assert verdict.error == error
    assert verdict.taken is ("u0000" in str(form))


def test_data_that_hold_themselves_are_judged() -> None:
    for form in ("output === input", "output.self.self", {"var": "output", "equals": {"a": 1}}, "Yes"):
        verdict = compile_condition(form, ROOTS).judge_data(endless_data())
        assert isinstance(verdict, ConditionVerdict)
        assert len(str(verdict.values)) < 500


WORDS = """
output output.a output.b[0] input.x steps["k"] 'text' "q" 80 79.5 1e9 Yes true null undefined in .includes( .startsWith(
.length {{ }} ; # \\ ' && || ! == === != !== < <= > >= + - * / % ? : ( ) [ ] , . " å \0 \ud800
"""
PIECES = st.lists(st.sampled_from(WORDS.split()), max_size=8)
TEXTS = PIECES.map(" ".join) | PIECES.map("".join) | st.text(max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "x", "k", "output", "choice"]), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["var", "equals", "not_equals", "gt", "lte", "in", "contains", "endsWith", "exists", "odd"]
)
OBJECTS = st.recursive(
    st.dictionaries(KEYS, JSON | TEXTS, max_size=3),
    lambda inner: st.dictionaries(
        st.sampled_from(["and", "or", "not"]), inner | st.lists(inner, max_size=2), max_size=2
    ),
    max_leaves=4,
)


@fuzz
@given(TEXTS | OBJECTS | JSON, JSON, st.dictionaries(st.sampled_from(["output", "input"]), JSON))
def test_only_a_condition_error_comes_out_of_loading_and_nothing_out_of_judging(
    form: Any, odd: Any, data: dict[str, Any]
) -> None:
    render_condition(form)
    with contextlib.suppress(ConditionError):
        sound = compile_condition(form, ROOTS)
        for given_data in (data, odd):
            verdict = sound.judge_data(given_data)
            assert verdict.error is None or not verdict.taken
            assert len(json.dumps(verdict.values)) < 5_000
            assert {*verdict.values, *verdict.missing} == {path_to_text(path) for path in sound.paths}
        assert condition_paths(form) == sound.paths
        assert find_roots(form) <= ROOTS


# An expression and what it is for `n` and `m`, said in Python.
Said = tuple[str, Callable[[dict[str, float]], Any]]
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "===": operator.eq,
    "!=": operator.ne,
    "&&": lambda one, other: one and other,
    "||": lambda one, other: one or other,
}


def joined(parts: tuple[Said, str, Said]) -> Said:
    (left, one), sign, (right, other) = parts
    return f"({left} {sign} {right})", lambda names: SIGNS[sign](one(names), other(names))


def turned(said: Said) -> Said:
    return f"!{said[0]}", lambda names: not said[1](names)


def number(text: str) -> Said:
    return text, lambda names: float(text)


def name(text: str) -> Said:
    return f"output.{text}", lambda names: names[text]


TERMS: st.SearchStrategy[Said] = st.recursive(
    st.sampled_from([name("n"), name("m"), number("3"), number("0.5"), number("80")]),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(joined),
    max_leaves=4,
)
TESTS: st.SearchStrategy[Said] = st.recursive(
    st.tuples(TERMS, st.sampled_from([">", "<", ">=", "<=", "===", "!="]), TERMS).map(joined),
    lambda inner: st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(joined) | inner.map(turned),
    max_leaves=4,
)


@pytest.mark.deep
@fuzz
@given(TESTS, st.integers(-5, 90), st.floats(-5, 90))
def test_expressions_over_numbers_are_what_python_says(said: Said, n: int, m: float) -> None:
    names = {"n": n, "m": m}
    assert compile_condition(said[0], ROOTS).judge_data({"output": names}).taken is said[1](names)
