"""`logist job resubmit`."""

from __future__ import annotations

import click

from logist.cli.job.decide import decided
from logist.cli.options import job_options, note_option, wait_option
from logist.cli.output import Output
from logist.config.environment import Environment


@click.command("resubmit")
@click.option("--review", is_flag=True, help="The work is good enough to look at: ask the reviewer.")
@click.option("--to", "step", metavar="STEP", help="The step to go on at  [default: the one that got stuck]")
@job_options
@wait_option
@note_option()
@click.pass_obj
def resubmit(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    wait: float,
    note: str | None,
    review: bool,
    step: str | None,
) -> Output:
    """Resolve a STUCK job: have it tried again, with all its attempts, and your note in the prompt."""
    command = {**({"review": True} if review else {}), **({"step": step} if step else {})}
    return decided("resubmit", environment, job_argument, job_option, jobs_dir, wait, note, command)
