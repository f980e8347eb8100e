"""The quick check of JSON against a schema says yes only where jsonschema does."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from logist.core.answer.quick_schema import build_quick_check
from logist.core.permissions.tools import TOOLS
from logist.resources import load_schema

KEYS = st.sampled_from(["a", "b", "c"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a", "ab", "abc"])
VALUES = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(KEYS, each, max_size=3), max_leaves=8
)
NAMES = st.sampled_from(["object", "array", "string", "boolean", "integer", "number", "null"])
SIZES = st.integers(0, 2)


def list_keywords(schemas: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    sizes = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
    return {
        "type": NAMES | st.lists(NAMES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(SCALARS, min_size=1, max_size=3),
        "const": SCALARS,
        "required": st.lists(KEYS, max_size=2, unique=True),
        "properties": st.dictionaries(KEYS, schemas, max_size=2),
        "patternProperties": st.dictionaries(KEYS, schemas, max_size=1),
        "additionalProperties": schemas,
        "items": schemas,
        "prefixItems": st.lists(schemas, min_size=1, max_size=2),
        "anyOf": st.lists(schemas, min_size=1, max_size=2),
        "not": schemas,
        "pattern": st.sampled_from(["^a", "b$", "^(?!a)", "."]),
        "minimum": st.integers(-1, 1),
        "maximum": st.integers(-1, 1),
        "title": st.just("a title"),
        **dict.fromkeys(sizes, SIZES),
    }


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.just({}),
    lambda each: st.fixed_dictionaries({}, optional=list_keywords(each)),
    max_leaves=6,
)


@given(VALUES, SCHEMAS)
def test_what_fits_quickly_is_valid(value: Any, schema: Any) -> None:
    if build_quick_check(schema)(value):
        assert Draft202012Validator(schema).is_valid(value)


UNSURE = {"const", "not", "prefixItems", "patternProperties", "enum"}
"""Keywords that are left to jsonschema, at least for some values."""
SURE: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.just({}),
    lambda each: st.fixed_dictionaries(
        {}, optional={name: one for name, one in list_keywords(each).items() if name not in UNSURE}
    ),
    max_leaves=6,
)
WITHOUT_FLOATS = VALUES.filter(lambda value: "1.0" not in json.dumps(value))


@given(WITHOUT_FLOATS, SURE)
def test_what_is_valid_fits_quickly(value: Any, schema: Any) -> None:
    """Otherwise jsonschema would be loaded for answers that are valid."""
    assert build_quick_check(schema)(value) == Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    "response",
    [
        {"action": "COMPLETED", "evidence_files": ["src/a.py"], "summary_for_supervisor": "Done."},
        {"action": "STUCK", "evidence_files": [], "summary_for_supervisor": "", "output": {"question": "?"}},
        {"action": "RETRY", "evidence_files": [], "summary_for_supervisor": "x", "metadata": {}},
    ],
)
def test_exit_commands_fit_quickly(response: dict[str, Any]) -> None:
    schema = load_schema("llm-chat-schema")
    assert build_quick_check(schema)({"response": response})
    for wrong in (
        {"action": "DONE"},
        {"evidence_files": ["../x"]},
        {"more": 1},
        {"summary_for_supervisor": "x" * 1001},
    ):
        assert not build_quick_check(schema)({"response": response | wrong})


def test_calls_of_tools_fit_quickly() -> None:
    assert build_quick_check(TOOLS["read_file"].parameters)({"path": "a.txt"})
    assert not build_quick_check(TOOLS["read_file"].parameters)({"path": 1})


@pytest.mark.parametrize("schema", [[], None, "text", {"$ref": "#"}])
def test_only_jsonschema_can_tell(schema: Any) -> None:
    assert not build_quick_check(schema)("a")


def test_judging_a_valid_answer_does_not_load_jsonschema() -> None:
    code = """
import sys
from logist.core.answer import exit_command, output_schema
from logist.resources import load_schema
schema = load_schema("llm-chat-schema")
good = '{"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."}'
assert exit_command.judge_answer(good, schema).command
assert "jsonschema" not in sys.modules
assert "DONE" in exit_command.judge_answer(good.replace("COMPLETED", "DONE"), schema).reason
assert "jsonschema" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
