"""`logist config show`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import listing_options
from logist.cli.show.output import Diagnostic, Output, StyledText, TextTable, make_warnings
from logist.config.environment import Environment
from logist.config.merging import iter_leaves
from logist.config.plain_settings import load_plain_settings
from logist.errors import InvalidFile
from logist.roles.shipped_roles import list_shipped_roles

if TYPE_CHECKING:
    from logist.config.settings import LoadedSettings, Settings
    from logist.roles import Roles

AGENT = "LOGIST_AGENT"
TYPES = "roles.type_mapping"
Row = dict[str, Any]


@click.command("show")
@listing_options
@click.pass_obj
def show(environment: Environment) -> Output:
    """Show all settings and their sources.

    A source is `default`, a file, another setting, or the environment.
    """
    rows = _list_plain_rows(environment)
    if rows is not None:
        return _build_output(rows, ())
    from logist.cli.context import load_current_settings, load_known_roles

    loaded = load_current_settings(environment)
    try:
        roles = _list_role_types(load_known_roles(environment), loaded.settings.roles.type_mapping)
    except InvalidFile:  # show the settings even if a roles directory is unreadable
        roles = []
    values = dict(iter_leaves(loaded.settings.model_dump(mode="json")))
    derived = list(_list_derived(environment, loaded.settings))
    return _build_output(_list_rows(values, loaded.sources, derived, roles), _list_warnings(loaded))


def _list_plain_rows(environment: Environment) -> list[Row] | None:
    """Return the rows if neither the settings nor the roles need the models; see `config.plain_settings`."""
    home, _ = environment.home_name(get_current_directory())
    user = environment.user_config_dir_name()
    settings, roles = load_plain_settings(home, user), list_shipped_roles((user, home))
    if settings is None or roles is None:
        return None
    derived: list[Row] = [
        {"field": "approval", "value": "end", "source": "review.mode"},
        {"field": "review.auto_merge", "value": False, "source": "review.mode"},
    ]
    if agent := environment.agent_name():
        derived.append(_build_agent_row(agent))
    values = dict(iter_leaves(settings.data))
    sources = {field: settings.sources.get(field, "default") for field in values}
    return _list_rows(values, sources, derived, _list_shipped_types(roles))


def _list_shipped_types(roles: list[Row]) -> list[Row]:
    """Return the role for each task type; the shipped roles have different ones."""
    by_type = {word.casefold(): row for row in roles for word in row["applicable_task_types"]}
    return [
        {"field": f"{TYPES}.{word}", "value": row["name"], "source": row["file"]}
        for word, row in sorted(by_type.items())
    ]


def _list_rows(
    values: dict[str, Any], sources: dict[str, str], derived: list[Row], roles: list[Row]
) -> list[Row]:
    rows = [{"field": field, "value": value, "source": sources[field]} for field, value in values.items()]
    others = {row["field"]: row for row in derived}
    rows = [others.get(row["field"], row) for row in rows]
    return list(_insert_role_types(rows, roles)) if roles else rows


def _build_output(rows: list[Row], warnings: tuple[Diagnostic, ...]) -> Output:
    cells = [(row["field"], _format_value(row["value"]), StyledText(row["source"], "dim")) for row in rows]
    table = TextTable(("SETTING", "VALUE", "FROM"), cells)
    return Output(rows, diagnostics=warnings, table=table)


def _list_warnings(loaded: LoadedSettings) -> tuple[Diagnostic, ...]:
    from logist.cli.context import warn_unused_keys
    from logist.config.settings import UNCHECKED_MERGES, can_merge_unchecked

    unchecked = [UNCHECKED_MERGES] if can_merge_unchecked(loaded.settings) else []
    return make_warnings(unchecked, "unchecked_merge") + warn_unused_keys(loaded)


def _list_derived(environment: Environment, settings: Settings) -> Iterator[Row]:
    """Yield settings whose value comes from another setting or from the environment."""
    from logist.config.settings import can_merge_automatically, choose_approval

    by_mode = {"source": "review.mode"}
    if settings.approval is None:
        yield {"field": "approval", "value": choose_approval(settings).value, **by_mode}
    if settings.review.auto_merge is None:
        yield {"field": "review.auto_merge", "value": can_merge_automatically(settings), **by_mode}
    if agent := environment.agent_name():
        yield _build_agent_row(agent)


def _build_agent_row(agent: str) -> Row:
    return {"field": "agent", "value": agent, "source": AGENT}


def _list_role_types(roles: Roles, configured: Collection[str]) -> list[Row]:
    """Return the role for each task type that is in a role file but not in the config."""
    types = {word.casefold() for found in roles.by_name.values() for word in found.role.applicable_task_types}
    role_by_type = {
        word: roles.find_for_task_type(word)
        for word in sorted(types - {word.casefold() for word in configured})
    }
    return [
        {"field": f"{TYPES}.{word}", "value": role, "source": str(roles.by_name[role].path)}
        for word, role in role_by_type.items()
        if role and role in roles.by_name
    ]


def _insert_role_types(rows: list[Row], roles: list[Row]) -> Iterator[Row]:
    """Yield the rows, with `roles` after the task types of the config."""
    last = max(place for place, row in enumerate(rows) if row["field"].startswith(TYPES))
    for place, row in enumerate(rows):
        if row["field"] != TYPES:
            yield row
        if place == last:
            yield from roles


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
