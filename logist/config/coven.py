"""`.coven/config.json`: the settings of a project that was made for Coven, in Logist's terms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

from logist.config.sections import Above, ContextRules, Count, Review, RoleChoice
from logist.core.model import Frozen
from logist.documents import Document, suggest_names, validate_document
from logist.errors import InvalidFile

FILE = "config.json"

PERMISSIONS = "agentPermissions"
INSTEAD = {
    PERMISSIONS: "the permissions of a role decide what its agents may do",
    "agent_command": "write `agent` in .logist/config.yaml",
    "agentTimeoutMs": "write orchestration.agent_timeout_minutes",
    "maxConcurrentAgents": "write orchestration.max_concurrent_agents",
    "poll_interval": "write orchestration.poll_interval_seconds",
    "preMergeChecks": "write a check with a command in review.checks",
}
"""What Logist has in place of keys that only Coven uses."""
LEFT_TO_COVEN = "leave it to Coven"
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
"""Keys that Coven is known to write for itself."""
AGENTS = "max_concurrent_agents"


class Unused(NamedTuple):
    """A key of the file that Logist does not use: Coven's own, of whatever version."""

    where: str
    """FILE:LINE"""
    key: str

    @property
    def message(self) -> str:
        """What a person should know of it."""
        return f"Logist does not use `{self.key}`"

    @property
    def advice(self) -> str:
        """What to do about it."""
        return INSTEAD.get(self.key, LEFT_TO_COVEN)


class Orchestration(Frozen):
    """How many agents work, for how long, and how often the queue is looked at."""

    max_concurrent_agents: Count = 3
    agent_timeout_minutes: Above = 30
    poll_interval_seconds: Above = 5


class CovenConfig(Frozen):
    """What the file may hold."""

    orchestration: Orchestration = Orchestration()
    review: Review = Review()
    context: ContextRules = ContextRules()
    roles: RoleChoice = RoleChoice()


def translate_document(document: Document, settings: Collection[str]) -> Document:
    """The same in the terms of config.yaml, whose keys are `settings`.

    Raises InvalidFile in the terms of the file itself.
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
    """The keys of the file, as it was read, that Logist does not use, in the order of the file."""
    keys = [key for key in document.data if _is_covens(key, settings)]
    return [Unused(f"{document.path}:{document.lines.get(key, 1)}", key) for key in keys]


def _move_agents_key(document: Document) -> Document:
    """The same with the key that Coven's daemon writes outside of `orchestration` in there."""
    section = document.data.get("orchestration", {})
    if AGENTS not in document.data or not isinstance(section, dict):
        return document
    data = {key: value for key, value in document.data.items() if key != AGENTS}
    agents_line = {f"orchestration.{AGENTS}": document.lines.get(AGENTS, 1)}
    data["orchestration"] = {AGENTS: document.data[AGENTS]} | section
    return replace(document, data=data, lines=agents_line | document.lines)


def _is_covens(key: str, settings: Collection[str]) -> bool:
    """Whether a key is Coven's business alone: no setting of Logist, and no misspelled section.

    Coven may write keys that this Logist has never heard of; that must not keep anybody from working.
    """
    if key in settings or key in CovenConfig.model_fields:
        return False
    return key in OF_COVEN or not (suggest_names(key, CovenConfig.model_fields) or "").endswith("?")


def _build_misplaced_error(document: Document, key: str) -> InvalidFile:
    fix = f"it belongs in .logist/config.yaml; here stand {_list_fields(CovenConfig)}"
    if key in Orchestration.model_fields:
        fix = f"it belongs under `orchestration`: orchestration.{key}"
    return InvalidFile(f"unknown key `{key}`", where=f"{document.path}:{document.lines.get(key, 1)}", fix=fix)


def _list_fields(model: Any) -> str:
    return ", ".join(f"`{name}`" for name in model.model_fields)
