"""`logist role show`."""

from __future__ import annotations

import click

from logist.cli.options import complete_role, json_option
from logist.cli.output import Line, Output, Span
from logist.config.environment import Environment


@click.command("show")
@click.argument("name", shell_complete=complete_role)
@json_option
@click.pass_obj
def show(environment: Environment, name: str) -> Output:
    """Show one role whole: its attributes, its instructions, its file."""
    from logist.cli.context import known_roles

    roles = known_roles(environment)
    role = roles.get(name)
    path = str(roles.by_name[name].path)
    attributes = role.model_dump(
        mode="json", exclude={"name", "description", "instructions"}, exclude_none=True
    )
    lines: list[Line] = [(Span(role.name, "bold"), f": {role.description}")]
    lines += [f"{key}: {value}" for key, value in attributes.items()]
    lines += [f"file: {path}", "", *role.instructions.splitlines()]
    return Output({**role.model_dump(mode="json"), "file": path}, lines)
