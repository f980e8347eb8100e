"""The table of tools: what each needs, who is offered which, and how a provider is told."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from jsonschema import Draft202012Validator

from logist.core.model import EVERYTHING, Permission, Permissions
from logist.core.permissions.tools import TOOLS, Tool, select_permitted_tools, to_function_schema

NEEDS = {
    "read_file": {"read_files"},
    "list_directory": {"read_files"},
    "search": {"read_files"},
    "write_file": {"write_files"},
    "edit_file": {"read_files", "write_files"},
    "create_file": {"create_files"},
    "delete_file": {"delete_files"},
    "execute_command": {"execute_commands"},
}
SETS = [set(some) for count in range(6) for some in combinations([p.value for p in Permission], count)]


def test_there_are_these_tools_in_this_order() -> None:
    assert {name: set(tool.required_permissions) for name, tool in TOOLS.items()} == NEEDS
    assert list(TOOLS) == list(NEEDS)
    assert len(SETS) == 32


@pytest.mark.parametrize("allowed", SETS, ids=lambda allowed: "+".join(sorted(allowed)) or "nothing")
def test_a_tool_is_offered_only_with_all_its_permissions(allowed: set[str]) -> None:
    names = [tool.name for tool in select_permitted_tools(Permissions.from_names(allowed))]
    assert names == [name for name, needs in NEEDS.items() if needs <= allowed]


def test_a_disabled_tool_is_offered_to_nobody() -> None:
    names = [tool.name for tool in select_permitted_tools(EVERYTHING, ("execute_command", "search"))]
    assert names == [name for name in NEEDS if name not in ("execute_command", "search")]


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_provider_is_told_a_function_with_a_plain_schema(tool: Tool) -> None:
    told = to_function_schema(tool)
    assert json.loads(json.dumps(told)) == {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }
    Draft202012Validator.check_schema(tool.parameters)
    assert list(tool.parameters) == ["type", "properties", "required", "additionalProperties"]
    assert tool.parameters["type"] == "object"
    assert tool.parameters["additionalProperties"] is False
    assert set(tool.parameters["required"]) <= set(tool.parameters["properties"])
    for schema in tool.parameters["properties"].values():
        assert set(schema) <= {"type", "description", "minimum", "maximum"}
        assert schema["type"] in ("string", "integer", "boolean")
        assert schema["description"].endswith(".")
    assert 40 < len(tool.description) < 400
