"""`logist workflow validate`."""

from __future__ import annotations

import click

from logist.cli.options import json_flag
from logist.cli.shell_values import complete_role, complete_workflow
from logist.cli.show.output import Output
from logist.config.environment import Environment


@click.command("validate")
@click.argument("names", metavar="[FILE|NAME]...", nargs=-1, shell_complete=complete_workflow)
@click.option(
    "--role",
    metavar="ROLE",
    shell_complete=complete_role,
    help="Role of the job; also check whether it may delegate to the roles of the steps.",
)
@json_flag
@click.pass_obj
def validate(environment: Environment, names: tuple[str, ...], role: str | None, as_json: bool) -> Output:
    """Check workflows for errors.

    Pass files, directories or names of workflows; by default, all workflows are checked. Prints one line per
    finding: path:line:column, error or warning, message and fix. Exit code 5 if there is an error.
    """
    from logist.cli.commands.workflow import checked

    return checked.report_problems(environment, names, advice=False, job_role=role, as_json=as_json)
