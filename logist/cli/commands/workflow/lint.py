"""`logist workflow lint`."""

from __future__ import annotations

import click

from logist.cli.options import json_flag
from logist.cli.shell_values import complete_workflow
from logist.cli.show.output import Output
from logist.config.environment import Environment


@click.command("lint")
@click.argument("names", metavar="[FILE|NAME]...", nargs=-1, shell_complete=complete_workflow)
@click.option("--strict", is_flag=True, help="Exit with code 5 also for warnings.")
@json_flag
@click.pass_obj
def lint(environment: Environment, names: tuple[str, ...], strict: bool, as_json: bool) -> Output:
    """Check workflows for errors and possible improvements.

    Like validate, with more warnings: steps without a prompt, prompts that contain the agent's role, ids that
    are hard to type. With warnings only, the exit code is 0.
    """
    from logist.cli.commands.workflow import checked

    return checked.report_problems(environment, names, advice=True, strict=strict, as_json=as_json)
