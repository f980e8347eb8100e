"""From what a file says of a role, over its base, to the role; every error with its line and field."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from logist.core.model import Permission, Role
from logist.documents import Document, checked, nearest
from logist.errors import InvalidFile
from logist.roles.files import Entry
from logist.roles.loaded import FALLBACK, INTERNAL, LoadedRole, Origin, Problem
from logist.roles.templates import template_problems

MANDATORY = ("name", "description", "instructions", "llm_model")
KEYS = (*Role.model_fields, "base")
"""Of a role file."""
MAX_BADGE = 2
"""Characters of a badge: an emoji, or two letters."""

_DELEGATES = "can_delegate_to_roles"
_FOR_ALL = "custom_instructions"
"""May stand in a role's `context_requirements`, and changes nothing: every role is told these."""
_LITERAL = re.compile(r":\s*\|[-+0-9]*\s*(#.*)?$")


@dataclass(frozen=True)
class Fallback:
    """The model of a role that has a template and names no model."""

    model: str
    origin: Origin


def role_of(
    entry: Entry, base: LoadedRole | None, fallback: Fallback | None
) -> tuple[LoadedRole, list[Problem]]:
    """The role of an entry over its base, and what its author should know. InvalidFile if it is none."""
    known, lines = _own(entry)
    inherited = base.role.model_dump(mode="json", exclude_defaults=True, exclude={"name"}) if base else {}
    data = {**inherited, **known}
    origins = {name: _origin(name, entry, known, base) for name in Role.model_fields}
    if _has_template(data):
        data.setdefault("instructions", "")
        if "llm_model" not in data and fallback:
            data["llm_model"] = fallback.model
            origins["llm_model"] = fallback.origin
    _require(entry, data)
    role = _checked(entry, data, lines)
    told = [*_template(entry, role, origins), *_unknown_keys(entry)]
    if errors := [problem for problem in told if problem.severity == "error"]:
        raise InvalidFile(errors[0].message, where=errors[0].where, fix=errors[0].fix)
    if role.name == INTERNAL and role.applicable_task_types:
        message = f"the role `{INTERNAL}` is never chosen by the type of a task"
        told.append(Problem("warning", message, f"{entry.path}:{entry.line('applicable_task_types')}"))
    name = base.role.name if base else None
    return LoadedRole(role, entry.path, name, origins, entry.strength), told


def _own(entry: Entry) -> tuple[dict[str, Any], dict[str, int]]:
    """The fields that the entry has itself, in the one form that the model takes, and their lines."""
    if not isinstance(entry.data, dict):
        raise entry.invalid("must be a mapping of its attributes")
    known = {key: value for key, value in entry.data.items() if key in Role.model_fields}
    wanted = known.get("context_requirements")
    if isinstance(wanted, list):
        known["context_requirements"] = [part for part in wanted if part != _FOR_ALL]
    if "permissions" in known:
        return _with_permissions(entry, known)
    return known, entry.lines


def _require(entry: Entry, data: dict[str, Any]) -> None:
    """Raises for one of the four that is missing or empty. With a template the instructions may be."""
    for attribute in MANDATORY:
        if attribute == "instructions" and _has_template(data):
            data[attribute] = data[attribute] or ""
        elif attribute not in data:
            meant = nearest(attribute, [key for key in entry.data if key not in KEYS])
            fix = f"is `{_one(meant)}` meant to be it?" if meant and meant.startswith("did") else None
            raise entry.invalid(f"`{attribute}` is missing", fix=fix)
        elif data[attribute] is None or (isinstance(data[attribute], str) and not data[attribute].strip()):
            raise entry.invalid(f"`{attribute}` is empty", attribute)


def _has_template(data: dict[str, Any]) -> bool:
    template = data.get("prompt_template")
    return bool(template.strip()) if isinstance(template, str) else template is not None


def _one(advice: str) -> str:
    return advice.split("`")[1]


def _checked(entry: Entry, data: dict[str, Any], lines: dict[str, int]) -> Role:
    try:
        role = checked(Role, Document(str(entry.path), data, lines))
    except InvalidFile as error:
        raise InvalidFile(entry.labelled(error.message), where=error.where, fix=error.fix) from error
    if not role.name.isprintable() or role.name != role.name.strip():
        raise entry.invalid("`name` must be one line of printable text, without spaces around it", "name")
    if not _is_badge(role.badge):
        raise entry.invalid(f"`badge` must be an emoji, or at most {MAX_BADGE} letters", "badge")
    if entry.key is not None and role.name != entry.key:
        raise entry.invalid(f"is named `{role.name}` inside; make the two equal", "name")
    for number, task_type in enumerate(role.applicable_task_types):
        if not task_type.strip():
            field = f"applicable_task_types[{number}]"
            raise entry.invalid(f"`{field}` is empty", field)
    return role


def _origin(name: str, entry: Entry, known: dict[str, Any], base: LoadedRole | None) -> Origin:
    if name in known:
        return Origin("file", str(entry.path), entry.line(_written_as(name, entry)))
    under = base.origins.get(name) if base else None
    if base is None or under is None or under.kind == "default":
        return Origin("default")
    return Origin("base", under.path, under.line, base.role.name) if under.kind == "file" else under


def _written_as(name: str, entry: Entry) -> str:
    inside = f"permissions.{name}"
    return inside if name == _DELEGATES and inside in entry.lines else name


def _with_permissions(entry: Entry, known: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """The attributes with `permissions` as a mapping of booleans, and who may be given work beside it."""
    given, lines = known["permissions"], entry.lines
    if isinstance(given, list):
        return {**known, "permissions": _listed(entry, given)}, lines
    if not isinstance(given, dict):
        raise entry.invalid(
            "`permissions` must be a mapping of true and false, or a list of names", "permissions"
        )
    if _DELEGATES not in given:
        return known, lines
    inside = f"permissions.{_DELEGATES}"
    if _DELEGATES in known:
        raise entry.invalid(f"`{_DELEGATES}` stands twice: beside `permissions`, and in it", inside)
    rest = {name: value for name, value in given.items() if name != _DELEGATES}
    moved = {path.replace(inside, _DELEGATES, 1): line for path, line in lines.items()}
    return {**known, "permissions": rest, _DELEGATES: given[_DELEGATES]}, moved


def _listed(entry: Entry, names: list[Any]) -> dict[str, bool]:
    """The mapping that a list of names stands for; `can_read_files` is as good as `read_files`."""
    allowed: dict[str, bool] = {}
    for number, name in enumerate(names):
        plain = name.removeprefix("can_") if isinstance(name, str) else None
        if plain not in set(Permission):
            field = f"permissions[{number}]"
            raise entry.invalid(f"`{field}` must be one of {', '.join(Permission)}, not {name!r}", field)
        allowed[f"can_{plain}"] = True
    return allowed


def _is_badge(badge: str) -> bool:
    """Whether a badge is short, printable, and takes the same room on every terminal."""
    marks = any(unicodedata.category(character) in ("Mn", "Me") for character in badge)
    return len(badge) <= MAX_BADGE and badge.isprintable() and badge == badge.strip() and not marks


def _template(entry: Entry, role: Role, origins: dict[str, Origin]) -> Iterator[Problem]:
    """What is wrong with the role's own template, each at its line of the file as far as that can be told."""
    if role.prompt_template is None or origins["prompt_template"].kind != "file":
        return
    first = _first_line(entry)
    for found in template_problems(role.prompt_template):
        inside = found.line or 1
        line = first + inside - 1 if first else entry.line("prompt_template")
        where = "" if first else f" (its line {inside})"
        message = entry.labelled(f"`prompt_template`{where}: {found.message}")
        yield Problem(found.severity, message, f"{entry.path}:{line}", found.fix or None)


def _first_line(entry: Entry) -> int | None:
    """The line of the file on which the template begins; None where its lines are not those of the file."""
    line = entry.line("prompt_template")
    try:
        written = entry.path.read_text("utf-8").splitlines()[line - 1]
    except (OSError, ValueError, IndexError):
        return None
    if _LITERAL.search(written):
        return line + 1
    return None if re.match(r"""\s*[{,-]?\s*["']?prompt_template\b""", written) else line


def _unknown_keys(entry: Entry) -> Iterator[Problem]:
    for key in entry.data:
        if key not in KEYS:
            advice = nearest(key, KEYS)
            yield Problem(
                "warning",
                entry.labelled(f"`{key}` is not known to this version and has no effect"),
                f"{entry.path}:{entry.lines.get(key, 1)}",
                advice if advice and advice.startswith("did") else None,
            )


def fallback_of(entries: list[Entry]) -> Fallback | None:
    """The model that the role FALLBACK names itself, in the strongest of its files that does."""
    for entry in sorted(entries, key=lambda each: -each.strength):
        model = entry.data.get("llm_model") if isinstance(entry.data, dict) else None
        if entry.name == FALLBACK and isinstance(model, str) and model.strip():
            origin = Origin("fallback", str(entry.path), entry.line("llm_model"), FALLBACK)
            return Fallback(model, origin)
    return None
