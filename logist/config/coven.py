"""`.coven/config.json`: the settings of a Coven project, translated to those of Logist."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from logist.config.sections import Above, ContextRules, Count, Review, RoleChoice
from logist.core.model import Frozen
from logist.documents import Document, suggest_names, validate_document
from logist.errors import InvalidFile
from logist.quick_tuple import NamedTuple

FILE = "config.json"

PERMISSIONS = "agentPermissions"
INSTEAD = {
    PERMISSIONS: "set the permissions of the role instead",
    "agent_command": "set `agent` in .logist/config.yaml instead",
    "agentTimeoutMs": "set orchestration.agent_timeout_minutes instead",
    "maxConcurrentAgents": "set orchestration.max_concurrent_agents instead",
    "poll_interval": "set orchestration.poll_interval_seconds instead",
    "preMergeChecks": "add a check with a command to review.checks instead",
}
"""What to use in Logist instead of keys that only Coven uses."""
LEFT_TO_COVEN = "only Coven uses it"
OF_COVEN = frozenset(
    {
        *INSTEAD,
        "beadsSyncIntervalMs",
        "log_level",
        "logging",
        "mergeConflictMaxRetries",
        "notifications",
        "outputRetentionDays",
        "worktreeBasePath",
    }
)
"""Keys that only Coven itself uses."""
AGENTS = "max_concurrent_agents"


class Unused(NamedTuple):
    """A key of the file that Logist does not use: one of Coven's own, of any version."""

    where: str
    """FILE:LINE"""
    key: str

    @property
    def message(self) -> str:
        """The warning for the user."""
        return f"Logist does not use `{self.key}`"

    @property
    def advice(self) -> str:
        """What the user can do about it."""
        return INSTEAD.get(self.key, LEFT_TO_COVEN)


class Orchestration(Frozen):
    """How many agents work at the same time, for how long, and how often the queue is checked."""

    max_concurrent_agents: Count = 3
    agent_timeout_minutes: Above = 30
    poll_interval_seconds: Above = 5


class CovenConfig(Frozen):
    """The sections that the file may contain."""

    orchestration: Orchestration = Orchestration()
    review: Review = Review()
    context: ContextRules = ContextRules()
    roles: RoleChoice = RoleChoice()


def translate_document(document: Document, settings: Collection[str]) -> Document:
    """Translate the file to the keys of config.yaml, which are `settings`.

    Raises InvalidFile with the names of the file itself.
    """
    document = _move_agents_key(document)
    used_keys = {key: value for key, value in document.data.items() if not _is_covens(key, settings)}
    for key in used_keys:
        if key in settings and key not in CovenConfig.model_fields:
            raise _build_misplaced_error(document, key)
    validate_document(CovenConfig, replace(document, data=used_keys))
    section = used_keys.pop("orchestration", {})
    prefix = "orchestration."
    lines = {field.removeprefix(prefix): line for field, line in document.lines.items()}
    return replace(document, data=used_keys | section, lines=document.lines | lines)


def find_unused_keys(document: Document, settings: Collection[str]) -> list[Unused]:
    """Return the keys of the file that Logist does not use, in the order of the file."""
    keys = [key for key in document.data if _is_covens(key, settings)]
    return [Unused(f"{document.path}:{document.lines.get(key, 1)}", key) for key in keys]


def _move_agents_key(document: Document) -> Document:
    """Move the key that Coven's daemon writes outside of `orchestration` into that section."""
    section = document.data.get("orchestration", {})
    if AGENTS not in document.data or not isinstance(section, dict):
        return document
    data = {key: value for key, value in document.data.items() if key != AGENTS}
    agents_line = {f"orchestration.{AGENTS}": document.lines.get(AGENTS, 1)}
    data["orchestration"] = {AGENTS: document.data[AGENTS]} | section
    return replace(document, data=data, lines=agents_line | document.lines)


def _is_covens(key: str, settings: Collection[str]) -> bool:
    """Whether a key belongs to Coven alone: neither a setting of Logist nor a misspelled section.

    Coven may write keys that this version of Logist does not know; these must not be errors.
    """
    if key in settings or key in CovenConfig.model_fields:
        return False
    return key in OF_COVEN or not (suggest_names(key, CovenConfig.model_fields) or "").endswith("?")


def _build_misplaced_error(document: Document, key: str) -> InvalidFile:
    fix = f"move it to .logist/config.yaml; this file can have {_list_fields(CovenConfig)}"
    if key in Orchestration.model_fields:
        fix = f"move it under `orchestration`: orchestration.{key}"
    return InvalidFile(f"unknown key `{key}`", where=f"{document.path}:{document.lines.get(key, 1)}", fix=fix)


def _list_fields(model: Any) -> str:
    return ", ".join(f"`{name}`" for name in model.model_fields)
