"""`logist workflow lint`."""

from __future__ import annotations

import click

from logist.cli.options import json_flag
from logist.cli.shell_values import complete_workflow
from logist.cli.show.output import Output
from logist.config.environment import Environment


@click.command("lint")
@click.argument("names", metavar="[FILE|NAME]...", nargs=-1, shell_complete=complete_workflow)
@click.option("--strict", is_flag=True, help="Exit code 5 for a warning too.")
@json_flag
@click.pass_obj
def lint(environment: Environment, names: tuple[str, ...], strict: bool, as_json: bool) -> Output:
    """Say what is wrong with workflows, and what could be better.

    As validate, with more warnings: steps without a prompt, prompts with words to the agent, ids that
    are awkward to write. Warnings leave the exit code at 0.
    """
    from logist.cli.commands.workflow import checked

    return checked.report_problems(environment, names, advice=True, strict=strict, as_json=as_json)
