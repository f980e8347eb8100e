"""`logist job history`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logist.cli.options import job_named, listing_options
from logist.cli.output import Output
from logist.config.environment import Environment
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.store import JobDir


@click.command("history")
@click.option(
    "--raw", "raw", type=int, metavar="SEQ", help="Print the answer of that interaction, byte for byte."
)
@click.option("--prompt", "prompt", type=int, metavar="SEQ", help="Print the prompt of that interaction.")
@job_named
@listing_options
@click.pass_obj
def history(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    raw: int | None,
    prompt: int | None,
) -> Output:
    """Show what happened, one interaction after the other; --json and --jsonl give them whole."""
    from logist.cli.context import open_job
    from logist.cli.view import entry_lines
    from logist.jobs.looking import interactions

    if raw is not None and prompt is not None:
        raise UsageError("--raw and --prompt exclude each other", where="--prompt")
    job = open_job(environment, job_argument, job_option, jobs_dir)
    if raw is not None:
        return _answer(job, raw)
    if prompt is not None:
        return _prompt(job, prompt)
    lines = (line for entry in interactions(job) for line in entry_lines(entry))
    return Output(job.entries(), lines)


def _answer(job: JobDir, sequence: int) -> Output:
    from logist.jobs.looking import interaction

    entry = interaction(job, sequence)
    if entry.kind != "ask":
        raise _not_asked(sequence, entry.kind, "answer")
    text = entry.response.raw_response
    return Output({"sequence": sequence, "raw_response": text}, raw=text)


def _prompt(job: JobDir, sequence: int) -> Output:
    from logist.jobs.looking import interaction

    entry = interaction(job, sequence)
    if not entry.request.prompt:
        raise _not_asked(sequence, entry.kind, "prompt")
    text = entry.request.prompt
    return Output({"sequence": sequence, "prompt": text}, raw=text)


def _not_asked(sequence: int, kind: str, what: str) -> UsageError:
    return UsageError(f"interaction {sequence} ({kind}) has no {what}", fix="logist job history")
