"""`logist job rerun`."""

from __future__ import annotations

import click

from logist.cli.options import job_id, job_options, note_option
from logist.cli.show.output import Output
from logist.config.environment import Environment


@click.command("rerun")
@click.option(
    "--clean-git/--no-clean-git", default=True, help="Put the workspace back to the start, or leave it."
)
@click.option("--keep-files", is_flag=True, help="Copy the artefacts to attachments/ first.")
@job_options
@note_option()
@click.pass_obj
def rerun(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    clean_git: bool,
    keep_files: bool,
    note: str | None,
) -> Output:
    """Start a job over: nothing used, the workspace as it was at the start, the history kept."""
    from logist.cli.context import project
    from logist.cli.show.view import result_output
    from logist.jobs.steward.steward_decisions import rerun as start_over

    chosen = job_id(environment, job_argument, job_option)
    where = project(environment, jobs_dir)
    return result_output(start_over(where, chosen, clean=clean_git, keep_files=keep_files, note=note))
