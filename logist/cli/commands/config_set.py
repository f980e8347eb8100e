"""`logist config set|unset`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logist import documents
from logist.cli.current_job import get_current_directory
from logist.cli.options import json_option
from logist.cli.shell_values import complete_setting
from logist.cli.show.output import Diagnostic, Line, Output, StyledText, make_warnings
from logist.config.environment import Environment, require_utf8
from logist.errors import LogistError, UsageError

if TYPE_CHECKING:
    from logist.jobs.base.config_file import ConfigChange, ConfigFile, Setting

F = TypeVar("F", bound=Callable[..., Any])


def _add_options(command: F) -> F:
    user = click.option(
        "--user", is_flag=True, help="Change your user config, which applies to all projects."
    )
    dry = click.option("--dry-run", is_flag=True, help="Show what would change, without writing it.")
    return user(dry(json_option(command)))


@click.command("set")
@click.argument("key", shell_complete=complete_setting)
@click.argument("value")
@_add_options
@click.pass_obj
def set_(environment: Environment, key: str, value: str, user: bool, dry_run: bool) -> Output:
    """Set a config key; comments are kept.

    KEY uses dots, as in limits.cost_threshold. VALUE is parsed as YAML or JSON: a number, true, false, [a, b], {a: b}
    or "quoted"; anything else is text. Logist doesn't write an invalid config. Values that you set here don't need
    `logist trust`; other changes in the file still do.
    """
    parsed = documents.parse_value(require_utf8(value, "the value", "use UTF-8"))
    if parsed is None:
        raise UsageError("can't set a key to null", where=key, fix=f"to remove it: logist config unset {key}")
    return _change_setting(environment, key, parsed, user=user, dry_run=dry_run)


@click.command("unset")
@click.argument("key", shell_complete=complete_setting)
@_add_options
@click.pass_obj
def unset(environment: Environment, key: str, user: bool, dry_run: bool) -> Output:
    """Remove a config key.

    The value from your user config, or the default, applies again.
    """
    return _change_setting(environment, key, None, user=user, dry_run=dry_run)


def _change_setting(environment: Environment, key: str, value: Any, *, user: bool, dry_run: bool) -> Output:
    from logist.cli.checkup.model_checks import warn_unknown_name
    from logist.jobs.base.config_file import change_key

    file = find_config_file(environment, user=user)
    change = change_key(file, key, value, dry_run=dry_run)
    data = {
        "file": str(change.file),
        "key": key,
        "old": change.before.value,
        "new": change.after.value,
        "changed": change.changes_file,
        "dry_run": dry_run,
    }
    notes = make_warnings(
        [_find_override(environment, key)] if user and _find_override(environment, key) else [], "overridden"
    )
    notes += _warn_still_set(change, value) + warn_unknown_name(environment, key, value)
    return Output(data, tuple(_format_change(change, value, dry_run=dry_run)), notes)


def find_config_file(environment: Environment, *, user: bool) -> ConfigFile:
    """Return the config.yaml of the user, or of the project around the current directory. Raises UsageError without one."""
    from logist.jobs.base.config_file import ConfigFile

    own = environment.user_config_dir()
    if user:
        return ConfigFile(own, own, needs_trust=False)
    home = environment.find_home(Path(get_current_directory()))
    if home.source == "user":
        fix = "run 'logist init' to create one, or use --user to change your user config"
        raise UsageError("no project here", fix=fix)
    return ConfigFile(home.path, own, needs_trust=home.source == "project")


def _format_change(change: ConfigChange, value: Any, *, dry_run: bool) -> list[Line]:
    if not change.changes_file:
        text = (
            f"is not set in {change.file}" if value is None else f"is already {_format_value(change.before)}"
        )
        return [f"{change.key} {text}: nothing to change"]
    place = f"dry run, file not written: {change.file}" if dry_run else f"file: {change.file}"
    old, new = _format_with_source(change, change.before), _format_with_source(change, change.after)
    return [(StyledText(f"{change.key}: ", "bold"), f"{old} -> {new}"), (StyledText(place, "dim"),)]


def _format_with_source(change: ConfigChange, setting: Setting) -> str:
    """Format a value, with its source if that is another file."""
    if setting.value is None:
        return "not set"
    if setting.short == {}:
        return "default"
    elsewhere = setting.source and setting.source != str(change.file)
    return f"{_format_value(setting)} ({setting.source})" if elsewhere else _format_value(setting)


def _format_value(setting: Setting) -> str:
    value = setting.value if setting.short is None else setting.short
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _warn_still_set(change: ConfigChange, value: Any) -> tuple[Diagnostic, ...]:
    """Return a warning if another file still sets a removed key."""
    source = change.after.source
    if value is not None or source in ("", "default", str(change.file)):
        return ()
    return make_warnings([f"{source} still sets `{change.key}`"], "still_set")


def _find_override(environment: Environment, key: str) -> str:
    """Return a warning if the project sets the same key, which overrides the user config."""
    from logist.cli.context import load_current_settings

    try:
        loaded = load_current_settings(environment)
    except LogistError:
        return ""
    source = loaded.sources.get(key, "")
    return f"no effect in this project: {source} overrides `{key}`" if source in loaded.project_files else ""
