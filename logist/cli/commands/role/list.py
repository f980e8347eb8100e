"""`logist role list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import listing_options
from logist.cli.show.glance import role_span
from logist.cli.show.output import Diagnostic, Output, TextTable
from logist.config.environment import Environment

if TYPE_CHECKING:
    from logist.core.model import Permissions

LEFT_OUT = ("FILE", "TASKS", "MODEL")
"""Columns that a narrow terminal leaves out, in this order."""


@click.command("list")
@listing_options
@click.pass_obj
def list_(environment: Environment) -> Output:
    """List the roles.

    Shows name, model, permissions, task types, file and description.
    """
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
    cells = [
        (
            role_span(row["name"], row["badge"], row["color"]),
            row["model"],
            format_permissions(roles.by_name[row["name"]].role.permissions),
            ", ".join(row["applicable_task_types"]),
            row["file"],
            row["description"],
        )
        for row in rows
    ]
    broken = tuple(Diagnostic("warning", e.code, e.message, e.where, e.fix) for e in roles.broken.values())
    head = ("NAME", "MODEL", "MAY", "TASKS", "FILE", "DESCRIPTION")
    return Output(rows, diagnostics=broken, table=TextTable(head, cells, LEFT_OUT))


def format_permissions(permissions: Permissions) -> str:
    """Return the permissions in short, such as `read, execute`."""
    names = [name.partition("_")[0] for name in permissions.list_names()]
    if not names:
        return "nothing"
    return "everything" if len(names) == len(type(permissions).model_fields) else ", ".join(names)
