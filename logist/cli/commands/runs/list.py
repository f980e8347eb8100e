"""`logist runs list`."""

from __future__ import annotations

import time

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import jobs_dir_option, listing_options
from logist.cli.show import run_table
from logist.cli.show.output import Diagnostic, Output, StyledText, TextTable
from logist.config.environment import Environment
from logist.core.money.amounts import format_money
from logist.store.run_records import (
    NO_RUNS,
    RunRecord,
    find_runs_folder,
    list_run_ids,
    read_record,
    sum_up_run,
)
from logist.timestamps import format_duration, format_local

HEAD = ("RUN", "BEGUN", "TIME", "JOBS", "COST", "ENDED")


def find_records(environment: Environment, jobs_dir: str | None) -> str:
    """Return the directory of the records of this project."""
    directory = get_current_directory()
    return find_runs_folder(
        environment.home_name(directory)[0], environment.jobs_dir_name(jobs_dir, directory)
    )


@click.command("list")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List only the last N runs.")
@jobs_dir_option
@listing_options
@click.pass_obj
def list_(environment: Environment, limit: int | None, jobs_dir: str | None) -> Output:
    """List the runs of `logist run`, the latest first.

    A run has a record once it has begun a job. A run is listed as killed if the end of its record is missing: it was killed, or
    the machine went down. What its jobs did is in their histories.
    """
    folder, now = find_records(environment, jobs_dir), time.time()
    records: list[RunRecord] = []
    diagnostics: list[Diagnostic] = []
    for run_id in list_run_ids(folder)[:limit]:
        try:
            records.append(read_record(folder, run_id, with_jobs=False))
        except OSError as error:
            message = f"can't read its record: {error.strerror or error}"
            diagnostics.append(Diagnostic("warning", "unreadable", message, run_id))
    if not (records or diagnostics):
        diagnostics.append(
            Diagnostic("info", "no_runs", NO_RUNS, folder, "to run every ready job: logist run")
        )
    return Output(
        [run_table.build_run_row(record, now) for record in records],
        diagnostics=tuple(diagnostics),
        table=TextTable(HEAD, [_format_row(each, now) for each in records], ("TIME", "BEGUN"))
        if records
        else None,
    )


def _format_row(record: RunRecord, now: float) -> tuple[StyledText | str, ...]:
    totals = sum_up_run(record, now)
    return (
        StyledText(record.run, "bold"),
        format_local(record.begun.at),
        format_duration(totals.seconds),
        f"{totals.jobs:,}",
        format_money(totals.cost_microcents),
        StyledText(run_table.describe_end(record), "red" if record.was_killed else ""),
    )
