"""`logist job du`."""

from __future__ import annotations

import os
from typing import Any

import click

from logist.cli.current_job import get_current_directory
from logist.cli.options import jobs_dir_option, json_option
from logist.cli.shell_values import complete_job
from logist.cli.show.output import Diagnostic, Output, StyledText, TextTable, make_warnings
from logist.config.environment import Environment
from logist.core.text.counts import format_bytes, format_count
from logist.core.text.ids import JOB_ID_PATTERN, is_job_id
from logist.errors import UsageError
from logist.store.disk_usage import DiskUsage, measure_folder, measure_job
from logist.store.listing import build_not_found_error, find_job_id, is_unpublished, list_job_ids

HEAD = ("TOTAL", "WORKSPACE", "GIT", "HISTORY", "LOGS", "JOB")
SETUP, PACKS, WORDS = ".setup", ".packs", ".words"
"""What setups have made, for all jobs; objects of repositories, for the next ones; and the word index."""


@click.command("du")
@click.argument("jobs", metavar="[JOB]...", nargs=-1, shell_complete=complete_job)
@jobs_dir_option
@json_option
@click.pass_obj
def du(environment: Environment, jobs: tuple[str, ...], jobs_dir: str | None) -> Output:
    """Show how much disk space jobs take, the largest first.

    Without JOB, all jobs, and what is kept for later jobs (.setup, .packs and .words). GIT are the checkpoints; what jobs share counts for the first of them.
    In a pipe, the columns are
    separated by tabs: total, workspace, checkpoints, history, logs, job. Attachments and other files are in the total; --json has all in bytes.
    To free space: `logist gc`, `logist job delete`.
    """
    folder = environment.jobs_dir_name(jobs_dir, get_current_directory())
    wanted = dict.fromkeys(find_job_id(folder, each) for each in jobs)
    ids = [_require_job(folder, each) for each in wanted] if jobs else list_job_ids(folder)
    seen: set[tuple[int, int]] = set()
    measured = [measure_job(folder, each, seen) for each in ids]
    measured.sort(key=lambda each: (-each.total, each.job))
    shared = {
        name: 0 if jobs else measure_folder(os.path.join(folder, name), seen)
        for name in (SETUP, PACKS, WORDS)
    }
    total = sum(each.total for each in measured) + sum(shared.values())
    warnings = make_warnings(
        f"{each.job}: can't read {_count_directories(each.unread)}, so it takes more than this"
        for each in measured
        if each.unread
    )
    data = {
        "jobs": [_build_row(each) for each in measured],
        "shared": shared[SETUP],
        "packs": shared[PACKS],
        "words": shared[WORDS],
        "total": total,
    }
    if not measured and not any(shared.values()):
        note = Diagnostic("info", "no_jobs", "no jobs found", folder, 'logist job create --prompt "..."')
        return Output(data, diagnostics=(note,))
    rows = [_format_row(each) for each in measured]
    rows += [
        (format_bytes(size), "", "", "", "", StyledText(f"{name}, shared by jobs", "dim"))
        for name, size in shared.items()
        if size
    ]
    if len(rows) > 1:
        rows.append((format_bytes(total), "", "", "", "", StyledText("in all", "dim")))
    return Output(data, diagnostics=warnings, table=TextTable(HEAD, rows))


def _count_directories(number: int) -> str:
    return "a directory" if number == 1 else format_count(number, "directory")


def _require_job(folder: str, job_id: str) -> str:
    if not is_job_id(job_id):
        fix = f"job ids match {JOB_ID_PATTERN}; to see all jobs, run: logist job list"
        raise UsageError(f"invalid job id {job_id!r}", where="job id", fix=fix)
    path = os.path.join(folder, job_id)
    if os.path.islink(path) or not os.path.isdir(path) or is_unpublished(folder, job_id):
        raise build_not_found_error(folder, job_id)
    return job_id


def _build_row(usage: DiskUsage) -> dict[str, Any]:
    return {**usage._asdict(), "total": usage.total}


def _format_row(usage: DiskUsage) -> tuple[StyledText | str, ...]:
    parts = (usage.total, usage.workspace, usage.checkpoints, usage.history, usage.logs)
    return (*map(format_bytes, parts), StyledText(usage.job, "bold"))
