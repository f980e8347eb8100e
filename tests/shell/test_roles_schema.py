"""The shipped schema of a role file, and the model that files are read with: one and the same."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from logist import resources
from logist.documents import read_document
from logist.roles import load_roles
from logist.roles.checking import KEYS
from logist.roles.files import FORM
from logist.roles.markdown import AGENT_PROMPT, read_markdown
from tests.support import examples

VALIDATOR = Draft202012Validator(resources.load_schema("role"))
WORKER = {"name": "Worker", "description": "d", "instructions": "i", "llm_model": "m"}
GOOD: dict[str, Any] = {"name": "x", "description": "d", "instructions": "i", "llm_model": "m"}

VALUES: dict[str, list[Any]] = {
    "name": ["x", "ein Wort", " x", "x\n", "", None, 5],
    "description": ["d", "a\nb", " ", None, ["d"]],
    "instructions": ["i", "\n", "", None, 7],
    "llm_model": ["m", "a/b", "", None, {}],
    "temperature": [0, 2.0, 0.5, -0.1, 2.1, None, "1", True],
    "max_output_tokens": [1, 0, 1.5, None, "9"],
    "permissions": [
        *([], ["read_files"], ["can_read_files", "execute_commands"], ["fly"], [1], "all", None, {}),
        *({"can_read_files": True}, {"can_read_files": 1}, {"read_files": True}),
        *({"can_delegate_to_roles": ["Worker"]}, {"can_delegate_to_roles": "Worker"}),
    ],
    "can_delegate_to_roles": [[], ["Worker"], "Worker", [1], None],
    "network": [True, False, "yes", None, 1],
    "agent": ["codex", None, 7],
    "badge": ["", "QA", "🔍", "long", None],
    "color": ["red", "pink", None, 1],
    "prompt_template": ["{{.Title}}", "", None, 5],
    "applicable_task_types": [[], ["bug", "a b"], [" "], [""], "bug", None, [1]],
    "context_requirements": [
        *([], ["repo_structure", "custom_instructions"], ["repo"], "repo_structure", None, [None]),
    ],
    "base": ["Worker", 5, "", None],
    "unknown": [1],
}


def loads(data: object) -> bool:
    """Whether a file that says this is read without an error."""
    with tempfile.TemporaryDirectory() as folder:
        worker, file = Path(folder, "worker.json"), Path(folder, "x.json")
        worker.write_text(json.dumps(WORKER), "utf-8")
        file.write_text(json.dumps(data), "utf-8")
        return all(problem.severity != "error" for problem in load_roles([worker, file]).problems)


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in VALUES.items() for value in values], ids=repr
)
def test_each_field_alone(key: str, value: object) -> None:
    data = {**GOOD, key: value}
    assert VALIDATOR.is_valid(data) == loads(data)


@pytest.mark.parametrize(
    ("several", "sound"),
    [
        ({}, False),
        ({"roles": {}}, True),
        ({"a": {"description": "d", "instructions": "i", "llm_model": "m"}}, True),
        ({"roles": {"a": {"description": "d", "instructions": "i", "llm_model": "m"}}}, True),
        ({"a": {"description": "d", "instructions": "i"}}, False),
        ({"a": {"description": "d", "prompt_template": "t"}}, True),
        ({"a": {"description": "d", "instructions": "i", "llm_model": "m"}, "b": "text"}, False),
        ({"a": {"base": "Worker"}, "b": {"base": "Worker", "color": "red"}}, True),
        ({"a": {"base": "Worker", "color": "pink"}}, False),
        ({"a": 5}, False),
        ({"name": "x", "description": "d", "agentPrompt": "i", "llm_model": "m"}, True),
        ({"x": {"description": "d", "agentPrompt": "i", "llm_model": "m"}}, True),
        ({"name": "x", "description": "d", "agentPrompt": " ", "llm_model": "m"}, False),
        ({"name": "x", "description": "d", "agentPrompt": "i", "instructions": "i", "llm_model": "m"}, False),
        ({"name": "x", "base": "Worker", "agentPrompt": "i"}, True),
        ({"name": "x", "base": "Worker", "agentPrompt": None}, False),
        ({"name": "x", "base": "Worker"}, True),
        ({"base": "Worker"}, False),
        ({"name": "x", "base": "Worker", "instructions": None}, False),
        ({"name": "x", "base": "Worker", "instructions": " "}, False),
        ({"name": "x", "base": "Worker", "instructions": None, "prompt_template": "t"}, True),
        ({"name": "x", "base": "Worker", "instructions": None, "prompt_template": ""}, False),
        (
            {"t": {"description": "d", "prompt_template": "t"}, "x": {"base": "t", "instructions": None}},
            False,
        ),
        ({"t": {"description": "d", "prompt_template": "t"}, "x": {"base": "t", "instructions": "i"}}, True),
        ({"name": "x", "description": "d", "prompt_template": "t"}, True),
        ({"name": "x", "description": "d", "prompt_template": "t", "instructions": None}, True),
        ({"name": "x", "prompt_template": "t"}, False),
        ({"name": "x", "description": "d", "prompt_template": " "}, False),
        ({"name": "x", "description": "d", "prompt_template": "t", "instructions": ""}, True),
        ({"name": "x", "description": "d", "prompt_template": None}, False),
    ],
    ids=repr,
)
def test_one_or_several(several: object, sound: bool) -> None:
    assert (VALIDATOR.is_valid(several), loads(several)) == (sound, sound)


@settings(max_examples=examples(50), deadline=None)
@given(st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in VALUES.items()}))
def test_all_fields_together(data: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(data) == loads(data)


def test_it_has_every_key_of_a_role_file() -> None:
    schema = resources.load_schema("role")
    Draft202012Validator.check_schema(schema)
    assert set(schema["$defs"]["one"]["properties"]) == {*KEYS, AGENT_PROMPT}
    assert {each["required"][0] for each in schema["if"]["anyOf"]} == FORM <= {*KEYS, AGENT_PROMPT}


@pytest.mark.parametrize(
    "file", sorted(resources.find_resource("roles").iterdir()), ids=lambda file: file.stem
)
def test_the_shipped_roles_are_valid(file: Path) -> None:
    data = (read_markdown if file.suffix == ".md" else read_document)(file).data
    assert [error.message for error in VALIDATOR.iter_errors(data)] == []
