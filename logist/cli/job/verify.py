"""`logist job verify`."""

from __future__ import annotations

import click

from logist.cli.options import job_options
from logist.cli.output import Diagnostic, Output
from logist.config.environment import Environment
from logist.errors import Damaged


@click.command("verify")
@job_options
@click.pass_obj
def verify(
    environment: Environment, job_argument: str | None, job_option: str | None, jobs_dir: str | None
) -> Output:
    """Check every entry's checksum, the chain, the numbering, and that the history gives the state.

    Nothing is repaired. Exit code 10 when something does not verify.
    """
    from logist.cli.context import open_job, project
    from logist.jobs import looking

    job = open_job(environment, job_argument, job_option, jobs_dir)
    problems = looking.verify(project(environment, jobs_dir), job)
    count = 0 if problems else job.load().position.sequence
    data = {
        "job": job.id,
        "ok": not problems,
        "interactions": count,
        "problems": [p._asdict() for p in problems],
    }
    if not problems:
        return Output(data, (f"{job.id} verifies: {count} interactions, and the state they give",))
    errors = tuple(
        Diagnostic("error", Damaged.code, _told(p.message, p.sequence), str(job.path)) for p in problems
    )
    return Output(data, (), errors, Damaged.exit_code)


def _told(message: str, sequence: int | None) -> str:
    return message if sequence is None else f"interaction {sequence}: {message}"
