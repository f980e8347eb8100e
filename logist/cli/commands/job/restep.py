"""`logist job restep`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.options import note_option
from logist.cli.project import on_job
from logist.cli.shell_values import complete_earlier_interaction
from logist.cli.show.output import Output

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext


@click.command("restep")
@click.option(
    "--to",
    required=True,
    type=int,
    metavar="N",
    help="Go back to before this interaction.",
    shell_complete=complete_earlier_interaction,
)
@on_job
@note_option()
def restep(project: ProjectContext, job_id: str, to: int, note: str | None) -> Output:
    """Reset state and workspace to before interaction N.

    Manual edits from before N are restored too. Nothing is deleted: the history continues, and cost and time
    already used still count. `logist job history` lists the interaction numbers.
    """
    from logist.cli.show.view import build_result_output
    from logist.jobs.steward.steward_decisions import restep_job as go_back

    return build_result_output(go_back(project, job_id, to, note=note))
