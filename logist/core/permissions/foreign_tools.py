"""The permissions that the tools of other agent programs require."""

from __future__ import annotations

import json
import re
from typing import Any

from logist.core.model import Permission
from logist.core.permissions.tools import list_required_permissions

_READ = (Permission.READ_FILES,)
_WRITE = (Permission.WRITE_FILES,)
_EDIT = (Permission.READ_FILES, Permission.WRITE_FILES)
_RUN = (Permission.EXECUTE_COMMANDS,)

FOREIGN_TOOLS: dict[str, tuple[Permission, ...]] = {
    **dict.fromkeys(("Read", "Grep", "Glob", "LS", "NotebookRead", "view_image"), _READ),
    **dict.fromkeys(("Edit", "MultiEdit", "NotebookEdit", "apply_patch"), _EDIT),
    "Write": _WRITE,
    **dict.fromkeys(
        (
            "Bash",
            "bash",
            "shell",
            "shell_command",
            "local_shell",
            "exec_command",
            "write_stdin",
            "BashOutput",
        ),
        _RUN,
    ),
}
"""The tools of Claude Code, Codex and mini-swe-agent that use files or run programs."""

_PATCH_LINE = re.compile(r"^\*\*\* (Add|Update|Delete) File: ", re.MULTILINE)
_PATCH_NEEDS = {
    "Add": (Permission.CREATE_FILES,),
    "Update": _EDIT,
    "Delete": (Permission.DELETE_FILES,),
}


def list_needs(name: str, arguments: Any = None, *, creates: bool = False) -> tuple[Permission, ...]:
    """List the permissions that a call requires, in the order of `Permission`; none for an unknown tool.

    `creates`: the call wrote a file that did not exist before.
    """
    if own := list_required_permissions(name):
        return own
    if creates and name == "Write":
        return (Permission.CREATE_FILES,)
    needs = FOREIGN_TOOLS.get(name, ())
    if name == "apply_patch":
        text = arguments if isinstance(arguments, str) else json.dumps(arguments).replace("\\n", "\n")
        actions = {match[1] for match in _PATCH_LINE.finditer(text.replace("\\n", "\n"))}
        required = {need for action in actions for need in _PATCH_NEEDS[action]}
        needs = tuple(each for each in Permission if each in required) or needs
    return needs
