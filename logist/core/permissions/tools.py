"""The tools of a model that works in a workspace: the name, parameters and required permissions of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from logist.core.model import JsonObject, Permission, Permissions, Role, ToolServer
from logist.quick_dataclass import dataclass

MAX_EDITED_BYTES = 8 << 20
"""Larger files can't be edited; no tool creates a file larger than this."""
MAX_SEARCHED_BYTES = 8 << 20
"""`search` skips larger files."""
MAX_DEPTH = 3
"""The maximum depth of `list_directory`."""

_PATH = (
    "as a path relative to the workspace, with '/'. Absolute paths, '..' and symbolic links are not allowed"
)


@dataclass(frozen=True)
class Tool:
    """A function that a model may call."""

    name: str
    description: str
    """The description for the model."""
    parameters: JsonObject
    """A JSON Schema of an object; the arguments are checked against it."""
    required_permissions: tuple[Permission, ...]
    """The tool requires all of them."""


def _object_schema(required: tuple[str, ...], **properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _text_schema(description: str) -> JsonObject:
    return {"type": "string", "description": description}


def _flag_schema(description: str) -> JsonObject:
    return {"type": "boolean", "description": description}


def _count_schema(description: str, maximum: int | None = None) -> JsonObject:
    bounds = {"minimum": 1} if maximum is None else {"minimum": 1, "maximum": maximum}
    return {"type": "integer", "description": description, **bounds}


_ALL = (
    Tool(
        "read_file",
        "Reads a text file of the workspace. The first line of the result says which lines are shown, and how many "
        "lines the file has. The unchanged text follows, without line numbers. If the file is too long, the text is "
        "cut, and the last line says how to read the rest.",
        _object_schema(
            ("path",),
            path=_text_schema(f"The file, {_PATH}."),
            offset=_count_schema("The first line to show, from 1. Default 1."),
            limit=_count_schema("The maximum number of lines to show. Default: as many as fit."),
            column=_count_schema(
                "The character at which to begin in the first line, from 1. Use it for very long lines. Default 1."
            ),
        ),
        (Permission.READ_FILES,),
    ),
    Tool(
        "list_directory",
        "Lists a directory of the workspace, sorted: kind, size in bytes, path. Caches such as node_modules/ are "
        "listed without their contents, and .git is left out. A long list is cut, with a note.",
        _object_schema(
            (),
            path=_text_schema(f"The directory, {_PATH}. Default '.', the workspace itself."),
            depth=_count_schema(
                f"The number of directory levels to show, from 1 to {MAX_DEPTH}. Default 1.", MAX_DEPTH
            ),
        ),
        (Permission.READ_FILES,),
    ),
    Tool(
        "search",
        "Finds the lines that contain a text, in all text files of the workspace or in those below `path`. The "
        "result has lines of the form 'path:line: text'. An empty pattern lists the files themselves. Binary files, "
        f"caches, .git, links and files over {MAX_SEARCHED_BYTES >> 20} MB are skipped. A long result is cut, with a "
        "note.",
        _object_schema(
            ("pattern",),
            pattern=_text_schema(
                "The text to find in each line: plain text, or a regular expression if `regex` is true."
            ),
            path=_text_schema(f"A directory or a file, {_PATH}. Default '.', the workspace itself."),
            glob=_text_schema(
                "Search only files whose name or path matches, for example '*.py' or 'src/**/*.ts'."
            ),
            regex=_flag_schema("Use the pattern as a Python regular expression. Default false."),
            ignore_case=_flag_schema("Ignore upper and lower case. Default false."),
        ),
        (Permission.READ_FILES,),
    ),
    Tool(
        "write_file",
        "Replaces the complete content of a file of the workspace. If the file does not exist and your role may "
        "create files, it creates the file. To change a part of a file, use edit_file.",
        _object_schema(
            ("path", "content"),
            path=_text_schema(f"The file, {_PATH}."),
            content=_text_schema("The complete new content. It is written unchanged."),
        ),
        (Permission.WRITE_FILES,),
    ),
    Tool(
        "edit_file",
        "Replaces a piece of text in a file of the workspace. The file must contain `old` exactly once, with the "
        "same spaces and line breaks, unless `replace_all` is true. Line endings (CRLF) are kept. The file must be "
        f"UTF-8 text of at most {MAX_EDITED_BYTES >> 20} MB.",
        _object_schema(
            ("path", "old", "new"),
            path=_text_schema(f"The file, {_PATH}."),
            old=_text_schema(
                "The text to replace, exactly as in the file. Include enough lines around it to make it unique."
            ),
            new=_text_schema("The new text. An empty text deletes the old one."),
            replace_all=_flag_schema("Replace every occurrence. Default false."),
        ),
        (Permission.READ_FILES, Permission.WRITE_FILES),
    ),
    Tool(
        "create_file",
        "Creates a new file in the workspace, and its parent directories. If the path exists, this is an error.",
        _object_schema(
            ("path", "content"),
            path=_text_schema(f"The file, {_PATH}."),
            content=_text_schema("The complete content. It is written unchanged, and may be empty."),
        ),
        (Permission.CREATE_FILES,),
    ),
    Tool(
        "delete_file",
        "Deletes one file, one symbolic link (its target stays) or one empty directory of the workspace. A directory "
        "that is not empty is an error.",
        _object_schema(
            ("path",),
            path=_text_schema(
                "What to delete, as a path relative to the workspace, with '/'. Absolute paths and '..' are not allowed."
            ),
        ),
        (Permission.DELETE_FILES,),
    ),
    Tool(
        "execute_command",
        "Runs a command with /bin/sh in the workspace, in a sandbox, without input, and waits until it ends. "
        "Background processes are stopped at the end. The result has the exit status, the standard output and the "
        "standard error. If the output is long, only its beginning and its end are shown.",
        _object_schema(
            ("command",),
            command=_text_schema("The command line, as for /bin/sh -c."),
            timeout_seconds=_count_schema(
                "Stop the command after this many seconds. The configured maximum applies too."
            ),
        ),
        (Permission.EXECUTE_COMMANDS,),
    ),
)

TOOLS: dict[str, Tool] = {tool.name: tool for tool in _ALL}
"""All tools by name, in the order in which they are offered."""


def select_permitted_tools(permissions: Permissions, disabled: Collection[str] = ()) -> list[Tool]:
    """List the tools that a role gets: those that are not disabled and for which it has all permissions."""
    return [
        tool
        for tool in TOOLS.values()
        if tool.name not in disabled and not permissions.find_missing(tool.required_permissions)
    ]


SEPARATOR = "__"
"""Between the name of an MCP server and that of its tool; no other tool has it in its name."""

_OF_SERVERS = (Permission.EXECUTE_COMMANDS,)


def is_server_tool(name: str) -> bool:
    """Whether a tool belongs to an MCP server, by its name."""
    return SEPARATOR in name


def list_required_permissions(name: str) -> tuple[Permission, ...]:
    """Return the permissions that a tool needs, by its name alone; none for a name that is no tool's."""
    if is_server_tool(name):
        return _OF_SERVERS
    return TOOLS[name].required_permissions if name in TOOLS else ()


def list_server_tools(servers: Mapping[str, ToolServer]) -> dict[str, Tool]:
    """Return the tools of MCP servers by the names that a model calls them by.

    They need the permission to run programs, because a server is one.
    """
    tools = (
        Tool(f"{name}{SEPARATOR}{tool.name}", tool.description, tool.parameters, _OF_SERVERS)
        for name, server in servers.items()
        for tool in server.tools
    )
    return {tool.name: tool for tool in tools}


def select_role_tools(role: Role, disabled: Collection[str] = ()) -> list[Tool]:
    """List the tools that a model with this role is offered: Logist's own, then those of its MCP servers."""
    return [
        *select_permitted_tools(role.permissions, disabled),
        *(
            tool
            for tool in list_server_tools(role.mcp_servers).values()
            if tool.name not in disabled and not role.permissions.find_missing(tool.required_permissions)
        ),
    ]


def to_function_schema(tool: Tool) -> JsonObject:
    """Return the tool as a chat completion request describes it."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }
