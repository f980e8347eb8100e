"""`.coven/config.json`: the settings of a project that was made for Coven, in Logist's terms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from logist.config.sections import Above, ContextRules, Count, Review, RoleChoice
from logist.core.model import Frozen
from logist.documents import Document, checked
from logist.errors import InvalidFile

FILE = "config.json"

UNUSED = frozenset(
    {
        "agentTimeoutMs",
        "beadsSyncIntervalMs",
        "logging",
        "maxConcurrentAgents",
        "mergeConflictMaxRetries",
        "notifications",
        "outputRetentionDays",
        "preMergeChecks",
        "worktreeBasePath",
    }
)
"""Keys of Coven's own daemon. Logist takes nothing from them, and refuses no file for them."""


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


def translated(document: Document, settings: Collection[str]) -> Document:
    """The same in the terms of config.yaml, whose keys are `settings`.

    Raises InvalidFile in the terms of the file itself.
    """
    known = {key: value for key, value in document.data.items() if key not in UNUSED}
    for key in known:
        if key in settings and key not in CovenConfig.model_fields:
            raise _misplaced(document, key)
    checked(CovenConfig, replace(document, data=known))
    section = known.pop("orchestration", {})
    prefix = "orchestration."
    lines = {field.removeprefix(prefix): line for field, line in document.lines.items()}
    return replace(document, data=known | section, lines=document.lines | lines)


def unused(document: Document) -> list[str]:
    """The keys of a document, as it is read, that mean nothing here: each as `FILE:LINE: key`."""
    found = UNUSED & document.lines.keys()
    return [f"{document.path}:{document.lines[key]}: {key}" for key in sorted(found)]


def _misplaced(document: Document, key: str) -> InvalidFile:
    fix = f"it belongs in .logist/config.yaml; here stand {_listed(CovenConfig)}"
    if key in Orchestration.model_fields:
        fix = f"it belongs under `orchestration`: orchestration.{key}"
    return InvalidFile(f"unknown key `{key}`", where=f"{document.path}:{document.lines.get(key, 1)}", fix=fix)


def _listed(model: Any) -> str:
    return ", ".join(f"`{name}`" for name in model.model_fields)
