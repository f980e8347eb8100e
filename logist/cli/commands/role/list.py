"""`logist role list`."""

from __future__ import annotations

from typing import Any

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import listing_options
from logist.cli.show.glance import role_span
from logist.cli.show.output import Diagnostic, Output, TextTable
from logist.config.environment import Environment, find_coven_directory
from logist.roles.shipped_roles import list_shipped_roles

LEFT_OUT = ("FILE", "TASKS", "MODEL")
"""Columns that a narrow terminal leaves out, in this order."""


@click.command("list")
@listing_options
@click.pass_obj
def list_(environment: Environment) -> Output:
    """List the roles.

    Shows name, model, permissions, task types, file and description.
    """
    home, _ = environment.home_name(get_current_directory())
    coven = find_coven_directory(home)
    shipped = list_shipped_roles((environment.user_config_dir_name(), home, *([coven] if coven else [])))
    if shipped is not None:
        return _build_output(shipped, ())
    from logist.cli.context import load_known_roles

    roles = load_known_roles(environment)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "model": found.role.llm_model,
            "permissions": found.role.permissions.model_dump(),
            "can_delegate_to_roles": list(found.role.can_delegate_to_roles),
            "base": found.base,
            "applicable_task_types": list(found.role.applicable_task_types),
            "badge": found.role.badge,
            "color": found.role.color,
            "description": found.role.description,
            "file": str(found.path),
        }
        for name, found in sorted(roles.by_name.items())
    ]
    broken = tuple(Diagnostic("warning", e.code, e.message, e.where, e.fix) for e in roles.broken.values())
    return _build_output(rows, broken)


def _build_output(rows: list[dict[str, Any]], broken: tuple[Diagnostic, ...]) -> Output:
    cells = [
        (
            role_span(row["name"], row["badge"], row["color"]),
            row["model"],
            format_permissions(row["permissions"]),
            ", ".join(row["applicable_task_types"]),
            row["file"],
            row["description"],
        )
        for row in rows
    ]
    head = ("NAME", "MODEL", "MAY", "TASKS", "FILE", "DESCRIPTION")
    return Output(rows, diagnostics=broken, table=TextTable(head, cells, LEFT_OUT))


def format_permissions(permissions: dict[str, bool]) -> str:
    """Return the permissions in short, such as `read, execute`."""
    names = [name.removeprefix("can_").partition("_")[0] for name, allowed in permissions.items() if allowed]
    if not names:
        return "nothing"
    return "everything" if len(names) == len(permissions) else ", ".join(names)
