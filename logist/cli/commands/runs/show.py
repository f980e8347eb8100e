"""`logist runs show`."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterator

import click

from logist.cli.commands.runs.list import find_records
from logist.cli.options import jobs_dir_option, json_option
from logist.cli.shell_values import complete_run
from logist.cli.show import run_table
from logist.cli.show.output import Command, Diagnostic, Line, Output, Screen, StyledText
from logist.config.environment import Environment
from logist.core.money.amounts import format_money
from logist.core.text.counts import format_count
from logist.errors import StorageError
from logist.store.run_records import RunRecord, WorkedJob, find_run_id, read_record, sum_up_jobs, sum_up_run
from logist.timestamps import format_duration, format_local

LISTED = 50
"""Maximum number of jobs on a terminal."""


@click.command("show")
@click.argument("run_argument", metavar="[ID]", required=False, shell_complete=complete_run)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Show only N jobs, first those that need something  [default: {LISTED} on a terminal, else all]",
)
@jobs_dir_option
@json_option
@click.pass_obj
def show(
    environment: Environment, run_argument: str | None, limit: int | None, jobs_dir: str | None
) -> Output:
    """Show a run of `logist run`: its jobs, what each waits for, cost, time and the next command.

    If not all jobs are shown, a line says how many more there are.

    ID: the beginning or the end of the id of a run, if only one has it; without it, the latest run. What a job waits for is
    what it waited for when it came to rest in this run: `logist job status` has its state now.
    """
    folder = find_records(environment, jobs_dir)
    run_id = find_run_id(folder, run_argument)
    try:
        record = read_record(folder, run_id)
    except OSError as error:
        raise StorageError(
            f"can't read the record: {error.strerror or error}", where=f"{folder}/{run_id}"
        ) from error
    jobs, now, named = sum_up_jobs(record.events), time.time(), environment.named_jobs_dir
    head = [*_describe_run(record, now), *_count_statuses(record, jobs)]
    listed = _choose_jobs(jobs, limit)

    def draw(screen: Screen) -> list[Line]:
        drawn = _choose_jobs(jobs, limit or LISTED)
        table = run_table.draw_table(drawn, named, screen, is_running=record.is_running)
        return [*head, *table, *_note_more(len(jobs) - len(drawn), run_id)]

    data = {
        **run_table.build_run_row(record, now),
        "error": (record.ended.error or None) if record.ended else None,
        "jobs": [run_table.build_job_row(each) for each in listed],
        "unreadable_lines": record.unreadable,
    }
    table = run_table.build_table(listed, named, is_running=record.is_running)
    more = _note_more(len(jobs) - len(listed), run_id)
    return Output(data, more, _warn_unreadable(record), above=head, table=table, on_terminal=draw)


def _choose_jobs(jobs: list[WorkedJob], limit: int | None) -> list[WorkedJob]:
    if limit is None or len(jobs) <= limit:
        return jobs
    by_id = {each.job: each for each in jobs}
    codes = {job: each.rested.exit_code if each.rested else 0 for job, each in by_id.items()}
    return [by_id[job] for job in run_table.choose_listed(codes, limit)]


def _count_statuses(record: RunRecord, jobs: list[WorkedJob]) -> Iterator[Line]:
    if len(jobs) > 1:
        statuses = (run_table.find_status(each, is_running=record.is_running) for each in jobs)
        yield ", ".join(f"{count:,} {status}" for status, count in sorted(Counter(statuses).items()))


def _note_more(more: int, run_id: str) -> list[Line]:
    if not more:
        return []
    return [(f"{format_count(more, 'more job')}: ", Command(f"logist runs show {run_id} | less"))]


def _describe_run(record: RunRecord, now: float) -> Iterator[Line]:
    totals, ended = sum_up_run(record, now), record.ended
    yield StyledText(f"run {record.run}", "bold")
    if record.begun.arguments:
        yield f"options: {shlex.join(record.begun.arguments)}"
    yield f"begun: {format_local(record.begun.at, with_seconds=True)}"
    why = run_table.describe_end(record)
    if ended is not None:
        end = f"ended: {format_local(ended.at, with_seconds=True)} with exit code {ended.exit_code}"
        left = f"; {format_count(ended.left, 'ready job')} left" if ended.left else ""
        yield f"{end}: {why}{left}"
    else:
        yield why
    jobs = format_count(totals.jobs, "job")
    yield f"{jobs}, {format_money(totals.cost_microcents)}, {format_duration(totals.seconds)}"


def _warn_unreadable(record: RunRecord) -> tuple[Diagnostic, ...]:
    if not record.unreadable:
        return ()
    message = f"{format_count(record.unreadable, 'line')} of the record can't be read and {'is' if record.unreadable == 1 else 'are'} left out"
    return (Diagnostic("warning", "unreadable", message, record.run),)
