"""`logist role show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from logist.cli.glance import role_span
from logist.cli.options import complete_role, json_option
from logist.cli.output import Line, Output
from logist.config.environment import Environment

if TYPE_CHECKING:
    from logist.core.model import Role


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
    lines: list[Line] = [(role_span(role.name, role.badge, role.color), f": {role.description}")]
    lines += [f"{key}: {value}" for key, value in _attributes(role)]
    lines += [f"file: {path}", "", *role.instructions.splitlines()]
    return Output({**role.model_dump(mode="json"), "file": path}, lines)


def _attributes(role: Role) -> Iterator[tuple[str, object]]:
    """What a person should know beside name, description and instructions; what is not said is left out."""
    data = role.model_dump(mode="json", exclude_none=True, exclude={"name", "description", "instructions"})
    data["permissions"] = ", ".join(role.permissions.names()) or "none"
    data["can_delegate_to_roles"] = ", ".join(role.can_delegate_to_roles)
    yield from ((key, value) for key, value in data.items() if value != "" and value is not False)
