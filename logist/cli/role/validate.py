"""`logist role validate`."""

from __future__ import annotations

from dataclasses import asdict

import click

from logist.cli.options import json_option
from logist.cli.output import Diagnostic, Output
from logist.config.environment import Environment
from logist.errors import InvalidFile


@click.command("validate")
@json_option
@click.pass_obj
def validate(environment: Environment) -> Output:
    """Check every role file; exit code 5 when one does not validate."""
    from logist.cli.context import known_roles

    roles = known_roles(environment)
    bad = any(problem.severity == "error" for problem in roles.problems)
    names = sorted(roles.by_name)
    data = {"ok": not bad, "roles": names, "problems": [asdict(problem) for problem in roles.problems]}
    told = tuple(Diagnostic(p.severity, InvalidFile.code, p.message, p.where, p.fix) for p in roles.problems)
    lines = () if bad else (f"{len(names)} roles are valid: {', '.join(names)}",)
    return Output(data, lines, told, InvalidFile.exit_code if bad else 0)
