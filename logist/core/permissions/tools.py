"""The tools of a model that works in a workspace: the name, parameters and required permissions of each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from logist.core.model import JsonObject, Permission, Permissions

MAX_EDITED_BYTES = 8 << 20
"""Larger files are not edited; no tool leaves a file larger than this."""
MAX_SEARCHED_BYTES = 8 << 20
"""Larger files are passed over by `search`."""
MAX_DEPTH = 3
"""Levels of directories that `list_directory` shows at once."""

_PATH = "relative to the workspace, with '/'; no '..', no absolute path, no symbolic link"


@dataclass(frozen=True)
class Tool:
    """A function that a model may call."""

    name: str
    description: str
    """What the model reads."""
    parameters: JsonObject
    """A JSON Schema of an object; the arguments are checked against it."""
    required_permissions: tuple[Permission, ...]
    """All of them are needed."""


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
        "Reads a text file of the workspace. The first line of the result tells which lines are shown, of how "
        "many; the text follows as it is, without line numbers. A long file is cut; the last line then says "
        "how to read on.",
        _object_schema(
            ("path",),
            path=_text_schema(f"The file, {_PATH}."),
            offset=_count_schema("The first line to show, from 1. Default 1."),
            limit=_count_schema("How many lines to show at most. Default: as many as fit."),
            column=_count_schema(
                "The character of the first line to begin at, from 1; for very long lines. Default 1."
            ),
        ),
        (Permission.READ_FILES,),
    ),
    Tool(
        "list_directory",
        "Lists a directory of the workspace, sorted: kind, size in bytes, path. Caches such as node_modules/ are "
        "named and not entered; .git is left out. A long listing is cut with a note.",
        _object_schema(
            (),
            path=_text_schema(f"The directory, {_PATH}. Default '.', the workspace itself."),
            depth=_count_schema(f"How many levels to show, 1 to {MAX_DEPTH}. Default 1.", MAX_DEPTH),
        ),
        (Permission.READ_FILES,),
    ),
    Tool(
        "search",
        "Finds lines that contain a text, in all text files of the workspace or below `path`; gives "
        "'path:line: text'. An empty pattern lists the files themselves. Binary files, caches, .git, links and "
        f"files over {MAX_SEARCHED_BYTES >> 20} MB are passed over; long results are cut with a note.",
        _object_schema(
            ("pattern",),
            pattern=_text_schema(
                "What to look for in each line: plain text, or a regular expression if `regex` is true."
            ),
            path=_text_schema(f"A directory or a file, {_PATH}. Default '.', the workspace itself."),
            glob=_text_schema("Only files of this name or path, as in '*.py' or 'src/**/*.ts'."),
            regex=_flag_schema("Take the pattern as a regular expression of Python. Default false."),
            ignore_case=_flag_schema("Take upper and lower case as equal. Default false."),
        ),
        (Permission.READ_FILES,),
    ),
    Tool(
        "write_file",
        "Replaces the whole content of a file of the workspace, or makes a new one where the role may create "
        "files. To change a part of a file, use edit_file.",
        _object_schema(
            ("path", "content"),
            path=_text_schema(f"The file, {_PATH}."),
            content=_text_schema("The whole new content, written as it is."),
        ),
        (Permission.WRITE_FILES,),
    ),
    Tool(
        "edit_file",
        "Replaces an exact piece of text in a file of the workspace. `old` must be in the file exactly once, "
        "spaces and line breaks included, unless replace_all is true. Line ends (CRLF) are kept. Only UTF-8 "
        f"text, up to {MAX_EDITED_BYTES >> 20} MB.",
        _object_schema(
            ("path", "old", "new"),
            path=_text_schema(f"The file, {_PATH}."),
            old=_text_schema(
                "The text to replace, exactly as it is in the file; with enough lines around to be unique."
            ),
            new=_text_schema("What stands there afterwards; empty to take the text out."),
            replace_all=_flag_schema("Replace every occurrence. Default false."),
        ),
        (Permission.READ_FILES, Permission.WRITE_FILES),
    ),
    Tool(
        "create_file",
        "Makes a new file in the workspace, and the directories above it. A path that exists is an error.",
        _object_schema(
            ("path", "content"),
            path=_text_schema(f"The file, {_PATH}."),
            content=_text_schema("The whole content, written as it is; may be empty."),
        ),
        (Permission.CREATE_FILES,),
    ),
    Tool(
        "delete_file",
        "Deletes one file, one symbolic link (not what it points to) or one empty directory of the workspace; "
        "never a directory with something in it.",
        _object_schema(
            ("path",),
            path=_text_schema(
                "What to delete, relative to the workspace, with '/'; no '..', no absolute path."
            ),
        ),
        (Permission.DELETE_FILES,),
    ),
    Tool(
        "execute_command",
        "Runs a command with /bin/sh in the workspace, in a sandbox, without input, and waits until it ends: "
        "nothing goes on in the background. The result tells how it ended, its standard output and its standard "
        "error; of long output the beginning and the end are shown.",
        _object_schema(
            ("command",),
            command=_text_schema("The command line, as for /bin/sh -c."),
            timeout_seconds=_count_schema("After how many seconds to end it; never more than is configured."),
        ),
        (Permission.EXECUTE_COMMANDS,),
    ),
)

TOOLS: dict[str, Tool] = {tool.name: tool for tool in _ALL}
"""All tools by name, in the order in which they are offered."""


def select_permitted_tools(permissions: Permissions, disabled: Collection[str] = ()) -> list[Tool]:
    """List the tools a role gets: those that are not disabled and for which
    it has ALL required permissions.
    """
    return [
        tool
        for tool in TOOLS.values()
        if tool.name not in disabled and not permissions.find_missing(tool.required_permissions)
    ]


def to_function_schema(tool: Tool) -> JsonObject:
    """Return the tool as a chat completion request describes it."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }
