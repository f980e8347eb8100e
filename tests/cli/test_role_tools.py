"""`logist role tools`: what a server offers becomes a part of the role file, and only then of a prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.desk import Desk
from tests.tool_server import write_noter

PINNED: dict[str, object] = {
    "name": "lookup",
    "description": "An older description.",
    "parameters": {"type": "object"},
}


@pytest.fixture
def trusted(desk: Desk) -> Desk:
    write_noter(desk.home)
    assert desk("trust", "--yes").code == 0
    return desk


def read_servers(desk: Desk) -> dict[str, Any]:
    servers: dict[str, Any] = desk("role", "show", "Noter", "--json").json["data"]["mcp_servers"]
    return servers


def test_the_tools_are_written_to_the_role_and_stay_trusted(trusted: Desk) -> None:
    ran = trusted("role", "tools", "Noter")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[0] == "notes__lookup  new"
    assert "'bad.name' has a name that providers refuse" in ran.err
    [tool] = read_servers(trusted)["notes"]["tools"]
    assert tool["description"] == "Looks a word up in the glossary."
    assert tool["parameters"]["required"] == ["word"]
    assert trusted("role", "validate", "Noter").err == ""
    again = trusted("role", "tools", "Noter")  # it is still trusted
    assert (again.code, "nothing to change" in again.out) == (0, True)
    assert "notes__lookup  unchanged" in again.out


def test_a_dry_run_writes_nothing(trusted: Desk) -> None:
    before = trusted.tree()
    assert "dry run, file not written" in trusted("role", "tools", "Noter", "--dry-run").out
    assert trusted.tree() == before


def test_it_shows_what_differs_from_the_role_file(desk: Desk) -> None:
    write_noter(desk.home, tools=[PINNED, {**PINNED, "name": "removed"}])
    assert desk("trust", "--yes").code == 0
    data = desk("role", "tools", "Noter", "--json").json["data"]
    assert data["tools"] == {
        "new": [],
        "changed": ["notes__lookup"],
        "gone": ["notes__removed"],
        "unchanged": [],
    }


def test_no_server_is_started_before_it_is_trusted(desk: Desk) -> None:
    write_noter(desk.home)
    ran = desk("role", "tools", "Noter")
    assert ran.code == 5
    assert "roles/Noter.mcp_servers" in ran.err
    assert "logist trust" in ran.err


def test_a_server_that_does_not_start_changes_nothing(desk: Desk) -> None:
    write_noter(desk.home)
    (desk.home / "servers" / "notes.py").write_text("raise SystemExit('no glossary here')\n", "utf-8")
    assert desk("trust", "--yes").code == 0
    before = desk.tree()
    ran = desk("role", "tools", "Noter")
    assert ran.code == 8
    assert "the MCP server notes gave no result" in ran.err
    assert "no glossary here" in ran.err
    assert desk.tree() == before


def test_a_role_without_servers(desk: Desk) -> None:
    ran = desk("role", "tools", "Worker")
    assert (ran.code, "has no `mcp_servers`" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ({"a__b": {"command": ["x"]}}, "`mcp_servers.a__b` must be named with at most 32 letters"),
        ({"a": {"command": ["./x"]}}, "`mcp_servers.a.command[0]` must be a program in PATH"),
        ({"a": {"command": []}}, "mcp_servers.a.command"),
        ({"a": {"command": ["x"], "tools": [{**PINNED, "name": "y" * 63}]}}, "providers refuse"),
        ({"a": {"command": ["x"], "tools": [PINNED, PINNED]}}, "has the same name as another tool: `lookup`"),
        (
            {"a": {"command": ["x"], "tools": [{**PINNED, "parameters": {"type": "array"}}]}},
            "of the type `object`",
        ),
        (
            {"a": {"command": ["x"], "tools": [{**PINNED, "name": f"t{n}"} for n in range(65)]}},
            "`mcp_servers` has 65 tools",
        ),
    ],
)
def test_what_no_provider_or_prompt_takes_is_an_error(
    desk: Desk, servers: dict[str, object], words: str
) -> None:
    (desk.home / "roles").mkdir()
    role = {"name": "Noter", "base": "Worker", "mcp_servers": servers}
    (desk.home / "roles" / "Noter.yaml").write_text(json.dumps(role), "utf-8")
    ran = desk("role", "validate", "Noter")
    assert ran.code == 5
    assert words in ran.err, ran.err


def test_servers_without_effect_are_warnings(desk: Desk) -> None:
    (desk.home / "roles").mkdir()
    role = {
        "name": "Noter",
        "base": "Worker",
        "permissions": ["read_files"],
        "mcp_servers": {"a": {"command": ["x"]}},
    }
    (desk.home / "roles" / "Noter.yaml").write_text(json.dumps(role), "utf-8")
    ran = desk("role", "validate", "Noter")
    assert ran.code == 0
    assert "`mcp_servers` has no effect" in ran.err
    assert "has no tools" in ran.err
    assert "mcp_servers: a (x), tools: none" in desk("role", "show", "Noter").out
