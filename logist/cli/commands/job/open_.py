"""`logist job open`."""

from __future__ import annotations

import shlex
import subprocess
import sys

import click

from logist.cli.options import job_and_dir_options, json_flag
from logist.cli.show.output import Output, make_notes
from logist.config.environment import Environment
from logist.errors import Damaged, UsageError


@click.command("open")
@click.option("--path", "only_path", is_flag=True, help="Print the path, even on a terminal.")
@job_and_dir_options
@json_flag
@click.pass_obj
def open_(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    only_path: bool,
    as_json: bool,
) -> Output:
    """Open the workspace of a job in your editor ($VISUAL, or $EDITOR).

    In a pipe, with --json, or without an editor, prints the path of the workspace instead: `cd "$(logist open JOB)"`.
    Your changes are part of the next step, and `logist job diff` shows them.
    """
    from logist.cli.context import open_job
    from logist.jobs.base import cleaned_files

    job = open_job(environment, job_argument, job_option, jobs_dir)
    cleaned_files.require_files(job, "open the workspace of")
    job.require_known_format()
    if job.workspace.is_symlink() or not job.workspace.is_dir():
        fix = f"logist job verify --job {job.id}"
        raise Damaged("the workspace is missing", where=str(job.workspace), fix=fix)
    path = str(job.workspace)
    is_at_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not environment.is_input_off()
    is_at_terminal = is_at_terminal and not (only_path or as_json)
    editor = environment.editor()
    if is_at_terminal and editor is not None:
        _run_editor(editor, path)
        return Output({"job": job.id, "path": path})
    notes = ("to open it in an editor, set $VISUAL or $EDITOR",) if is_at_terminal else ()
    return Output({"job": job.id, "path": path}, diagnostics=make_notes(notes), raw=f"{path}\n")


def _run_editor(editor: str, path: str) -> None:
    """Run the editor in the workspace until it ends. Raises UsageError if it can't run, or fails."""
    try:
        status = subprocess.run([*shlex.split(editor), path], cwd=path, check=False).returncode
        problem = f"it ended with exit status {status}" if status else ""
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
    if problem:
        fix = f"check $VISUAL and $EDITOR; the workspace is {path}"
        raise UsageError(f"can't open it with {editor!r}: {problem}", where="the editor", fix=fix)
