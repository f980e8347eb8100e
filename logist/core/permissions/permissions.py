"""Detects and describes what a role did, or tried to do, without permission.

A refusal is never retried: it makes the job STUCK.
"""

from __future__ import annotations

from collections.abc import Sequence

from logist.core.model import Change, Permission, Permissions, Refusal

NEEDS = {
    "created": Permission.CREATE_FILES,
    "modified": Permission.WRITE_FILES,
    "mode": Permission.WRITE_FILES,
    "deleted": Permission.DELETE_FILES,
}
"""The permission that each kind of change requires."""

PAST = {"created": "created", "modified": "changed", "mode": "changed the mode of", "deleted": "deleted"}


def tool_refusal(tool: str, role: str, missing: Sequence[Permission]) -> Refusal:
    """Describe the call of a tool for which the role lacks permissions."""
    names = ", ".join(missing)
    message = f"the tool {tool} is not allowed for the role {role}: it lacks {names}"
    return Refusal(kind="tool", tool=tool, role=role, missing=list(missing), message=message)


def disabled_tool_refusal(tool: str, role: str) -> Refusal:
    """Describe the call of a tool that the settings disable for all roles."""
    message = f"the tool {tool} is disabled and was not offered to the role {role}"
    return Refusal(kind="tool", tool=tool, role=role, missing=[], message=message)


def approval_refusal(tool: str, role: str, what: str) -> Refusal:
    """Describe the call of a tool that a steward must allow first; `what` describes the call on one line."""
    message = f"the tool {tool} needs a steward's approval (job resubmit --allow {tool}): {what}"
    return Refusal(kind="approval", tool=tool, role=role, missing=[], message=message)


def list_forbidden_changes(permissions: Permissions) -> frozenset[str]:
    """Return the kinds of change that a role may not make."""
    return frozenset(kind for kind, need in NEEDS.items() if not permissions.allows(need))


def is_forbidden(permissions: Permissions, change: Change) -> bool:
    """Whether a role may not make this change.

    Files that a program leaves in a cache (`node_modules/`, `__pycache__/`) are a side effect: they count as a
    breach only if the role may not run programs.
    """
    if change.cache and permissions.can_execute_commands:
        return False
    return not permissions.allows(NEEDS.get(change.kind, Permission.WRITE_FILES))


def can_change_files(permissions: Permissions) -> bool:
    """Whether a role may change files in any way."""
    return any(permissions.allows(need) for need in NEEDS.values())


def has_changed_nothing(permissions: Permissions, changes: Sequence[Change]) -> bool:
    """Whether a role that may change files changed none; caches do not count."""
    return can_change_files(permissions) and all(change.cache for change in changes)


def describe_breach(change: Change, role: str, *, undone: bool) -> Refusal:
    """Describe a change of the workspace that the role may not make."""
    need = NEEDS.get(change.kind, Permission.WRITE_FILES)
    rest = "the change was undone" if undone else "the change could not be undone"
    done = PAST.get(change.kind, "changed")
    message = f"the role {role} {done} {change.path}, but lacks {need}; {rest}"
    return Refusal(
        kind="workspace",
        path=change.path,
        change=change.kind,
        role=role,
        missing=[need.value],
        undone=undone,
        message=message,
    )
