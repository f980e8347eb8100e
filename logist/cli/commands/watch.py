"""`logist watch`."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import jobs_dir_option, json_flag
from logist.cli.show import glance, job_rows, render
from logist.cli.show.output import Diagnostic, Line, Output, Screen, StyledText, TextTable
from logist.cli.stops import get_stop_code, stop_on_signals
from logist.config.environment import Environment
from logist.core.machine.job_row import RUNNING
from logist.store.job_index import JobFilter
from logist.store.progress import read_last_record

HEAD = ("ID", "STATUS", "AGE", "ROLE", "COST", "TITLE")
PIPE_HEAD = ("ID", "STATUS", "AGE", "ROLE", "COST", "ACTIVITY")
LEFT_OUT = ("ROLE", "COST", "AGE")
"""Columns that a narrow terminal leaves out, in this order."""
FIXED_LINES = 4
"""Lines of the screen besides the table: summary, empty line, head, what is not shown."""
UNLIMITED = 1_000_000
"""Lines of an output that scrolls."""
LOAD = 5
"""Reading the jobs takes at most one of this many seconds, however many jobs there are."""

Row = dict[str, Any]


@click.command("watch")
@stop_on_signals
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2, max=3600),
    default=1.0,
    metavar="SECONDS",
    show_default="1",
    help="Seconds between two looks.",
)
@jobs_dir_option
@json_flag
@click.pass_obj
def watch(environment: Environment, jobs_dir: str | None, interval: float, as_json: bool) -> Output:
    """Watch all jobs while agents work: status, progress, cost, and what waits for a person.

    Working jobs come first, then those that wait for a person, those that wait for an agent, and those that ended.
    Below a working job is what its agent does, below a waiting job the reason. Press q or Ctrl-C to stop watching;
    this changes nothing.

    In a pipe, with --json, or on a terminal that can't draw a line again, prints the jobs once. In a pipe, the columns
    are separated by tabs: id, status, age, role, cost, and the activity or the reason.
    """
    folder = environment.jobs_dir_name(jobs_dir, get_current_directory())
    note: tuple[Diagnostic, ...] = ()
    height = UNLIMITED
    if sys.stdout.isatty() and environment.can_move_cursor() and not as_json:
        from logist.cli.show.live_screen import LiveScreen

        with LiveScreen(environment, get_stop_code) as screen:
            while screen.is_open and not get_stop_code():
                began = time.monotonic()
                screen.draw(partial(_draw_screen, _read_rows(folder)[0]))
                screen.wait(max(interval, LOAD * (time.monotonic() - began)))
        height = 0
        note = (Diagnostic("info", "note", "stopped watching; the jobs are not affected"),)
    rows, problems = _read_rows(folder)
    cells = [_build_cells(row) for row in rows]
    return Output(
        {"jobs": rows, **_count_rows(rows)},
        diagnostics=(*problems, *note) or (() if rows else job_rows.note_no_jobs(folder)),
        exit_code=get_stop_code(),
        table=TextTable(PIPE_HEAD, cells) if rows else None,
        on_terminal=lambda screen: _draw_screen(rows, screen, height=height),
    )


def _read_rows(folder: str) -> tuple[list[Row], tuple[Diagnostic, ...]]:
    """Return all jobs in the order in which they are shown, each with the progress of its agent, and a problem for
    each job that can't be read.
    """
    from logist.cli.show.agent_progress import build_progress_data
    from logist.store.progress_text import format_progress

    listing = job_rows.read_listing(folder, JobFilter())
    rows, waits = list(listing.iter_rows()), dict(listing.waits)
    now = time.time()
    for row in rows:
        working = row["status"] in RUNNING.values()
        record = read_last_record(Path(folder, row["id"], "inflight")) if working else None
        row["progress"] = build_progress_data(record, now)
        row["activity"] = format_progress(record, record.count_elapsed(now), short=True) if record else None
        if row["activity"] is None:
            row["activity"] = waits.get(row["id"]) or (
                row["reason"] if glance.needs_person(row["status"]) else ""
            )
    return sorted(rows, key=_rank_status), listing.problems


def _rank_status(row: Row) -> int:
    """Return the position of the group of a row: working, waiting for a person, waiting for an agent, ended."""
    status = row["status"]
    if status in RUNNING.values():
        return 0
    if glance.needs_person(status) or status == glance.UNKNOWN:
        return 1
    return 3 if status in ("SUCCESS", "FAILED", "CANCELED") else 2


def _count_rows(rows: list[Row]) -> dict[str, int]:
    groups = [_rank_status(row) for row in rows]
    names = ("working", "waiting_for_person", "waiting_for_agent", "ended")
    return {name: groups.count(number) for number, name in enumerate(names)}


def _summarize(rows: list[Row]) -> Line:
    counts = _count_rows(rows)
    unmerged = sum(row["merged"] is False for row in rows)
    return (
        StyledText(f"{counts['working']} working", "blue bold" if counts["working"] else ""),
        ", ",
        StyledText(
            f"{counts['waiting_for_person']} waiting for you",
            "yellow bold" if counts["waiting_for_person"] else "",
        ),
        f", {counts['waiting_for_agent']} for an agent, {counts['ended']} ended",
        f" ({unmerged} not merged)" if unmerged else "",
    )


def _build_cells(row: Row) -> tuple[StyledText | str, ...]:
    *cells, _title = glance.format_wide_job_cells(row, time.time())
    return (*cells, row["activity"])


def _draw_screen(rows: list[Row], screen: Screen, *, height: int) -> list[Line]:
    """Return the summary and as many jobs as fit; only the summary for a height of 0."""
    if not height:
        return [render.cut_line(_summarize(rows), screen)]
    shown: list[Row] = []
    room = height - FIXED_LINES
    for row in rows:
        room -= 2 if row["activity"] else 1
        if room < 0:
            break
        shown.append(row)
    cells = [glance.format_wide_job_cells(row, time.time()) for row in shown]
    details = [StyledText(row["activity"], "cyan" if row["progress"] else "dim") for row in shown]
    lines: list[Line] = [render.cut_line(_summarize(rows), screen), ""]
    if shown:
        lines += render.draw_table(TextTable(HEAD, cells, LEFT_OUT, details), screen)
    if len(shown) < len(rows):
        lines.append(render.cut_line((StyledText(f"and {len(rows) - len(shown)} more", "dim"),), screen))
    return lines
