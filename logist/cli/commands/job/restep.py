"""`logist job restep`."""

from __future__ import annotations

import click

from logist.cli.options import job_id, job_options, note_option
from logist.cli.shell_values import complete_earlier_interaction
from logist.cli.show.output import Output
from logist.config.environment import Environment


@click.command("restep")
@click.option(
    "--to",
    required=True,
    type=int,
    metavar="N",
    help="The interaction to go back before.",
    shell_complete=complete_earlier_interaction,
)
@job_options
@note_option()
@click.pass_obj
def restep(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    to: int,
    note: str | None,
) -> Output:
    """Put state and workspace back to what interaction N found, with what was edited by hand before it.

    Nothing is deleted: the history goes on, and what was used stays used. `logist job history` has
    the numbers.
    """
    from logist.cli.context import project
    from logist.cli.show.view import result_output
    from logist.jobs.steward.steward_decisions import restep as go_back

    chosen = job_id(environment, job_argument, job_option)
    return result_output(go_back(project(environment, jobs_dir), chosen, to, note=note))
