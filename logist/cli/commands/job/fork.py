"""`logist job fork`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.options import note_option
from logist.cli.project import on_job
from logist.cli.shell_values import complete_interaction
from logist.cli.show.output import Command, Output, StyledText, make_notes

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext


@click.command("fork")
@click.option(
    "--at",
    type=int,
    metavar="N",
    help="Last interaction to copy to the new job  [default: the last one]",
    shell_complete=complete_interaction,
)
@click.option(
    "--id", "new_id", metavar="ID", help="Id of the new job  [default: JOB-fork-1, JOB-fork-2, ...]"
)
@on_job
@note_option()
def fork(
    project: ProjectContext, job_id: str, at: int | None, new_id: str | None, note: str | None
) -> Output:
    """Create a new job from the history of this one, up to interaction N.

    The new job has the same history up to N, byte for byte, and the workspace as it was after N. This job
    doesn't change, and an agent may be working on it. `logist job history` lists the interaction numbers.
    """
    from logist.cli.show.glance import status_span
    from logist.core.machine.steward import next_command
    from logist.jobs.archive.job_fork import fork_job as make

    forked = make(project, job_id, at, new_id=new_id, note=note)
    state, name = forked.state, forked.job.id
    data = {
        "job": name,
        "path": str(forked.job.path),
        "forked": {
            "job": forked.origin,
            "at": forked.at,
            "head": state.forked.head if state.forked else None,
        },
        "status": state.status.value,
        "title": state.title,
        "usage": state.usage.model_dump(mode="json"),
        "next_command": next_command(state, name),
    }
    lines = (
        (StyledText(name, "bold"), " is ", status_span(state.status.value)),
        (StyledText(f"forked from {forked.origin} at interaction {forked.at}", "dim"),),
        (StyledText(f"directory: {forked.job.path}", "dim"),),
        (Command(f"next: {data['next_command']}", "dim"),),
    )
    return Output(data, lines, make_notes(forked.notes))
