"""Checks the MCP servers of a role: what providers accept, and what fits into every request."""

from __future__ import annotations

import json
from collections.abc import Iterator

from logist.core.permissions.tools import SEPARATOR
from logist.lazy_patterns import compile_on_use

MAX_TOOLS = 64
MAX_TOOLS_CHARACTERS = 65_536
"""All tools of the MCP servers of a role together: each request contains them."""
MAX_TOOL_NAME = 64
"""Longer names are refused by providers."""
MAX_DESCRIPTION = 4_000

_SERVER_NAME = compile_on_use(r"[A-Za-z0-9][A-Za-z0-9-]{0,31}")
_TOOL_NAME = compile_on_use(r"[A-Za-z0-9_-]{1,64}")


def find_server_faults(servers: object) -> Iterator[tuple[str, str]]:
    """Yield what no model could be offered, or is too much for a prompt, with the path of the field."""
    if not isinstance(servers, dict):
        return
    size = count = 0
    for name, server in servers.items():
        here = f"mcp_servers.{name}"
        if not _SERVER_NAME.fullmatch(str(name)):
            yield here, "must be named with at most 32 letters, digits and hyphens"
        command = server.get("command") if isinstance(server, dict) else None
        program = command[0] if isinstance(command, list) and command else None
        if isinstance(program, str) and "/" in program and not program.startswith("/"):
            yield (
                f"{here}.command[0]",
                "must be a program in PATH or an absolute path: an agent can change a file of the workspace",
            )
        tools = server.get("tools") if isinstance(server, dict) else None
        seen: set[str] = set()
        for number, tool in enumerate(tools if isinstance(tools, list) else ()):
            fault = find_tool_fault(str(name), tool)
            tool_name = str(tool.get("name")) if isinstance(tool, dict) else ""
            if fault or tool_name in seen:
                yield f"{here}.tools[{number}]", fault or f"has the same name as another tool: `{tool_name}`"
            seen.add(tool_name)
            size += len(json.dumps(tool, default=str))
            count += 1
    if size > MAX_TOOLS_CHARACTERS or count > MAX_TOOLS:
        limits = f"{MAX_TOOLS} and {MAX_TOOLS_CHARACTERS:,}, because every request contains them"
        yield "mcp_servers", f"has {count} tools of {size:,} characters; the limits are {limits}: remove some"


def find_tool_fault(server: str, tool: object) -> str:
    """Return why a model can't be offered this tool of a server; "" if it can."""
    if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
        return "has no name"
    if not _TOOL_NAME.fullmatch(name) or len(f"{server}{SEPARATOR}{name}") > MAX_TOOL_NAME:
        return (
            f"has a name that providers refuse; `{server}{SEPARATOR}NAME` may have {MAX_TOOL_NAME} characters: "
            "letters, digits, `_` and `-`"
        )
    if len(str(tool.get("description") or "")) > MAX_DESCRIPTION:
        return f"has a description of more than {MAX_DESCRIPTION:,} characters"
    parameters = tool.get("parameters")
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        return "needs `parameters` of the type `object`"
    return ""
