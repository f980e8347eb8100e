"""`logist job poststep`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.options import Amount, choose_job_id, job_options, wait_option
from logist.cli.shell_values import complete_answered_interaction, complete_file, complete_role
from logist.cli.show.glance import status_span
from logist.cli.show.output import Output, StyledText
from logist.config.environment import Environment
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.jobs.base.result import CommandResult


@click.command("poststep")
@job_options
@wait_option
@click.option(
    "--response-file",
    metavar="FILE",
    help="File with the answer, or - for standard input.",
    shell_complete=complete_file,
)
@click.option("--response-string", metavar="TEXT", help="Text of the answer.")
@click.argument("dash", metavar="[-]", required=False, type=click.Choice(["-"]))
@click.option(
    "--from-history",
    type=int,
    metavar="N",
    help="Use the answer of interaction N.",
    shell_complete=complete_answered_interaction,
)
@click.option(
    "--role",
    metavar="NAME",
    help="Role that gives the answer  [default: the role that is next]",
    shell_complete=complete_role,
)
@click.option("--charge", type=Amount(), metavar="CENTS", help="Cost of the answer.")
@click.option("--dry-run", is_flag=True, help="Show what would happen; write nothing.")
@click.pass_obj
def poststep(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    wait: float,
    response_file: str | None,
    response_string: str | None,
    dash: str | None,
    from_history: int | None,
    role: str | None,
    charge: float | None,
    dry_run: bool,
) -> Output:
    """Record an answer supplied by hand, instead of asking the agent.

    The answer can be archived, written by you, or come from another program. Use exactly one of --response-file,
    --response-string, --from-history, or - for standard input.
    """
    from logist.cli import context, given_answer
    from logist.cli.show.view import build_result_output
    from logist.core.money.money import build_charge
    from logist.jobs.step_job import do_poststep as give
    from logist.jobs.turn.next_request import Choice

    project = context.open_project(environment, jobs_dir)
    if job_argument == "-":
        job_argument, dash = None, "-"
    sources = [item for item in (dash, response_file, response_string, from_history) if item is not None]
    if len(sources) != 1:
        raise UsageError(
            "expected exactly one answer",
            fix="use --response-file F, --response-string S, --from-history N, or -",
        )
    chosen = choose_job_id(environment, job_argument, job_option)
    supplied_answer = given_answer.read_given_answer(
        project, chosen, dash or response_file, response_string, from_history, build_charge(charge)
    )
    result = give(project, chosen, supplied_answer, Choice(role, None, wait), dry_run=dry_run)
    return _build_dry_run_output(result) if dry_run else build_result_output(result)


def _build_dry_run_output(result: CommandResult) -> Output:
    """Return what would happen to the job, worded so that it can't be mistaken for a recorded result."""
    from logist.cli.show.view import build_result_output, step_lines

    status = status_span(result.state.status.value)
    lines = [
        "Dry run: the answer would be recorded as:",
        *step_lines(result),
        (StyledText(result.job_id, "bold"), " would be ", status),
    ]
    return build_result_output(result)._replace(lines=lines)
