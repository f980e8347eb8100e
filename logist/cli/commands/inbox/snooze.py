"""`logist inbox snooze`."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import choose_job_id, job_options
from logist.cli.show import inbox_table
from logist.cli.show.output import Output, StyledText
from logist.errors import UsageError
from logist.jobs.steward.snoozing import parse_snooze_end, snooze_job
from logist.timestamps import format_local

if TYPE_CHECKING:
    from logist.config.environment import Environment


@click.command("snooze")
@click.option(
    "--until",
    required=True,
    metavar="TIME|DURATION",
    help="2h, 3d, 2w, 2026-12-01, 2026-12-01T09:00; `now` shows the job again.",
)
@job_options
@click.pass_obj
def snooze(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    until: str,
) -> Output:
    """Hide a job in the inbox until a time, or until it changes.

    Times are local. The job itself does not change, and `logist run` still counts it. `logist inbox --snoozed` lists
    the hidden jobs.
    """
    chosen = choose_job_id(environment, job_argument, job_option)
    now = time.time()
    end = parse_snooze_end(until, now)
    if end is None:
        fix = "for example: --until 2h, --until 3d, --until 2026-12-01T09:00"
        raise UsageError(f"not a time in the future: {until!r}", where="--until", fix=fix)
    folder = os.path.abspath(environment.jobs_dir_name(jobs_dir, get_current_directory()))
    item = snooze_job(folder, chosen, end, now)
    job = StyledText(item.job, "bold")
    if item.snoozed_until is None:
        return Output(inbox_table.build_row(item), [(job, " is in the inbox again")])
    text = f" is snoozed until {format_local(item.snoozed_until)}, or until it changes"
    return Output(inbox_table.build_row(item), [(job, text)])
