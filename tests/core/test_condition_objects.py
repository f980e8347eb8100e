"""Conditions written as objects: every operator, the logic of errors, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.condition import ROOTS, ConditionError, compile_condition

DATA: dict[str, Any] = {
    "output": {
        "score": 80,
        "text": " Large ",
        "number": "80",
        "flag": True,
        "list": ["A", 2, None],
        "null": None,
        "empty": "",
        "object": {"a": [1, "X"]},
    },
    "input": {"scope": "small", "text": "of the input", "nothing": None},
}

TAKEN: list[tuple[dict[str, Any], bool]] = [
    ({"var": "output.score"}, True),
    ({"var": "output.empty"}, False),
    ({"var": "output.object"}, True),
    ({"var": "score", "gte": 80}, True),
    ({"var": ".output.score", "gt": 79.5}, True),
    ({"var": "score", "gt": 80}, False),
    ({"var": "score", "lt": 80.5}, True),
    ({"var": "score", "lte": 80, "gte": 80}, True),
    ({"var": "score", "lte": 80, "gt": 80}, False),
    ({"var": "text", "gt": " A"}, True),
    ({"var": "number", "gt": "79"}, True),
    ({"var": "text", "equals": "large"}, True),
    ({"var": "text", "not_equals": "LARGE"}, False),
    ({"var": "scope", "equals": "Small"}, True),
    ({"var": "number", "equals": 80}, True),
    ({"var": "number", "equals": 81}, False),
    ({"var": "score", "equals": "80.0"}, True),
    ({"var": "score", "equals": "many"}, False),
    ({"var": "flag", "equals": "yes"}, True),
    ({"var": "flag", "equals": True}, True),
    ({"var": "flag", "equals": 1}, False),
    ({"var": "output.null", "equals": None}, True),
    ({"var": "output.gone", "equals": None}, True),
    ({"var": "output.gone", "not_equals": None}, False),
    ({"var": "gone", "equals": None}, True),
    ({"var": "gone", "not_equals": "x"}, True),
    ({"var": "gone", "equals": "x"}, False),
    ({"var": "gone"}, False),
    ({"not": {"var": "gone"}}, True),
    ({"var": "object", "equals": {"a": [1, "x"]}}, True),
    ({"var": "object", "equals": {"a": [1]}}, False),
    ({"var": "object", "equals": {"b": [1, "x"]}}, False),
    ({"var": "list", "equals": ["a", 2, None]}, True),
    ({"var": "text", "in": ["medium", "large"]}, True),
    ({"var": "score", "in": [1, "80"]}, True),
    ({"var": "score", "in": []}, False),
    ({"var": "gone", "in": [None]}, True),
    ({"var": "text", "contains": "AR"}, True),
    ({"var": "text", "contains": "x"}, False),
    ({"var": "list", "contains": "a"}, True),
    ({"var": "list", "contains": 3}, False),
    ({"var": "score", "contains": 8}, True),
    ({"var": "text", "startsWith": "la"}, True),
    ({"var": "text", "endsWith": "GE"}, True),
    ({"var": "text", "endsWith": "la"}, False),
    ({"var": "output.score", "exists": True}, True),
    ({"var": "output.null", "exists": True}, True),
    ({"var": "output.gone", "exists": False}, True),
    ({"var": "gone", "exists": True}, False),
    ({"var": "nothing", "exists": True}, True),
    ({}, True),
    ({"and": []}, True),
    ({"or": []}, False),
    ({"and": [{"var": "score", "gt": 1}, {"var": "flag"}]}, True),
    ({"or": [{"var": "score", "gt": 100}, {"var": "flag"}]}, True),
    ({"not": {"or": [{"var": "score", "gt": 100}, {"var": "empty"}]}}, True),
    ({"var": "flag", "and": [{"var": "score"}], "or": [{"var": "empty"}], "not": {}}, False),
    ({"and": ["output.score >= 80", "text:large", {"not": "Yes"}], "or": [True]}, False),
    ({"and": ["output.score >= 80", "text:large", {"not": "number:1"}], "or": [True]}, True),
    ({"or": [{"var": "output.gone", "gt": 1}, {"var": "flag"}]}, True),
    ({"or": [{"var": "flag"}, {"var": "text", "gt": 1}]}, True),
    ({"not": {"and": [{"var": "output.gone", "gt": 1}, {"var": "empty"}]}}, True),
]

UNDECIDED: list[tuple[dict[str, Any], str]] = [
    ({"var": "output.gone"}, "`output.gone` is missing"),
    ({"not": {"var": "output.gone"}}, "`output.gone` is missing"),
    ({"var": "output.gone", "not_equals": "x"}, "`output.gone` is missing"),
    ({"var": "gone", "gt": 1}, "`gone` is null, not a number"),
    ({"not": {"var": "gone", "gt": 1}}, "`gone` is null, not a number"),
    ({"var": "text", "gt": 1}, "`text` is text, not a number"),
    ({"var": "flag", "lt": 2}, "`flag` is true or false, not a number"),
    ({"var": "score", "lt": "9"}, "`score` is a number, not text"),
    ({"var": "object", "contains": "a"}, "`object` is an object, not text"),
    ({"var": "list", "startsWith": "a"}, "`list` is a list, not text"),
    ({"or": [{"var": "output.gone", "gt": 1}, {"var": "empty"}]}, "`output.gone` is missing"),
]

REFUSED: list[tuple[dict[Any, Any], str]] = [
    ({"var": "a", "matches": "(a+)+$"}, "unknown operator `matches`; known: var, equals"),
    ({"var": "a", "regex": "x"}, "unknown operator `regex`"),
    ({1: 2}, "unknown operator `1`"),
    ({"equals": 1}, "`equals` needs a `var`"),
    ({"var": 5}, "`var` must be a path"),
    ({"var": None, "equals": 1}, "`var` must be a path"),
    ({"var": "a b"}, "`var`: unexpected ` ` in a path"),
    ({"var": ""}, "`var`: the path is empty"),
    ({"var": "a", "gt": None}, "`gt` must be a number or text"),
    ({"var": "a", "lte": True}, "`lte` must be a number or text"),
    ({"var": "a", "in": "abc"}, "`in` must be a list"),
    ({"var": "a", "in": [1] * 1001}, "at most 1,000 values"),
    ({"var": "a", "contains": [1]}, "`contains` must be"),
    ({"var": "a", "startsWith": None}, "`startsWith` must be text"),
    ({"var": "a", "exists": "yes"}, "`exists` must be true or false"),
    ({"and": {"var": "a"}}, "`and` must be a list"),
    ({"or": "Yes"}, "`or` must be a list"),
    ({"not": [{"var": "a"}]}, "a condition must be text or an object, not a list"),
    ({"and": [None]}, "a condition must be text or an object, not null"),
    ({"and": ["score > 80"]}, "unknown name `score`"),
]


@pytest.mark.parametrize(("form", "taken"), TAKEN)
def test_what_an_object_says(form: dict[str, Any], taken: bool) -> None:
    data = DATA | {"output": DATA["output"] | {"choice": "yes"}}
    verdict = compile_condition(form, ROOTS).judge_data(data)
    assert (verdict.taken, verdict.error) == (taken, None)


@pytest.mark.parametrize(("form", "error"), UNDECIDED)
def test_what_can_not_be_decided_is_not_taken(form: dict[str, Any], error: str) -> None:
    verdict = compile_condition(form, ROOTS).judge_data(DATA)
    assert (verdict.taken, verdict.error) == (False, error)


@pytest.mark.parametrize(("form", "message"), REFUSED)
def test_what_is_no_operator_is_refused_when_it_is_loaded(form: dict[Any, Any], message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition(form, ROOTS)
    assert message in caught.value.message


def test_a_bare_name_is_a_field_of_the_output_before_one_of_the_input() -> None:
    verdict = compile_condition({"var": "text", "contains": "input"}, ROOTS).judge_data(DATA)
    assert verdict.taken is False
    verdict = compile_condition({"var": "text", "contains": "input"}, ROOTS).judge_data(
        {**DATA, "output": None}
    )
    assert verdict.taken is True
    assert (verdict.values, verdict.missing) == ({"input.text": "of the input"}, ("output.text",))


def test_a_known_root_is_no_field_of_the_output() -> None:
    data = {"output": {"file": "no"}, "file": {"path": "a.py"}}
    assert (
        compile_condition({"var": "file.path", "endsWith": ".py"}, ROOTS | {"file"}).judge_data(data).taken
        is True
    )
