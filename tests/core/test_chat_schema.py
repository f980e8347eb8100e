"""schemas/llm-chat-schema.json: a schema itself, described throughout, and the definition of both halves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from logist.core.model import ExitAction
from logist.core.text.ids import JOB_ID_PATTERN

PATH = Path(__file__).parents[2] / "schemas" / "llm-chat-schema.json"
SCHEMA = json.loads(PATH.read_text(encoding="utf-8"))
RESPONSE = {"action": "RETRY", "evidence_files": [], "summary_for_supervisor": ""}
REQUEST = {"action": "step", "job_id": "parser-1"}


def is_valid(document: Any) -> bool:
    return bool(Draft202012Validator(SCHEMA).is_valid(document))


def described(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, bool]]:
    for key, inner in schema.get("properties", {}).items():
        yield f"{path}.{key}", bool(inner.get("description"))
        yield from described(inner, f"{path}.{key}")


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"].endswith("/schemas/llm-chat-schema.json")


def test_every_field_has_a_description() -> None:
    fields = dict(described(SCHEMA))
    assert len(fields) == 14
    assert [field for field, has_one in fields.items() if not has_one] == []


def test_it_names_what_the_model_names() -> None:
    properties = SCHEMA["properties"]
    assert properties["response"]["properties"]["action"]["enum"] == [action.value for action in ExitAction]
    assert properties["request"]["properties"]["job_id"]["pattern"] == JOB_ID_PATTERN


@pytest.mark.parametrize(
    "document",
    [
        {"response": RESPONSE},
        {"request": REQUEST},
        {"request": REQUEST, "response": RESPONSE},
        {"request": REQUEST | {"options": {}}},
        {
            "request": REQUEST
            | {"options": {"resume": 3, "model": "m", "clean_git": True, "keep_files": False}}
        },
        {"request": REQUEST | {"options": {"resume": True}}},
        {"response": RESPONSE | {"output": None, "metadata": {}}},
        {
            "response": RESPONSE
            | {"evidence_files": ["x" * 1024] * 1000, "summary_for_supervisor": "x" * 1000}
        },
        *({"request": {"action": action, "job_id": "a"}} for action in ("run", "step", "rerun", "restep")),
    ],
)
def test_valid_documents(document: Any) -> None:
    assert is_valid(document)


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        RESPONSE,
        {"response": RESPONSE, "more": 1},
        {"response": None},
        {"request": {"action": "step"}},
        {"request": {"job_id": "a"}},
        {"request": REQUEST | {"action": "STEP"}},
        {"request": REQUEST | {"job_id": "../x"}},
        {"request": REQUEST | {"job_id": "x" * 129}},
        {"request": REQUEST | {"more": 1}},
        {"request": REQUEST | {"options": {"more": 1}}},
        {"request": REQUEST | {"options": {"resume": "3"}}},
        {"request": REQUEST | {"options": {"resume": 0}}},
        {"request": REQUEST | {"options": {"clean_git": 1}}},
        {"response": RESPONSE | {"evidence_files": ["a"] * 1001}},
        {"response": RESPONSE | {"summary_for_supervisor": "x" * 1001}},
        {"response": RESPONSE | {"metadata": None}},
    ],
)
def test_invalid_documents(document: Any) -> None:
    assert not is_valid(document)
