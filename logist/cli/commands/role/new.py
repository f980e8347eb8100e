"""`logist role new`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option
from logist.cli.shell_values import complete_directory, complete_role
from logist.cli.show.output import Output, make_notes
from logist.config.environment import Environment, require_utf8
from logist.errors import Refused, UsageError

if TYPE_CHECKING:
    from logist.roles import LoadedRole, Roles

LONGEST = 100
"""Bytes of a name, which is the name of a file too."""


@click.command("new")
@click.argument("name")
@click.option(
    "--base", metavar="ROLE", shell_complete=complete_role, help="What it does not say is as in this one."
)
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json", "md"]),
    default="yaml",
    help="How the file is written  [default: yaml]",
)
@click.option(
    "--to", metavar="DIR", help="Where to put it  [default: .logist/roles]", shell_complete=complete_directory
)
@json_option
@click.pass_obj
def new(
    environment: Environment,
    name: str,
    base: str | None,
    description: str | None,
    form: Literal["yaml", "json", "md"],
    to: str | None,
) -> Output:
    """Start a role file of your own, with every field explained by its value; it loads as it is.

    A role with the name of another takes its place; with `--base` of that name, it changes only what it says.
    Nothing is ever overwritten.
    """
    from logist.cli.context import list_role_directories, load_known_roles
    from logist.roles import FALLBACK
    from logist.roles.drafting import SUFFIX, draft_role_text

    require_name(require_utf8(name, "the name", "name another"))
    if description is not None and not description.strip():
        raise UsageError("the description is empty", where="--description")
    folder = environment.find_home(Path(get_current_directory())).path / "roles"
    if to is not None:
        folder = Path(require_utf8(to, "the directory", "name another"))
    roles = load_known_roles(environment)
    base_role = roles.get(base) if base is not None else None
    require_unused_name(roles, folder, name)
    if base is not None:
        require_no_cycle(roles, name, base)
    model = roles.by_name[FALLBACK].role.llm_model if FALLBACK in roles.by_name else "PROVIDER/MODEL"
    given_description = require_utf8(description, "the description", "write it anew") if description else None
    file = folder / f"{name}{SUFFIX[form]}"
    _write_new_file(file, draft_role_text(name, given_description, base_role, model, form))
    replaced = _find_replaced(roles, name, folder, list_role_directories(environment))
    note_texts = [f"it takes the place of {replaced.path}"] if replaced else []
    data = {
        "name": name,
        "base": base,
        "file": str(file),
        "replaces": str(replaced.path) if replaced else None,
    }
    return Output(data, [f"written: {file}"], make_notes(note_texts))


def require_name(name: str) -> None:
    """Raise UsageError for a name that a role, or its file, can't have."""
    is_invalid = not name.isprintable() or name != name.strip() or "/" in name or name.startswith(".")
    if not name or is_invalid or len(name.encode()) > LONGEST:
        fix = "printable text without `/`, and without a point before it"
        raise UsageError(f"{name!r} can't be the name of a role", where="NAME", fix=fix)


def require_unused_name(roles: Roles, folder: Path, name: str) -> None:
    """Raise Refused if the directory has such a role, whatever the name of its file, or such a file."""
    from logist.roles.files import list_role_files

    sound = [(one.role.name, one.path) for one in (*roles.by_name.values(), *roles.hidden)]
    broken = [(role, Path(str(error.where).partition(":")[0])) for role, error in roles.broken.items()]
    here = folder.resolve()
    known = {role.casefold(): path for role, path in [*sound, *broken] if path.parent.resolve() == here}
    files = {path.stem.casefold(): path for path in list_role_files(folder)}
    if taken := (files | known).get(name.casefold()):
        raise Refused(f"there is a role `{name}` already", where=str(taken), fix="edit it, or name another")


def require_no_cycle(roles: Roles, name: str, base: str) -> None:
    """Raise Refused if the base inherits from a role of that name: the new
    one would be that role's replacement.
    """
    chain = [base]
    while (above := roles.by_name[chain[-1]].base) is not None and above not in chain:
        chain.append(above)
        if above == name:
            message = f"the bases would form a cycle: {' -> '.join(f'`{each}`' for each in [name, *chain])}"
            raise Refused(message, where="--base", fix="choose another base, or name the role otherwise")
        if above not in roles.by_name:
            return


def _find_replaced(roles: Roles, name: str, folder: Path, known: Sequence[Path]) -> LoadedRole | None:
    """Return the role that one of that name in the folder overrides; `known`: the directories of roles, the
    strongest last.
    """
    there = folder.resolve()
    strength = max((place for place, each in enumerate(known) if each.resolve() == there), default=-1)
    role_of_name = roles.by_name.get(name)
    return role_of_name if role_of_name and role_of_name.strength < strength else None


def _write_new_file(file: Path, text: str) -> None:
    from logist.jobs.base import project_home
    from logist.store.files import convert_os_errors

    project_home.ensure_folder(file.parent)
    with convert_os_errors(file):
        try:
            with open(file, "x", encoding="utf-8", newline="") as new_file:
                new_file.write(text)
        except FileExistsError as error:
            raise Refused("there is such a file", where=str(file), fix="name another") from error
