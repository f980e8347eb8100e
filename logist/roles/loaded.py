"""Loaded roles: each with its file, the origin of each of its fields, and its problems."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from logist.core.model import Role
from logist.digests import compute_sha256
from logist.documents import suggest_names
from logist.errors import InvalidFile, UsageError
from logist.quick_dataclass import dataclass

FALLBACK = "Worker"
"""The role whose model applies to a role that has a template but no model."""
INTERNAL = "review"
"""The role that reviews the work of others; it is never chosen by task type."""


@dataclass(frozen=True)
class RoleProblem:
    """A problem in a role file, for its author."""

    severity: Literal["error", "warning"]
    message: str
    where: str
    fix: str | None = None


@dataclass(frozen=True)
class Origin:
    """Where the value of a field comes from."""

    kind: Literal["file", "base", "fallback", "default"]
    """The role's own file, its base, the model of the role FALLBACK, or no file."""
    path: str | None = None
    line: int | None = None
    role: str | None = None
    """For `base` and `fallback`: the role that the file defines."""

    @property
    def place(self) -> str:
        """For example `roles/fix.yaml:3`; empty for a default."""
        return f"{self.path}:{self.line}" if self.path else ""


@dataclass(frozen=True)
class LoadedRole:
    """A role and the file it was read from."""

    role: Role
    path: Path
    base: str | None = None
    """The role that it inherits from."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """The origin of each field, by its name."""
    strength: int = 0
    """The number of its directory: of two roles with the same name or task type, the one with the higher
    number applies."""

    @property
    def has_own_task_types(self) -> bool:
        """True if the role sets its task types itself instead of inheriting them from another role."""
        origin = self.origins.get("applicable_task_types")
        return self.base in (None, self.role.name) or (origin is not None and origin.kind == "file")


@dataclass(frozen=True)
class Roles:
    """All roles that can be named. A broken one hides those it would have replaced."""

    by_name: Mapping[str, LoadedRole]
    problems: list[RoleProblem]
    broken: dict[str, InvalidFile]
    """Why a role can't be used, by its name, or by the name of its file if the role's name can't be read."""
    hidden: list[LoadedRole] = field(default_factory=list)
    """Valid roles that a role of a stronger directory overrides."""
    are_shipped: bool = False
    """Whether all are shipped with Logist, unchanged; then each is only read when it is used."""

    def get(self, name: str) -> Role:
        """Return the role of exactly that name.

        Raises UsageError if there is none, InvalidFile if its file is broken.
        """
        if name in self.broken:
            raise self.broken[name]
        if name not in self.by_name:
            suggestion = suggest_names(name, self.by_name)
            hint = f"{suggestion} " if suggestion and suggestion.startswith("did") else ""
            names = ", ".join(sorted(self.by_name)) or "none"
            raise UsageError(f"unknown role `{name}`", fix=f"{hint}valid roles: {names}")
        return self.by_name[name].role

    def find_for_task_type(self, task_type: str) -> str | None:
        """Return the name of the role for a task type according to the role files; None if there is none.

        It may be a broken role if its file hides a role of that type: no other role takes over its tasks
        silently.
        """
        hidden_by_broken = (one for one in self.hidden if one.role.name in self.broken)
        claiming = find_claimants([*self.by_name.values(), *hidden_by_broken], task_type)
        return claiming[0].role.name if claiming else None


def find_claimants(roles: Iterable[LoadedRole], task_type: str) -> list[LoadedRole]:
    """Return the roles that name a task type, in order of precedence.

    A role whose own file names the type precedes one that inherits it from its base: a role derived from
    `fix`, meant to be named explicitly, does not take all bugs away from `fix`. Then the stronger directory
    decides, then the name. The case of the type does not matter; the role INTERNAL is never included.
    """
    type_name = task_type.casefold()
    claiming = [
        one
        for one in roles
        if one.role.name != INTERNAL
        and type_name in (known.casefold() for known in one.role.applicable_task_types)
    ]
    return sorted(claiming, key=_precedence_key)


def _precedence_key(loaded: LoadedRole) -> tuple[bool, int, str]:
    return not loaded.has_own_task_types, -loaded.strength, loaded.role.name


def role_hash(role: Role) -> str:
    """Return the sha256 (hex) of the role as canonical JSON, without fields that have their default value."""
    data = role.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return compute_sha256(text.encode("utf-8"))
