"""Reads the rows of all jobs for listings. Has few imports, because `job list` must start quickly."""

from __future__ import annotations

from typing import Any

from logist.cli.show import glance
from logist.cli.show.output import Diagnostic, make_warnings
from logist.errors import Damaged, LogistError
from logist.store.listing import REBUILD, Glance, read_glances

DEEPEST = 10
"""Levels of parent jobs to follow. Logist creates at most 5; files from another tool may have more, or a loop."""

Row = dict[str, Any]


def read_job_rows(folder: str) -> tuple[list[Row], tuple[Diagnostic, ...], dict[str, str]]:
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


def note_no_jobs(rows: list[Row], folder: str) -> tuple[Diagnostic, ...]:
    """Return the note that there are no jobs; empty if there are some."""
    if rows:
        return ()
    return (Diagnostic("info", "no_jobs", "no jobs found", folder, 'logist job create --prompt "..."'),)


def sort_rows(rows: list[Row]) -> list[Row]:
    """Return the rows by rank, then by age, each child below its parent."""
    by_id = {row["id"]: row for row in rows}
    return sorted(rows, key=lambda row: _build_sort_key(row, by_id))


def _build_sort_key(row: Row, by_id: dict[str, Row]) -> tuple[tuple[int, str, str], ...]:
    """Return the sort key that puts a job below its parent, if that is listed; `by_id` has the listed jobs."""
    above: Row | None = row
    places: list[tuple[int, str, str]] = []
    while above is not None and len(places) <= DEEPEST:
        places.append((above["rank"], above["created_at"], above["id"]))
        above = by_id.get(above["parent"] or "")
    return tuple(reversed(places))
