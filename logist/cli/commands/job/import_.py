"""`logist job import`."""

from __future__ import annotations

from pathlib import Path

import click

from logist.cli.options import json_option, new_jobs_dir_option
from logist.cli.show.output import Command, Output, StyledText, make_notes, make_warnings
from logist.config.environment import Environment, require_utf8
from logist.core.text.counts import format_count


@click.command("import")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--id", "new_id", metavar="ID", help="Id of the new job  [default: from the file name]")
@new_jobs_dir_option
@json_option
@click.pass_obj
def import_(environment: Environment, path: str, new_id: str | None, jobs_dir: str | None) -> Output:
    """Create a job from a recorded history.

    FILE is a jobHistory.json, also in an older format, or the directory that contains it. Logist doesn't change
    it, and keeps a copy in the job's attachments/. The job continues where the history ends, with an empty
    workspace. Logist reports what it had to rebuild.
    """
    from logist.cli.context import note_outside_project, open_project
    from logist.cli.show.glance import status_span
    from logist.core.machine.steward import next_command
    from logist.jobs.archive.history_import import import_history

    file = Path(require_utf8(path, "the path", "rename the file"))
    imported = import_history(open_project(environment, jobs_dir), file.absolute(), new_id=new_id)
    name, state = imported.job.id, imported.state
    data = {
        "job": name,
        "path": str(imported.job.path),
        "status": state.status.value,
        "title": state.title,
        "interactions": imported.interactions,
        "imported": imported.sha256,
        "notes": list(imported.notes),
        "next_command": next_command(state, name),
    }
    lines = (
        (StyledText(name, "bold"), " is ", status_span(state.status.value)),
        (StyledText(f"imported: {format_count(imported.interactions, 'interaction')} from {file}", "dim"),),
        (StyledText(f"directory: {imported.job.path}", "dim"),),
        (Command(f"next: {data['next_command']}", "dim"),),
    )
    diagnostics = make_notes(imported.notes) + make_warnings(imported.differences, "does_not_replay")
    return Output(data, lines, diagnostics + note_outside_project(environment, jobs_dir, name))
