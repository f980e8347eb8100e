"""`logist job rerun`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.options import note_option
from logist.cli.project import on_job
from logist.cli.show.output import Output

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext


@click.command("rerun")
@click.option(
    "--clean-git/--no-clean-git",
    default=True,
    help="Reset the workspace to its initial state, or leave it unchanged.",
)
@click.option("--keep-files", is_flag=True, help="Copy the artefacts to attachments/ first.")
@on_job
@note_option()
def rerun(
    project: ProjectContext, job_id: str, clean_git: bool, keep_files: bool, note: str | None
) -> Output:
    """Start a job over: reset its usage and workspace, and keep its history."""
    from logist.cli.show.view import build_result_output
    from logist.jobs.steward.steward_decisions import rerun_job as start_over

    return build_result_output(start_over(project, job_id, clean=clean_git, keep_files=keep_files, note=note))
