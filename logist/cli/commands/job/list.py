"""`logist job list`."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import jobs_dir_option, listing_options
from logist.cli.shell_values import complete_assignee, complete_tag
from logist.cli.show import glance, render
from logist.cli.show.output import (
    Diagnostic,
    Line,
    Output,
    Screen,
    StyledText,
    TextTable,
    make_warnings,
)
from logist.config.environment import Environment
from logist.errors import Damaged, LogistError
from logist.store.listing import REBUILD, Glance, read_glances

HEAD = ("ID", "STATUS", "ROLE", "COST", "TITLE")
WIDE_HEAD = ("ID", "STATUS", "AGE", "ROLE", "COST", "TITLE")
"""On a terminal."""
LEFT_OUT = ("ROLE", "COST", "AGE")
"""Columns that a narrow terminal leaves out, in this order."""

DEEPEST = 10
"""Levels of parent jobs to follow. Logist creates at most 5; files from another tool may have more, or a loop."""

Row = dict[str, Any]


@click.command("list")
@click.option("--stuck", is_flag=True, help="List only STUCK jobs.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(glance.STATUSES, case_sensitive=False),
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
) -> Output:
    """List jobs by rank, then by age.

    Child jobs are listed below their parent. A terminal shows also the age, which is the time since the last change,
    and below a job that waits for a person the reason; columns that don't fit are left out. In a pipe, the columns
    are separated by tabs: id, status, role, cost, title. For a job that waits at a manual step, the role is the
    assignee of the step, if it has one.
    RUNNING and REVIEWING mean PENDING and REVIEW_REQUIRED while an agent is working; ? means that the state
    can't be read.
    """
    folder = environment.jobs_dir_name(jobs_dir, get_current_directory())
    rows, problems, waits = _read_rows(folder)
    wanted = {*statuses, "STUCK"} if stuck else set(statuses)
    if wanted:
        rows = [row for row in rows if row["status"] in wanted]
    if tag is not None:
        rows = [row for row in rows if tag in row["tags"]]
    if assignee is not None:
        rows = [row for row in rows if row["assignee"] == assignee]
    by_id = {row["id"]: row for row in rows}
    rows.sort(key=lambda row: _build_sort_key(row, by_id))
    table = TextTable(HEAD, map(glance.format_job_cells, rows)) if rows else None
    notes = tuple(
        Diagnostic("info", "waiting", waits[row["id"]], row["id"], None) for row in rows if row["id"] in waits
    )
    return Output(
        rows,
        diagnostics=(*problems, *notes) or _note_no_jobs(rows, folder),
        table=table,
        on_terminal=partial(_draw_rows, rows) if rows else None,
    )


def _draw_rows(rows: list[Row], screen: Screen) -> list[Line]:
    """Return the table for a terminal."""
    now = time.time()
    cells = [glance.format_wide_job_cells(row, now) for row in rows]
    reasons = [StyledText(_explain_wait(row), "dim") for row in rows]
    return render.draw_table(TextTable(WIDE_HEAD, cells, LEFT_OUT, reasons), screen)


def _explain_wait(row: Row) -> str:
    """Return the reason why a job waits for a person; empty for other jobs."""
    return row["reason"] if glance.needs_person(row["status"]) else ""


def _build_sort_key(row: Row, by_id: dict[str, Row]) -> tuple[tuple[int, str, str], ...]:
    """Return the sort key that puts a job below its parent, if that is listed; `by_id` has the listed jobs."""
    above: Row | None = row
    places: list[tuple[int, str, str]] = []
    while above is not None and len(places) <= DEEPEST:
        places.append((above["rank"], above["created_at"], above["id"]))
        above = by_id.get(above["parent"] or "")
    return tuple(reversed(places))


def _note_no_jobs(rows: list[Row], folder: str) -> tuple[Diagnostic, ...]:
    if rows:
        return ()
    return (Diagnostic("info", "no_jobs", "no jobs found", folder, 'logist job create --prompt "..."'),)


def _read_rows(folder: str) -> tuple[list[Row], tuple[Diagnostic, ...], dict[str, str]]:
    """Return the row of every job, a problem for each job that can't be read, and what jobs wait for their provider."""
    rows: list[Row] = []
    waits: dict[str, str] = {}
    problems: list[Diagnostic] = []
    for seen in read_glances(folder):
        problem = seen.problem
        if seen.state is not None:
            try:
                is_running = seen.asked and _is_held(folder, seen)
                wait = glance.read_provider_wait(f"{folder}/{seen.id}", seen.state)
                row = glance.build_job_row(seen.id, seen.state, running=is_running, wait=wait)
                rows.append(_read_row_from_history(folder, seen, row, problems) if seen.behind else row)
                if wait and not is_running and not seen.behind:
                    waits[seen.id] = f"waits for {wait.describe()}"
                continue
            except (KeyError, TypeError):
                problem = "invalid state.json"
            except Damaged as error:
                problem = error.message
        rows.append(glance.build_unknown_row(seen.id))
        problems.append(_warn_unreadable(folder, seen.id, problem or ""))
    return rows, tuple(problems), waits


def _read_row_from_history(folder: str, seen: Glance, row: Row, problems: list[Diagnostic]) -> Row:
    """Return the row according to the history, which is newer than state.json; `row` itself if the history can't
    be read.
    """
    from logist.cli.rebuilt_state import rebuild_state

    try:
        state, notes = rebuild_state(folder, seen.id)
    except LogistError as error:
        problems.append(_warn_unreadable(folder, seen.id, error.message, error.fix))
        return row
    problems += [
        each._replace(target=f"{folder}/{seen.id}") for each in make_warnings(notes, "state_rebuilt")
    ]
    asked = seen.asked and state["status"] in glance.RUNNING
    return glance.build_job_row(seen.id, state, running=asked and _is_held(folder, seen))


def _warn_unreadable(folder: str, job_id: str, problem: str, fix: str | None = REBUILD) -> Diagnostic:
    return Diagnostic("warning", "unreadable", problem, f"{folder}/{job_id}", fix)


def _is_held(folder: str, seen: Glance) -> bool:
    """Return whether a command or courier is working on a job that has an exchange in flight."""
    from pathlib import Path

    from logist.store import JobDir

    return JobDir(Path(folder, seen.id), seen.id).find_lock_holder() is not None
