"""`logist role validate`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from logist.cli.options import here, json_option
from logist.cli.output import Diagnostic, Output
from logist.config.environment import Environment
from logist.errors import InvalidFile

if TYPE_CHECKING:
    from logist.roles import Problem, Roles


@click.command("validate")
@json_option
@click.pass_obj
def validate(environment: Environment) -> Output:
    """Check every role file; exit code 5 when one does not validate.

    A model that the settings do not know is a warning.
    """
    from logist.cli.context import known_roles

    roles = known_roles(environment)
    problems = [*roles.problems, *_models(environment, roles)]
    bad = any(problem.severity == "error" for problem in problems)
    names = sorted(roles.by_name)
    data = {"ok": not bad, "roles": names, "problems": [asdict(problem) for problem in problems]}
    told = tuple(Diagnostic(p.severity, InvalidFile.code, p.message, p.where, p.fix) for p in problems)
    lines = () if bad else (f"{len(names)} roles are valid: {', '.join(names)}",)
    return Output(data, lines, told, InvalidFile.exit_code if bad else 0)


def _models(environment: Environment, roles: Roles) -> Iterator[Problem]:
    """Roles whose model can't be asked with the settings as they are."""
    from pathlib import Path

    from logist.config.settings import load_settings, resolve_model
    from logist.roles import Problem

    try:
        home = environment.find_home(Path(here())).path
        settings = load_settings(home, environment.user_config_dir()).settings
    except InvalidFile as error:
        yield Problem(
            "warning", f"the models were not checked: {error.message}", error.where or "", error.fix
        )
        return
    for name, found in sorted(roles.by_name.items()):
        try:
            resolve_model(settings, found.role.llm_model)
        except InvalidFile as error:
            yield Problem("warning", f"role `{name}`: {error.message}", str(found.path), error.fix)
