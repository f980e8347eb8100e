"""The quick check of a schema never accepts what a complete validator rejects, and recognizes ordinary answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from logist.core.answer.quick_schema import build_quick_check
from tests.core.builders import SCHEMA, command

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "b", "COMPLETED", "/x", "x.txt"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [
        {},
        True,
        {"type": "string"},
        {"type": "boolean"},
        {"type": "integer"},
        {"type": ["string", "null"]},
        {"enum": ["a", "COMPLETED"]},
        {"enum": [1, "a"]},
        {"minLength": 1},
        {"maxLength": 1},
        {"pattern": "^[ab]"},
        {"minItems": 1, "type": "array"},
        {"maxItems": 1},
        {"const": 1},
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2)},
            optional={
                "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
                "additionalProperties": st.just(False) | inner,
                "patternProperties": st.just({"^c": {}}),
                "title": st.just("t"),
            },
        ),
        inner.map(lambda each: {"items": each}),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"anyOf": each}),
    ),
    max_leaves=4,
)


@given(SCHEMAS, VALUES)
def test_what_it_accepts_is_valid(schema: Any, value: Any) -> None:
    if build_quick_check(schema)(value):
        assert Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize("output", [None, "text", {"any": [1]}, []])
def test_it_recognizes_an_ordinary_answer(output: Any) -> None:
    response = json.loads(command("COMPLETED", "src/a.py", output=output, metadata={"a": 1}))
    assert build_quick_check(SCHEMA)({"response": response})


@pytest.mark.parametrize(
    "change", [{"action": "DONE"}, {"evidence_files": ["../x"]}, {"more": 1}, {"summary_for_supervisor": 1}]
)
def test_it_does_not_recognize_an_invalid_answer(change: dict[str, Any]) -> None:
    assert not build_quick_check(SCHEMA)({"response": {**json.loads(command()), **change}})
