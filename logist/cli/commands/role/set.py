"""`logist role set`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logist import documents
from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option
from logist.cli.shell_values import complete_role
from logist.cli.show import render
from logist.cli.show.output import Output, StyledText
from logist.config.environment import Environment, require_utf8
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.config.trust import Trust

_MAX_VALUE_COLUMNS = 200


@click.command("set")
@click.argument("name", shell_complete=complete_role)
@click.argument("key")
@click.argument("value")
@click.option("--user", is_flag=True, help="Change your own roles, which apply to all projects.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without writing it.")
@json_option
@click.pass_obj
def set_(environment: Environment, name: str, key: str, value: str, user: bool, dry_run: bool) -> Output:
    """Set a field of a role, such as llm_model; comments are kept.

    A shipped role is not changed: a new file in .logist/roles overrides the field and inherits all others. VALUE is
    parsed as YAML or JSON; null removes the field. Values that you set here don't need `logist trust`.
    """
    from logist.cli.checkup.model_checks import warn_unknown_name
    from logist.cli.context import list_role_directories
    from logist.jobs.base.role_file import change_role_field

    parsed = documents.parse_value(require_utf8(value, "the value", "use UTF-8"))
    folder = find_role_folder(environment, user=user)
    before = None if user else read_trust_again(environment)
    change = change_role_field(list_role_directories(environment), folder, name, key, parsed, dry_run=dry_run)
    if before is not None and change.changes_file and not dry_run:
        # After the file: if the process is killed in between, the user has to confirm once more.
        # A new file inherits all other fields, so nothing else changes.
        path = (f"roles/{name}", *([] if change.is_new_file else [key.partition(".")[0]]))
        read_trust_again(environment).allow_change(before.claims, path, str(change.file))
    data = {
        "name": name,
        "file": str(change.file),
        "key": key,
        "old": change.before,
        "new": change.after,
        "changed": change.changes_file,
        "dry_run": dry_run,
    }
    warnings = warn_unknown_name(environment, key, parsed, f"role `{name}`")
    if not change.changes_file:
        line = f"{name}: {key} is already {_format(change.after)}: nothing to change"
        return Output(data, [line], warnings)
    place = f"dry run, file not written: {change.file}" if dry_run else f"file: {change.file}"
    head = (StyledText(f"{name}: {key}: ", "bold"), f"{_format(change.before)} -> {_format(change.after)}")
    return Output(data, [head, (StyledText(place, "dim"),)], warnings)


def _format(value: Any) -> str:
    """Format a value in one short line: instructions may have pages. `--json` has all of it."""
    if value is None:
        return "not set"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return render.shorten_for_terminal(" ".join(text.split()), _MAX_VALUE_COLUMNS)


def find_role_folder(environment: Environment, *, user: bool) -> Path:
    """Return the directory of the role files to change. Raises UsageError outside of a project."""
    if user:
        return environment.user_config_dir() / "roles"
    home = environment.find_home(Path(get_current_directory()))
    if home.source == "user":
        fix = "run 'logist init' to create one, or use --user to change your own roles"
        raise UsageError("no project here", fix=fix)
    return home.path / "roles"


def read_trust_again(environment: Environment) -> Trust:
    """Return the trust of the project, with its files as they are now."""
    from logist.cli import context

    return context.read_project_trust(
        environment, context.load_current_settings(environment), context.load_known_roles(environment)
    )
