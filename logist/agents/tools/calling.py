"""Runs a tool call: the checks in their order, then the tool."""

from __future__ import annotations

from collections.abc import Callable

from logist.agents.tools import arguments as given
from logist.agents.tools import commands, editing, listing, reading, searching, servers, text, writing
from logist.agents.tools.context import Arguments, Context, LackingError, ToolError, ToolOutcome
from logist.core.model import Call, Refusal
from logist.core.permissions.permissions import approval_refusal, disabled_tool_refusal, tool_refusal
from logist.core.permissions.tools import (
    TOOLS,
    Tool,
    is_server_tool,
    list_server_tools,
    select_permitted_tools,
)

MAX_DESCRIBED = 120
MAX_NAME = 64

CHANGING = frozenset({"write_file", "edit_file", "create_file", "delete_file", "execute_command"})
"""Tools that change something; repeating a call of the others is harmless."""


def may_change(name: str) -> bool:
    """Whether a tool may change something: nobody knows what the tools of an MCP server do."""
    return name in CHANGING or is_server_tool(name)


TAKEN_OUT = "the arguments contain what looks like a secret; Logist removed it and did not run the tool"

_WORK: dict[str, Callable[[Arguments, Context], tuple[str, int]]] = {
    "read_file": reading.read_file,
    "list_directory": listing.list_directory,
    "search": searching.search,
    "write_file": writing.write_file,
    "edit_file": editing.edit_file,
    "create_file": writing.create_file,
    "delete_file": writing.delete_file,
    "execute_command": commands.execute_command,
}


def run_tool(call: Call, context: Context) -> ToolOutcome:
    """Return the outcome of a call. Never raises because of what a model wrote.

    In this order: the tool exists, and is not disabled; the role has ALL its permissions; the arguments are
    complete, for a tool that changes something, and valid; a steward has allowed it, if needed.
    Nothing is opened or run before these checks.
    """
    tool = TOOLS.get(call.name) or list_server_tools(context.mcp_servers).get(call.name)
    if tool is None:  # models know such names (bash, apply_patch) from other programs, and correct themselves
        return _make_failure(_describe_unknown(call, context), context)
    if tool.name in context.rules.disabled:
        return _make_refusal(disabled_tool_refusal(tool.name, context.role), context)
    missing = context.permissions.find_missing(tool.required_permissions)
    if missing:
        return _make_refusal(tool_refusal(tool.name, context.role, missing), context)
    try:
        if call.redacted and may_change(tool.name):
            raise ToolError(TAKEN_OUT)
        if is_server_tool(tool.name):
            arguments = given.parse_object(tool.name, call.arguments)
        else:
            arguments = given.parse_arguments(tool, call.arguments)
        if tool.name in context.rules.require_approval and tool.name not in context.approved:
            return _make_refusal(
                approval_refusal(tool.name, context.role, _describe_call(arguments, context)), context
            )
        return _run_allowed(tool, arguments, context)
    except LackingError as error:
        return _make_refusal(tool_refusal(tool.name, context.role, error.missing), context)
    except ToolError as error:
        return _make_failure(str(error), context)


def _describe_unknown(call: Call, context: Context) -> str:
    names = ", ".join(
        tool.name
        for tool in (
            *select_permitted_tools(context.permissions, context.rules.disabled),
            *list_server_tools(context.mcp_servers).values(),
        )
    )
    yours = f"your tools are: {names}" if names else "you have no tools"
    return f"unknown tool: {_to_one_line(call.name, MAX_NAME, context)}; {yours}"


def _run_allowed(tool: Tool, arguments: Arguments, context: Context) -> ToolOutcome:
    context.require_time_left()
    try:
        if is_server_tool(tool.name):
            return _call_server(tool, arguments, context)
        content, redactions = _WORK[tool.name](arguments, context)
    except OSError as error:
        return _make_failure(f"{tool.name} failed: {error.strerror or type(error).__name__}", context)
    finished, more = text.finish_result(context.redact, content, context.rules.max_result_chars)
    return ToolOutcome(finished, redactions=redactions + more)


def _call_server(tool: Tool, arguments: Arguments, context: Context) -> ToolOutcome:
    content, is_error = servers.call_server_tool(tool.name, arguments, context)
    finished, count = text.finish_result(context.redact, content, context.rules.max_result_chars)
    return ToolOutcome(finished, error=is_error, redactions=count)


def _make_failure(message: str, context: Context) -> ToolOutcome:
    finished, count = text.finish_result(context.redact, f"error: {message}", context.rules.max_result_chars)
    return ToolOutcome(finished, error=True, redactions=count)


def _make_refusal(refusal: Refusal, context: Context) -> ToolOutcome:
    message = f"refused: {refusal.message}"
    finished, count = text.finish_result(context.redact, message, context.rules.max_result_chars)
    return ToolOutcome(finished, refusal=refusal, redactions=count)


def _describe_call(arguments: Arguments, context: Context) -> str:
    """Describe a call on one line: its command, or its path, or all its arguments."""
    main = arguments.get("command") or arguments.get("path")
    return _to_one_line(str(main if main is not None else arguments), MAX_DESCRIBED, context)


def _to_one_line(words: str, limit: int, context: Context) -> str:
    """Return one printable line, redacted before it is cut."""
    redacted, _ = context.redact(words[: limit + text.CONTEXT])
    line = " ".join("".join(c if c.isprintable() else " " for c in redacted).split())
    return line if len(line) <= limit else f"{line[:limit]}..."
