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
"""Maximum bytes of a name, which is also a file name."""


@click.command("new")
@click.argument("name")
@click.option(
    "--base", metavar="ROLE", shell_complete=complete_role, help="Inherit all other fields from this role."
)
@click.option("--description", metavar="TEXT", help="Description of the role.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json", "md"]),
    default="yaml",
    help="File format  [default: yaml]",
)
@click.option(
    "--to",
    metavar="DIR",
    help="Directory for the file  [default: .logist/roles]",
    shell_complete=complete_directory,
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
    """Create a role file.

    The new file has all fields with example values, and is valid without changes. A role with the name of an
    existing role overrides it; with `--base` of that name, it overrides only the fields that it sets. Existing
    files are never overwritten.
    """
    from logist.cli.context import list_role_directories, load_known_roles
    from logist.jobs.base.editor_schemas import format_header
    from logist.roles import FALLBACK
    from logist.roles.drafting import SUFFIX, draft_role_text

    require_name(require_utf8(name, "the name", "use UTF-8 characters"))
    if description is not None and not description.strip():
        raise UsageError("the description is empty", where="--description")
    home = environment.find_home(Path(get_current_directory())).path
    folder = home / "roles"
    if to is not None:
        folder = Path(require_utf8(to, "the directory", "use UTF-8 characters"))
    roles = load_known_roles(environment)
    base_role = roles.get(base) if base is not None else None
    require_unused_name(roles, folder, name)
    if base is not None:
        require_no_cycle(roles, name, base)
    model = roles.by_name[FALLBACK].role.llm_model if FALLBACK in roles.by_name else "PROVIDER/MODEL"
    given_description = require_utf8(description, "the description", "use UTF-8") if description else None
    file = folder / f"{name}{SUFFIX[form]}"
    header = format_header("role", home, folder) if form == "yaml" else ""
    _write_new_file(file, header + draft_role_text(name, given_description, base_role, model, form))
    replaced = _find_replaced(roles, name, folder, list_role_directories(environment))
    note_texts = [f"overrides {replaced.path}"] if replaced else []
    data = {
        "name": name,
        "base": base,
        "file": str(file),
        "replaces": str(replaced.path) if replaced else None,
    }
    return Output(data, [f"written: {file}"], make_notes(note_texts))


def require_name(name: str) -> None:
    """Raise UsageError for an invalid role name or file name."""
    is_invalid = not name.isprintable() or name != name.strip() or "/" in name or name.startswith(".")
    if not name or is_invalid or len(name.encode()) > LONGEST:
        fix = "use printable text without `/` and without a dot at the start"
        raise UsageError(f"invalid role name {name!r}", where="NAME", fix=fix)


def require_unused_name(roles: Roles, folder: Path, name: str) -> None:
    """Raise Refused if the directory already has a role or a file of that name."""
    from logist.roles.files import list_role_files

    sound = [(one.role.name, one.path) for one in (*roles.by_name.values(), *roles.hidden)]
    broken = [(role, Path(str(error.where).partition(":")[0])) for role, error in roles.broken.items()]
    here = folder.resolve()
    known = {role.casefold(): path for role, path in [*sound, *broken] if path.parent.resolve() == here}
    files = {path.stem.casefold(): path for path in list_role_files(folder)}
    if taken := (files | known).get(name.casefold()):
        raise Refused(f"role `{name}` already exists", where=str(taken), fix="edit it, or use another name")


def require_no_cycle(roles: Roles, name: str, base: str) -> None:
    """Raise Refused if the base inherits from a role of that name, because the new role would override that role."""
    chain = [base]
    while (above := roles.by_name[chain[-1]].base) is not None and above not in chain:
        chain.append(above)
        if above == name:
            message = f"cycle of base roles: {' -> '.join(f'`{each}`' for each in [name, *chain])}"
            raise Refused(message, where="--base", fix="choose another base or another name")
        if above not in roles.by_name:
            return


def _find_replaced(roles: Roles, name: str, folder: Path, known: Sequence[Path]) -> LoadedRole | None:
    """Return the role that a new one in this folder overrides. `known` are the directories of roles; later ones
    override earlier ones.
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
            raise Refused("file already exists", where=str(file), fix="use another name") from error
