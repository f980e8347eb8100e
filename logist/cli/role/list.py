"""`logist role list`."""

from __future__ import annotations

import click

from logist.cli.options import listing_options
from logist.cli.output import Diagnostic, Output, Table
from logist.config.environment import Environment


@click.command("list")
@listing_options
@click.pass_obj
def list_(environment: Environment) -> Output:
    """List the roles: name, model, file, description."""
    from logist.cli.context import known_roles

    roles = known_roles(environment)
    rows = [
        {
            "name": name,
            "model": found.role.llm_model,
            "description": found.role.description,
            "file": str(found.path),
        }
        for name, found in sorted(roles.by_name.items())
    ]
    cells = [(row["name"], row["model"], row["file"], row["description"]) for row in rows]
    broken = tuple(Diagnostic("warning", e.code, e.message, e.where, e.fix) for e in roles.broken.values())
    return Output(rows, diagnostics=broken, table=Table(("NAME", "MODEL", "FILE", "DESCRIPTION"), cells))
