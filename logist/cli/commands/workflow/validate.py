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
    help="The role of the job: say which roles it may not give work to.",
)
@json_flag
@click.pass_obj
def validate(environment: Environment, names: tuple[str, ...], role: str | None, as_json: bool) -> Output:
    """Say everything that is wrong with workflows, each with its place and how to fix it.

    Files, directories or names; without any, all workflows that can be named. One line a finding:
    path:line:column, error or warning, what and how. Exit code 5 if there is an error.
    """
    from logist.cli.commands.workflow import checked

    return checked.report_problems(environment, names, advice=False, job_role=role, as_json=as_json)
