"""`logist job list`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import StatusChoice, jobs_dir_option, listing_options, refuse_empty
from logist.cli.shell_values import complete_assignee, complete_tag
from logist.cli.show import glance, job_rows, render
from logist.cli.show.job_rows import Row
from logist.cli.show.output import (
    Diagnostic,
    Line,
    Output,
    Screen,
    StyledText,
    TextTable,
)
from logist.config.environment import Environment
from logist.core.machine.predecessors import Unmet, describe_unmet
from logist.core.text.counts import format_count
from logist.errors import UsageError
from logist.store.job_index import JobFilter, JobOrder
from logist.store.snooze import LATEST

HEAD = ("ID", "STATUS", "ROLE", "COST", "TITLE")
WIDE_HEAD = ("ID", "STATUS", "AGE", "ROLE", "COST", "TITLE")
"""On a terminal."""
KEYS = ("rank", "created", "updated", "cost", "id")
"""What --sort knows."""
LEFT_OUT = ("ROLE", "COST", "AGE")
"""Columns that a narrow terminal leaves out, in this order."""


@click.command("list")
@click.option("--stuck", is_flag=True, help="List only STUCK jobs.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=StatusChoice(glance.STATUSES),
    metavar="STATUS",
    help="List only jobs with this status; repeatable.",
)
@click.option("--tag", metavar="TAG", help="List only jobs with this tag.", shell_complete=complete_tag)
@click.option(
    "--assignee",
    metavar="NAME",
    help="List only jobs that wait at a manual step with this assignee.",
    shell_complete=complete_assignee,
)
@click.option(
    "--since",
    metavar="WHEN",
    help="List only jobs that have changed since a date or time, or in the last 30m, 2h, 3d or 1w.",
)
@click.option(
    "--grep",
    metavar="TEXT",
    help="List only jobs whose id, title or task contains this text (no pattern); upper and lower case are the same.",
    callback=refuse_empty,
)
@click.option(
    "--sort",
    metavar="KEY",
    type=click.Choice([f"{way}{key}" for key in KEYS for way in ("", "-")]),
    default="rank",
    help="Sort by rank (default), created, updated, cost or id; `-` before it reverses the order.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List only the first N jobs.")
@click.option("--refresh", is_flag=True, help="First look for what was changed without Logist.")
@jobs_dir_option
@listing_options
@click.pass_obj
def list_(
    environment: Environment,
    jobs_dir: str | None,
    stuck: bool,
    statuses: tuple[str, ...],
    tag: str | None,
    assignee: str | None,
    since: str | None,
    grep: str | None,
    sort: str,
    limit: int | None,
    refresh: bool,
) -> Output:
    """List jobs by rank, then by age.

    Child jobs are listed below their parent, except with another --sort. Several filters select the jobs that pass all
    of them. A terminal shows also the age, which is the time since the last change,
    and below a job that waits for a person the reason; columns that don't fit are left out. In a pipe, the columns
    are separated by tabs: id, status, role, cost, title. For a job that waits at a manual step, the role is the
    assignee of the step, if it has one.
    In a project with 1,000 jobs or more, a filter or --limit looks them up in an index. What Logist changes is in it at once. What
    was changed, copied or deleted without Logist is noticed by a list without these, or with --refresh.

    RUNNING and REVIEWING mean PENDING and REVIEW_REQUIRED while an agent is working; ? means that the state
    can't be read.
    """
    folder = environment.jobs_dir_name(jobs_dir, get_current_directory())
    wanted = JobFilter(
        frozenset({*statuses, "STUCK"} if stuck else statuses),
        tag,
        assignee,
        _parse_since(since, time.time()) if since is not None else None,
        grep.casefold() if grep is not None else None,
    )
    order = JobOrder(sort.removeprefix("-"), sort.startswith("-"))
    listing = job_rows.read_listing(folder, wanted, order, limit, refresh=refresh)
    if listing.is_empty:
        return Output([], diagnostics=listing.problems or _note_nothing_listed(folder, wanted))
    notes = tuple(Diagnostic("info", "waiting", text, job_id, None) for job_id, text in listing.waits)
    rows: Iterable[tuple[StyledText | str, ...]] = listing.iter_cells()
    if environment.has_color(sys.stdout.isatty()):
        rows = map(glance.format_job_cells, listing.iter_rows())
    return Output(
        listing.rows,
        diagnostics=(*listing.problems, *notes),
        table=TextTable(HEAD, rows),
        on_terminal=lambda screen: _draw_rows(list(listing.iter_rows()), screen),
    )


def _note_nothing_listed(folder: str, wanted: JobFilter) -> tuple[Diagnostic, ...]:
    count = 0 if wanted.is_empty else job_rows.count_jobs(folder)
    if not count:
        return job_rows.note_no_jobs(folder)
    message = f"no job passes the filters, of {format_count(count, 'job')}"
    return (Diagnostic("info", "none_pass", message, folder, "to see all jobs: logist job list"),)


def _parse_since(text: str, now: float) -> str:
    """Return the time as `updated_at` has it. Raises UsageError."""
    from logist.timestamps import format_utc, parse_duration, parse_time

    age = parse_duration(text)
    moment = parse_time(text) if age is None else now - age
    if moment is None:
        fix = "for example: --since 2h, --since 3d, --since 2026-12-01, --since 2026-12-01T09:00"
        raise UsageError(f"not a date, a time or an age: {text!r}", where="--since", fix=fix)
    return format_utc(min(max(0.0, moment), LATEST))


def _draw_rows(rows: list[Row], screen: Screen) -> list[Line]:
    """Return the table for a terminal."""
    now = time.time()
    cells = [glance.format_wide_job_cells(row, now) for row in rows]
    reasons = [StyledText(_explain_wait(row), "dim") for row in rows]
    return render.draw_table(TextTable(WIDE_HEAD, cells, LEFT_OUT, reasons), screen)


def _explain_wait(row: Row) -> str:
    """Return the reason why a job waits for a person or for other jobs; empty for other jobs."""
    if row["waits_for"]:
        return describe_unmet([Unmet(**each) for each in row["waits_for"]])
    return row["reason"] if glance.needs_person(row["status"]) else ""
