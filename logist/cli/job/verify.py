"""`logist job verify`."""

from __future__ import annotations

import click

from logist.cli.options import job_options
from logist.cli.output import Diagnostic, Output, notes
from logist.config.environment import Environment
from logist.errors import Damaged


@click.command("verify")
@job_options
@click.pass_obj
def verify(
    environment: Environment, job_argument: str | None, job_option: str | None, jobs_dir: str | None
) -> Output:
    """Check every entry's checksum, the chain, the numbering, and that the history gives the state.

    Nothing is repaired. Exit code 10 when something does not verify; a state.json that is missing or
    behind the history is none of that, since the next change makes it anew.
    """
    from logist.cli.context import open_job, project
    from logist.jobs import looking

    job = open_job(environment, job_argument, job_option, jobs_dir)
    found = looking.verify(project(environment, jobs_dir), job)
    count = 0 if found.problems else job.load().position.sequence
    data = {
        "job": job.id,
        "ok": not found.problems,
        "interactions": count,
        "problems": [p._asdict() for p in found.problems],
    }
    told = notes(found.notes)
    if not found.problems:
        state = "" if found.notes else ", and the state they give"
        return Output(data, (f"{job.id} verifies: {count} interactions{state}",), told)
    errors = tuple(
        Diagnostic("error", Damaged.code, _told(p.message, p.sequence), str(job.path)) for p in found.problems
    )
    return Output(data, (), errors + told, Damaged.exit_code)


def _told(message: str, sequence: int | None) -> str:
    return message if sequence is None else f"interaction {sequence}: {message}"
