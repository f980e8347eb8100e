"""Role files: who does the work, as the shipped, the user's and the project's directories say."""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from logist.core.model import Permission, Role
from logist.documents import MAX_BYTES, Document, checked, nearest, read
from logist.errors import InvalidFile, UsageError

SUFFIXES = (".yaml", ".yml", ".json")

MAX_BADGE = 2
"""Characters of a badge: an emoji, or two letters."""

_MANDATORY = ("name", "description", "instructions", "llm_model")
_ROLE_KEYS = frozenset(
    {*_MANDATORY, "temperature", "max_output_tokens", "permissions", "base", "prompt_template"}
)
"""What shows that a file holds one role, and not several by their names."""
_DELEGATES = "can_delegate_to_roles"
_NAME_LINE = re.compile(r"(?:^|[{,])\s*[\"']?name[\"']?\s*:\s*[\"']?([^\"'#,}\n]+)", re.MULTILINE)


@dataclass(frozen=True)
class Problem:
    """Something about a role file that its author should know."""

    severity: Literal["error", "warning"]
    message: str
    where: str
    fix: str | None = None


@dataclass(frozen=True)
class LoadedRole:
    """A role, and the file it was read from."""

    role: Role
    path: Path


@dataclass(frozen=True)
class Roles:
    """Every role that may be named. One that is broken hides those it would have replaced."""

    by_name: dict[str, LoadedRole]
    problems: list[Problem]
    broken: dict[str, InvalidFile]
    """Why a role can't be used, by its name or, where that can't be read, its file's."""

    def get(self, name: str) -> Role:
        """The role of exactly that name. UsageError: there is none. InvalidFile: its file is broken."""
        if name in self.broken:
            raise self.broken[name]
        if name not in self.by_name:
            advice = nearest(name, self.by_name)
            meant = f"{advice} " if advice and advice.startswith("did") else ""
            names = ", ".join(sorted(self.by_name)) or "none"
            raise UsageError(f"unknown role `{name}`", fix=f"{meant}valid roles: {names}")
        return self.by_name[name].role


def load_roles(directories: Sequence[Path]) -> Roles:
    """The roles of all directories; of two with one name, the one in the later directory holds.

    A directory that is not there is empty. A broken file becomes a problem and stops no other.
    """
    roles = Roles({}, [], {})
    for directory in directories:
        found = _Directory(directory)
        for name in {*found.broken, *found.loaded}:
            roles.by_name.pop(name, None)
            roles.broken.pop(name, None)
        roles.problems.extend([*found.problems, *_other_spellings(found.loaded, roles.by_name)])
        roles.by_name.update({name: role for name, role in found.loaded.items() if name not in found.broken})
        roles.broken.update(found.broken)
    roles.problems.extend(_unknown_delegates(roles))
    return roles


def role_hash(role: Role) -> str:
    """sha256 (hex) of the role as canonical JSON; attributes left at their default do not count."""
    data = role.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True)
class _Entry:
    """One role as a file has it, before it is checked."""

    name: str
    path: Path
    data: Any
    lines: dict[str, int]
    key: str | None = None
    """Of a file that holds several: the key of this one."""

    def invalid(self, message: str, attribute: str = "") -> InvalidFile:
        line = self.lines.get(attribute) or self.lines.get("", 1)
        return InvalidFile(self.labelled(message), where=f"{self.path}:{line}")

    def labelled(self, message: str) -> str:
        return f"role `{self.key}`: {message}" if self.key else message


class _Directory:
    """What the files of one directory hold; a name may be there only once, in whatever case."""

    def __init__(self, directory: Path) -> None:
        self.loaded: dict[str, LoadedRole] = {}
        self.broken: dict[str, InvalidFile] = {}
        self.problems: list[Problem] = []
        self._seen: dict[str, _Entry] = {}
        for path in _files(directory):
            self._add_file(path)

    def _add_file(self, path: Path) -> None:
        try:
            entries = list(_entries(_read_regular(path), path))
        except InvalidFile as error:
            self._break(_claimed_names(path), error)
            return
        for entry in entries:
            self._add(entry)

    def _add(self, entry: _Entry) -> None:
        twin = self._seen.setdefault(entry.name.casefold(), entry)
        try:
            if twin is not entry:
                raise _twice(entry, twin)
            self.loaded[entry.name] = LoadedRole(_role(entry), entry.path)
            self.problems.extend(_unknown_keys(entry))
        except InvalidFile as error:
            self._break([entry.name, twin.name], error)

    def _break(self, names: Sequence[str], error: InvalidFile) -> None:
        for name in names:
            self.loaded.pop(name, None)
            self.broken.setdefault(name, error)
        self.problems.append(Problem("error", error.message, str(error.where), error.fix))


def _files(directory: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InvalidFile(f"cannot be read: {error.strerror}", where=str(directory)) from error
    paths = [directory / name for name in names if not name.startswith(".")]
    return [path for path in paths if path.suffix.lower() in SUFFIXES and not os.path.isdir(path)]


def _read_regular(path: Path) -> Document:
    if os.path.exists(path) and not os.path.isfile(path):  # reading a pipe would wait for ever
        raise InvalidFile("is not a regular file", where=str(path))
    return read(path)


def _claimed_names(path: Path) -> list[str]:
    """What a file that can't be read seems to define: the names in its text, else the file's own."""
    if not os.path.isfile(path):
        return [path.stem]
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            names = [found.strip() for found in _NAME_LINE.findall(file.read(MAX_BYTES))]
    except OSError:
        names = []
    return names or [path.stem]


def _entries(document: Document, path: Path) -> Iterator[_Entry]:
    """The roles of a file: one, or many by key, these also under the key `roles`."""
    data, under = document.data, ""
    alone = bool(data.keys() & _ROLE_KEYS)
    if not alone and isinstance(data.get("roles"), dict):
        data, under = data["roles"], "roles"
    elif alone or not any(isinstance(role, dict) for role in data.values()):
        name = data.get("name")
        yield _Entry(name if isinstance(name, str) else path.stem, path, data, document.lines)
        return
    for key, role in data.items():
        lines = _lines_below(document.lines, f"{under}.{key}" if under else key)
        if isinstance(role, dict):
            role = {"name": key, **role}
        yield _Entry(key, path, role, lines, key)


def _lines_below(lines: dict[str, int], field: str) -> dict[str, int]:
    below = {
        path.removeprefix(f"{field}."): line for path, line in lines.items() if path.startswith(f"{field}.")
    }
    return {**below, "": lines[field]}


def _role(entry: _Entry) -> Role:
    if not isinstance(entry.data, dict):
        raise entry.invalid("must be a mapping of its attributes")
    for attribute in _MANDATORY:
        value = entry.data.get(attribute, attribute)
        if value is None or (isinstance(value, str) and not value.strip()):
            raise entry.invalid(f"`{attribute}` is empty", attribute)
    known = {key: value for key, value in entry.data.items() if key in Role.model_fields}
    lines = entry.lines
    if "permissions" in known:
        known, lines = _with_permissions(entry, known)
    try:
        role = checked(Role, Document(str(entry.path), known, lines))
    except InvalidFile as error:
        raise InvalidFile(entry.labelled(error.message), where=error.where, fix=error.fix) from error
    if not role.name.isprintable() or role.name != role.name.strip():
        raise entry.invalid("`name` must be one line of printable text, without spaces around it", "name")
    if not _is_badge(role.badge):
        raise entry.invalid(f"`badge` must be an emoji, or at most {MAX_BADGE} letters", "badge")
    if entry.key is not None and role.name != entry.key:
        raise entry.invalid(f"is named `{role.name}` inside; make the two equal", "name")
    return role


def _with_permissions(entry: _Entry, known: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
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


def _listed(entry: _Entry, names: list[Any]) -> dict[str, bool]:
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


def _unknown_delegates(roles: Roles) -> Iterator[Problem]:
    """Roles that may give work to one that is not there."""
    for name, found in sorted(roles.by_name.items()):
        for other in found.role.can_delegate_to_roles:
            if other not in roles.by_name and other not in roles.broken:
                advice = nearest(other, roles.by_name)
                message = f"role `{name}` may give work to `{other}`, which is no role"
                yield Problem("warning", message, str(found.path), advice)


def _twice(entry: _Entry, twin: _Entry) -> InvalidFile:
    spelled = f"`{twin.name}`" if entry.name == twin.name else f"`{twin.name}` and `{entry.name}`"
    return InvalidFile(
        f"two roles in one directory are named {spelled}: in {twin.path} and in {entry.path}",
        where=str(entry.path),
        fix="rename or remove one of them",
    )


def _unknown_keys(entry: _Entry) -> Iterator[Problem]:
    for key in entry.data:
        if key not in Role.model_fields:
            advice = nearest(key, Role.model_fields)
            yield Problem(
                "warning",
                entry.labelled(f"`{key}` is not known to this version and has no effect"),
                f"{entry.path}:{entry.lines.get(key, 1)}",
                advice if advice and advice.startswith("did") else None,
            )


def _other_spellings(found: dict[str, LoadedRole], earlier: dict[str, LoadedRole]) -> Iterator[Problem]:
    """A role of this name, in another case, is in an earlier directory: most likely meant to be replaced."""
    spelled = {name.casefold(): name for name in earlier if name not in found}
    for name, role in found.items():
        if other := spelled.get(name.casefold()):
            message = f"`{name}` does not replace `{other}`, which is written differently"
            yield Problem("warning", message, str(role.path), f"write it `{other}` to replace that one")
