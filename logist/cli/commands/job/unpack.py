"""`logist job unpack`."""

from __future__ import annotations

from pathlib import Path

import click

from logist.cli.options import json_option, new_jobs_dir_option
from logist.cli.shell_values import complete_file
from logist.cli.show.output import Command, Output, StyledText, make_warnings
from logist.config.environment import Environment, require_utf8
from logist.core.text.counts import format_bytes, format_count
from logist.errors import UsageError


@click.command("unpack")
@click.argument("path", metavar="FILE", type=click.Path(), shell_complete=complete_file)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Refuse a file that unpacks to more than this  [default: 20,000,000,000]",
)
@new_jobs_dir_option
@json_option
@click.pass_obj
def unpack(environment: Environment, path: str, max_bytes: int | None, jobs_dir: str | None) -> Output:
    """Create the job that `logist job pack` packed into FILE.

    The job keeps its id; an existing job is never overwritten. It appears complete, or not at all, after its history
    has been verified. Nothing from the file runs, and nothing is written outside of the job. Links of the workspace that
    lead out of it are left out.
    """
    from logist.cli.context import note_outside_project, open_project
    from logist.cli.show.glance import status_span
    from logist.core.machine.steward import next_command
    from logist.jobs.archive.job_pack import MOST_BYTES, unpack_job

    file = Path(require_utf8(path, "the path", "rename the file")).absolute()
    if not file.is_file():
        raise UsageError(
            "file not found" if not file.exists() else "not a file", where=path, fix="check the path"
        )
    unpacked = unpack_job(open_project(environment, jobs_dir), file, max_bytes=max_bytes or MOST_BYTES)
    job_id, state = unpacked.job.id, unpacked.state
    data = {
        "job": job_id,
        "path": str(unpacked.job.path),
        "status": state.status.value,
        "title": state.title,
        "revision": state.revision,
        "files": unpacked.files,
        "content_bytes": unpacked.content_bytes,
        "left_out": list(unpacked.left_out),
        "next_command": next_command(state, job_id),
    }
    content = f"{format_count(unpacked.files, 'file')}, {format_bytes(unpacked.content_bytes)}"
    lines = (
        (StyledText(job_id, "bold"), " is ", status_span(state.status.value)),
        (StyledText(f"unpacked and verified: {content}, up to interaction {state.revision}", "dim"),),
        (StyledText(f"directory: {unpacked.job.path}", "dim"),),
        (Command(f"next: {data['next_command']}", "dim"),),
    )
    more = len(unpacked.left_out) - 5
    named = ", ".join(unpacked.left_out[:5]) + (f" and {more} more" if more > 0 else "")
    warnings = (f"left out, because they lead out of the workspace: {named}",) if unpacked.left_out else ()
    notes = note_outside_project(environment, jobs_dir, job_id)
    return Output(data, lines, make_warnings(warnings, "left_out") + notes)
