"""Asks the MCP servers of a role for their tools, in the sandbox that they have in a job."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from logist.agents.protocol import AgentWork
from logist.agents.tools.context import ToolError
from logist.agents.tools.servers import ServerDialogue, ask_server
from logist.agents.workplace import Workplace
from logist.config.working import SandboxRules
from logist.core.model import JsonObject, Role
from logist.core.permissions.tools import SEPARATOR
from logist.errors import Refused
from logist.quick_dataclass import dataclass
from logist.roles.tool_servers import MAX_TOOLS, find_tool_fault

MAX_PAGES = 10
SECONDS = 60.0
MAX_NAME = 80


@dataclass(frozen=True)
class ListedTools:
    """The MCP servers of a role with the tools that they have now."""

    servers: JsonObject
    """The field `mcp_servers`, as the role file has it."""
    left_out: tuple[str, ...]
    """The tools that a model can't be offered, each with the reason."""


def list_tools_of_servers(
    role: Role, rules: SandboxRules, environment: dict[str, str], stop: Callable[[], bool]
) -> ListedTools:
    """Start each server in an empty directory and ask for its tools. Raises Refused if one gives no list."""
    servers: JsonObject = {}
    left_out: list[str] = []
    for name, server in role.mcp_servers.items():
        tools: list[JsonObject] = []
        seen: set[str] = set()
        for found in _ask_for_pages(role, name, rules, environment, stop):
            tool = _to_role_tool(found)
            shown = repr(str(tool["name"])[:MAX_NAME])
            if fault := find_tool_fault(name, tool) or (
                "has the name of another tool" if tool["name"] in seen else ""
            ):
                left_out.append(f"{name}: the tool {shown} {fault}")
            else:
                tools.append(tool)
                seen.add(tool["name"])
        servers[name] = {"command": list(server.command), "tools": tools}
    return ListedTools(servers, tuple(left_out))


def _ask_for_pages(
    role: Role, name: str, rules: SandboxRules, environment: dict[str, str], stop: Callable[[], bool]
) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = _ask_for_page(role, name, rules, environment, stop, cursor)
        tools, cursor = page.get("tools"), page.get("nextCursor")
        found += [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
        if not isinstance(cursor, str) or len(found) > MAX_TOOLS:
            break
    return found


def _ask_for_page(
    role: Role,
    name: str,
    rules: SandboxRules,
    environment: dict[str, str],
    stop: Callable[[], bool],
    cursor: str | None,
) -> JsonObject:
    with tempfile.TemporaryDirectory(prefix="logist-server-") as folder:
        place = Workplace(Path(folder, "workspace"), Path(folder, "scratch"), environment)
        place.workspace.mkdir()
        place.home.mkdir(parents=True)
        marker = f"tools-{os.urandom(8).hex()}"
        work = AgentWork(permissions=role.permissions, network=role.network, sandbox=rules, marker=marker)
        try:
            return ask_server(
                name,
                role.mcp_servers[name].command,
                ServerDialogue("tools/list", {"cursor": cursor} if cursor else {}),
                place.confine_server(work),
                seconds=SECONDS,
                scratch=place.scratch,
                marker=marker,
                stop=stop,
            )
        except ToolError as error:
            fix = "correct its command in the role file; its files must be visible in the sandbox (`sandbox.readable`)"
            raise Refused(str(error), where=f"role {role.name}, mcp_servers.{name}", fix=fix) from None


def _to_role_tool(tool: Mapping[str, Any]) -> JsonObject:
    """Return a tool as a role file has it; `find_tool_fault` says what is wrong with it."""
    description = tool.get("description")
    return {
        "name": tool["name"] if isinstance(tool.get("name"), str) else "",
        "description": description if isinstance(description, str) else "",
        "parameters": tool.get("inputSchema"),
    }


def compare_tools(before: Role, servers: JsonObject) -> dict[str, list[str]]:
    """Return the names of the tools, by how each differs from the role: new, changed, gone or unchanged."""
    old = {
        f"{name}{SEPARATOR}{tool.name}": tool.model_dump(mode="json")
        for name, server in before.mcp_servers.items()
        for tool in server.tools
    }
    now = {
        f"{name}{SEPARATOR}{tool['name']}": tool
        for name, server in servers.items()
        for tool in server["tools"]
    }
    return {
        "new": [name for name in now if name not in old],
        "changed": [name for name in now if name in old and now[name] != old[name]],
        "gone": [name for name in old if name not in now],
        "unchanged": [name for name in now if name in old and now[name] == old[name]],
    }
