"""`logist job import`."""

from __future__ import annotations

from pathlib import Path

import click

from logist.cli.options import json_option, new_jobs_dir_option, utf8
from logist.cli.show.output import Command, Output, StyledText, notes, warnings
from logist.config.environment import Environment


@click.command("import")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--id", "new_id", metavar="ID", help="The job's id  [default: by the name of the file]")
@new_jobs_dir_option
@json_option
@click.pass_obj
def import_(environment: Environment, path: str, new_id: str | None, jobs_dir: str | None) -> Output:
    """Make a job of a recorded history: a jobHistory.json, of an older shape too, or the directory it is in.

    The file is only read, and kept in the job's attachments/. The job goes on where the history ends, with
    an empty workspace; what had to be rebuilt is told.
    """
    from logist.cli.context import outside_project, project
    from logist.cli.show.glance import status_span
    from logist.core.machine.steward import next_command
    from logist.jobs.archive.history_import import import_history

    file = Path(utf8(path, "the path", "rename it"))
    made = import_history(project(environment, jobs_dir), file.absolute(), new_id=new_id)
    name, state = made.job.id, made.state
    data = {
        "job": name,
        "path": str(made.job.path),
        "status": state.status.value,
        "title": state.title,
        "interactions": made.interactions,
        "imported": made.sha256,
        "notes": list(made.notes),
        "next_command": next_command(state, name),
    }
    plural = "" if made.interactions == 1 else "s"
    lines = (
        (StyledText(name, "bold"), " is ", status_span(state.status.value)),
        (StyledText(f"imported: {made.interactions:,} interaction{plural} of {file}", "dim"),),
        (StyledText(f"directory: {made.job.path}", "dim"),),
        (Command(f"next: {data['next_command']}", "dim"),),
    )
    told = notes(made.notes) + warnings(made.differences, "does_not_replay")
    return Output(data, lines, told + outside_project(environment, jobs_dir, name))
