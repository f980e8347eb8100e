"""Changes one field of a role file: comments are kept, and nothing invalid is written."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logist import documents
from logist.core.model import Role
from logist.errors import InvalidFile, Refused, UsageError
from logist.jobs.base import project_home
from logist.quick_dataclass import dataclass
from logist.roles import Roles, load_roles
from logist.roles.files import list_role_files, read_role_entries
from logist.roles.markdown import MARKDOWN
from logist.store import replace_file

_NEW_MODE = 0o644


@dataclass(frozen=True)
class RoleChange:
    """What a command has changed in a role, or would change."""

    file: Path
    key: str
    before: Any
    after: Any
    """The value of the field that applies then; it may be inherited."""
    changes_file: bool
    is_new_file: bool


def change_role_field(
    directories: Sequence[Path], folder: Path, name: str, key: str, value: Any, *, dry_run: bool = False
) -> RoleChange:
    """Set a field of a role in `folder`, or remove it if the value is None.

    A role of another directory is not changed: a new file in `folder` overrides this field and inherits the others.
    `directories`: all directories of roles; a later one overrides an earlier one. Raises UsageError for an unknown
    role or field or an invalid value, InvalidFile for a file that is already invalid, Refused for a file that must be
    edited by hand.
    """
    roles = load_roles(directories)
    before = roles.get(name)
    if key.partition(".")[0] not in {*Role.model_fields, "base"} or key == "name":
        raise UsageError(f"unknown field `{key}` of a role", fix=documents.suggest_key(Role, key))
    file = _find_file(roles, folder, name)
    text = file.read_bytes().decode("utf-8") if file else documents.dump_yaml({"name": name, "base": name})
    target = file or folder / f"{name}.yaml"
    edited = documents.edit_text(text, str(target), {tuple(key.split(".")): value})
    changes_file = edited != text if file else value is not None
    after = _check_change(directories, target, edited, name) if changes_file else before
    if changes_file and not dry_run:
        project_home.ensure_folder(folder)
        replace_file(
            target, edited.encode("utf-8"), stat.S_IMODE(target.stat().st_mode) if file else _NEW_MODE
        )
    return RoleChange(
        target,
        key,
        _read_field(before, key),
        _read_field(after, key),
        changes_file,
        file is None and changes_file,
    )


def _find_file(roles: Roles, folder: Path, name: str) -> Path | None:
    """Return the file in `folder` that defines only this role; None if there is none."""
    found = next(
        (
            each
            for each in (*roles.by_name.values(), *roles.hidden)
            if each.role.name == name and each.path.parent == folder
        ),
        None,
    )
    if found is None:
        return None
    entries = read_role_entries(found.path)
    if len(entries) != 1 or entries[0].key is not None:
        raise Refused("the file has several roles", where=str(found.path), fix="edit it by hand")
    if found.path.suffix.lower() in MARKDOWN:
        raise Refused(
            "a role in Markdown can't be changed by this command",
            where=str(found.path),
            fix="edit it by hand",
        )
    return found.path


def _check_change(directories: Sequence[Path], target: Path, text: str, name: str) -> Role:
    """Return the role as it would be. Raises UsageError if it would not be valid."""
    with tempfile.TemporaryDirectory(prefix="logist-") as temporary:
        copy = Path(temporary)
        for path in list_role_files(target.parent):
            shutil.copyfile(path, copy / path.name)
        (copy / target.name).write_bytes(text.encode("utf-8"))
        roles = load_roles([copy if each == target.parent else each for each in directories])
        try:
            return roles.get(name)
        except InvalidFile as error:
            raise UsageError(error.message, where=str(target), fix=error.fix) from error


def _read_field(role: Role, key: str) -> Any:
    value: Any = role.model_dump(mode="json")
    for word in key.split("."):
        value = value.get(word) if isinstance(value, dict) else None
    return value
