"""`logist role show`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import json_option
from logist.cli.shell_values import complete_role
from logist.cli.show.glance import role_span
from logist.cli.show.output import Line, Output, StyledText
from logist.config.environment import Environment

if TYPE_CHECKING:
    from logist.core.model import Role, ToolServer
    from logist.roles import LoadedRole, Origin

TEXTS = ("instructions", "prompt_template")


@click.command("show")
@click.argument("name", shell_complete=complete_role)
@json_option
@click.pass_obj
def show(environment: Environment, name: str) -> Output:
    """Show a role with all its fields.

    Each value has its source: a line of the role file, the base role, another role, or `default`.
    """
    from logist.cli.context import load_known_roles

    roles = load_known_roles(environment)
    role = roles.get(name)
    loaded = roles.by_name[name]
    data = {
        **role.model_dump(mode="json"),
        "file": str(loaded.path),
        "base": loaded.base,
        "sources": {key: _build_source(origin) for key, origin in loaded.origins.items()},
    }
    return Output(data, _format_role(role, loaded))


def _build_source(origin: Origin) -> dict[str, Any]:
    return {"from": origin.kind, "file": origin.path, "line": origin.line, "role": origin.role}


def _format_role(role: Role, loaded: LoadedRole) -> Iterator[Line]:
    yield (role_span(role.name, role.badge, role.color), f": {role.description}")
    yield f"file: {loaded.path}"
    if loaded.base:
        yield f"base: {loaded.base}"
    for key, value in _iter_values(role):
        yield (f"{key}: {value}", StyledText(f"  [{_describe_origin(loaded, key)}]", "dim"))
    for key in TEXTS:
        if text := getattr(role, key):
            yield ""
            yield (f"{key}:", StyledText(f"  [{_describe_origin(loaded, key)}]", "dim"))
            yield from text.splitlines()


def _iter_values(role: Role) -> Iterator[tuple[str, str]]:
    """Yield all fields as text, except long texts that are set."""
    for key, value in role.model_dump(mode="json").items():
        if key == "permissions":
            yield key, ", ".join(role.permissions.list_names()) or "none"
        elif key == "context_requirements" and value is None:
            yield key, "a list of the files in the workspace"
        elif key == "mcp_servers":
            yield key, "; ".join(map(_format_server, role.mcp_servers, role.mcp_servers.values())) or "none"
        elif key not in TEXTS or not value:
            yield key, _format_value(value)


def _format_server(name: str, server: ToolServer) -> str:
    tools = ", ".join(tool.name for tool in server.tools) or "none"
    return f"{name} ({shlex.join(server.command)}), tools: {tools}"


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)


def _describe_origin(loaded: LoadedRole, key: str) -> str:
    """Return the source of the value of a field, in short."""
    origin = loaded.origins[key]
    match origin.kind:
        case "file":
            return f"line {origin.line}"
        case "base":
            return f"base {origin.role}, {origin.place}"
        case "fallback":
            return f"from {origin.role}, {origin.place}"
    return "default"
