"""`logist inbox note`."""

from __future__ import annotations

import click

from logist.cli.options import choose_job_id, job_option, jobs_dir_option, json_option, wait_option
from logist.cli.shell_values import complete_job
from logist.cli.show.output import Output
from logist.config.environment import Environment
from logist.errors import UsageError

_FIX = 'use logist inbox note JOB "TEXT"'


@click.command("note")
@click.argument("words", nargs=-1, metavar="[JOB] TEXT", shell_complete=complete_job)
@job_option
@wait_option
@jobs_dir_option
@json_option
@click.pass_obj
def note(
    environment: Environment,
    words: tuple[str, ...],
    job_option: str | None,
    jobs_dir: str | None,
    wait: float,
) -> Output:
    """Add a note to a job, without a decision.

    The note is recorded in the history, for people: `job show` and `job history` print it. The state of the job does
    not change, and no agent reads the note; to tell the next agent something, use --note of a decision.
    """
    named, text = _parse_words(words)
    from logist.cli.context import open_project
    from logist.cli.show.view import build_result_output
    from logist.core.model import Kind
    from logist.jobs.steward.steward_decisions import record_decision

    try:
        chosen = choose_job_id(environment, named, job_option)
    except UsageError as error:
        if named:
            raise
        # one word: it may be meant as the job
        raise UsageError("expected a job and a text in quotes", where="TEXT", fix=_FIX) from error
    project = open_project(environment, jobs_dir)
    return build_result_output(record_decision(project, chosen, Kind.NOTE, note=text, wait=wait))


def _parse_words(words: tuple[str, ...]) -> tuple[str | None, str]:
    """Return the job, if it is named, and the text."""
    if len(words) not in (1, 2):
        raise UsageError("expected a job and a text in quotes", where="TEXT", fix=_FIX)
    if not words[-1].strip():
        raise UsageError("the note is empty", where="TEXT", fix=_FIX)
    return (words[0] if len(words) == 2 else None), words[-1]
