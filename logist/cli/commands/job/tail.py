"""`logist job tail`."""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import choose_job_id, job_and_dir_options, json_flag
from logist.cli.show import glance, render
from logist.cli.show.output import Command, Diagnostic, Line, Output, StyledText
from logist.cli.stops import get_stop_code, stop_on_signals
from logist.config.environment import Environment
from logist.core.machine.job_row import RUNNING, build_job_row
from logist.jobs.base.predecessors import find_unmet
from logist.store import JobDir

if TYPE_CHECKING:
    from logist.store.progress import ActivityRecord

LOOK_SECONDS = 0.3
"""Seconds between two looks."""
FREE_LOOKS = 4
"""Looks at a free job before it counts as idle: a run frees it for a moment between two steps."""
MOST_RECORDS = 1000
"""Records that --json prints."""


@click.command("tail")
@stop_on_signals
@job_and_dir_options
@json_flag
@click.pass_obj
def tail(
    environment: Environment,
    job_argument: str | None,
    job_option: str | None,
    jobs_dir: str | None,
    as_json: bool,
) -> Output:
    """Show what the agent of a job does while it works: turns, tools, tokens and cost so far.

    Follows the job until no command and no agent works on it. Changes nothing, and Ctrl-C stops only this command.
    """
    chosen = choose_job_id(environment, job_argument, job_option)
    job = JobDir.open(Path(environment.jobs_dir_name(jobs_dir, get_current_directory())), chosen)
    holder = job.find_lock_holder()
    is_busy = holder is not None
    if is_busy and not as_json:
        render.print_message(f"watching {holder}; press Ctrl-C to stop watching", environment)
    records = _follow(job, environment, quiet=as_json) if is_busy else []
    if get_stop_code():
        note = "stopped watching; the agent continues its work"
        return _build_output(job, records, (Diagnostic("info", "note", note),), get_stop_code())
    return _build_output(job, records, () if is_busy else (_describe_idle(job),))


def _describe_idle(job: JobDir) -> Diagnostic:
    if (away := glance.read_errand(os.fspath(job.path))) is not None:
        return Diagnostic("info", "note", glance.describe_errand(away))
    return Diagnostic("info", "note", "no agent is working")


def _follow(job: JobDir, environment: Environment, *, quiet: bool) -> list[ActivityRecord]:
    """Print each event until the job is idle, or until a stop; return the records."""
    from logist.cli.show.agent_progress import choose_live_lines
    from logist.store.progress import ProgressReader
    from logist.store.progress_text import EventFilter, format_progress

    reader, events = ProgressReader(job.inflight), EventFilter()
    live = None if quiet else choose_live_lines(environment)
    kept: deque[ActivityRecord] = deque(maxlen=MOST_RECORDS)
    free = 0
    while free < FREE_LOOKS and not get_stop_code():
        records = reader.read_new()
        kept += records
        if not quiet:
            printed = [each for each in records if events.is_event(job.id, each)]
            render.print_lines((format_progress(each, each.seconds) for each in printed), environment)
        if live is not None:
            live.update(job.id, records)
        free = 0 if job.find_lock_holder() is not None else free + 1
        time.sleep(LOOK_SECONDS)
    if live is not None:
        live.remove(job.id)
    return list(kept)


def _build_output(
    job: JobDir, records: list[ActivityRecord], notes: tuple[Diagnostic, ...], code: int = 0
) -> Output:
    from logist.cli.show.agent_progress import build_progress_data

    row = _read_row(job)
    data: dict[str, Any] = {
        "job": job.id,
        "status": row["status"],
        "records": [build_progress_data(each, each.at) for each in records],
        "next_command": row["next_command"],
    }
    lines: list[Line] = [(StyledText(job.id, "bold"), " is ", glance.status_span(row["status"]))]
    return Output(data, [*lines, (Command(f"next: {row['next_command']}", "dim"),)], notes, code)


def _read_row(job: JobDir) -> dict[str, Any]:
    """Return the job as in a listing."""
    from logist.cli.rebuilt_state import rebuild_state
    from logist.store.settled_state import load_settled_state

    state = load_settled_state(os.fspath(job.path))
    if state is None:
        state, _ = rebuild_state(os.fspath(job.path.parent), job.id)
    is_running = state["status"] in RUNNING and job.has_running_agent()
    unmet = find_unmet(os.fspath(job.path.parent), state)
    row = build_job_row(job.id, state, running=is_running, unmet=unmet)
    if (away := glance.read_errand(os.fspath(job.path))) is not None and job.find_lock_holder() is None:
        row["next_command"] = glance.advise_collecting(away, job.id)
    return row
