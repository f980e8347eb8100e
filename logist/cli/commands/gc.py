"""`logist gc`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from logist.cli.current_job import SELECTED_JOB_FILE, read_selected_job
from logist.cli.options import jobs_dir_option, json_option
from logist.cli.show.output import Diagnostic, Line, Output, StyledText, TextTable, make_notes
from logist.config.environment import Environment
from logist.core.text.counts import format_bytes, format_count
from logist.errors import Refused, UsageError
from logist.timestamps import format_local, parse_duration

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.steward.retention import GarbageCollection, RemovedFiles, SparedJob

HEAD = ("FREES", "ENDED", "JOB")
NAMED = 5
"""Maximum number of jobs that the question names."""
COUNTED = {
    "not_ended": "not ended yet",
    "too_new": "ended later than that",
    "cleaned": "with only the history left",
}
"""Reasons for which jobs are only counted, except in a dry run."""


@click.command("gc")
@click.option(
    "--older-than",
    "age",
    required=True,
    metavar="DURATION",
    help="Only jobs that ended longer ago: 30d, 2w, 12h.",
)
@click.option(
    "--keep-history",
    is_flag=True,
    help="Keep the jobs: remove only their workspaces, checkpoints and logs.",
)
@click.option("--dry-run", is_flag=True, help="Only list what would be removed, what is kept, and why.")
@click.option("--yes", is_flag=True, help="Don't ask, also at a terminal.")
@jobs_dir_option
@json_option
@click.pass_obj
def gc(
    environment: Environment, age: str, keep_history: bool, dry_run: bool, yes: bool, jobs_dir: str | None
) -> Output:
    """Remove jobs that ended long ago, and say how much space that frees.

    Without --keep-history, jobs are deleted as by `logist job delete`. With it, the state, the history and the
    attachments stay, so that `job status`, `show`, `history`, `verify`, `replay`, `export` and `stats` work; what needs the
    files is refused (`restep`, `rerun`, `fork`, `merge`, `diff`, `open`, `pack`).

    Jobs with changes that are not merged are kept, and those that have not ended, that a command works on, or that
    can't be read. A parent and its child jobs are removed together or not at all. Forks don't need the job they were made from.
    What is kept for later jobs is removed once none needs it: `.packs`, `.setup` and `.words`. Records of `logist run` that
    ended before that time are removed too.

    Asks first at a terminal; without a terminal, as in cron, it doesn't. If it is killed, the next `gc` finishes. The exit
    code is 0 if jobs were kept for these reasons, except for those that can't be read (10).
    """
    from logist.cli.context import open_project
    from logist.jobs.steward.retention import collect_garbage

    seconds = parse_duration(age)
    if seconds is None:
        raise UsageError(f"not a duration: {age!r}", where="--older-than", fix="for example: 30d, 2w, 12h")
    older_than = timedelta(seconds=seconds)
    project = open_project(environment, jobs_dir)
    if not (dry_run or yes) and sys.stdin.isatty() and sys.stderr.isatty():
        found = collect_garbage(project, older_than, keep_history=keep_history, dry_run=True)
        if not found.removed:
            return _build_output(found, keep_history=keep_history, dry_run=False)
        _confirm(environment, found, keep_history=keep_history)
    found = collect_garbage(project, older_than, keep_history=keep_history, dry_run=dry_run)
    if not (
        found.removed or found.kept or found.freed
    ):  # likely the wrong directory, as in cron without a cd
        from logist.cli.show.job_rows import note_no_jobs

        output = _build_output(found, keep_history=keep_history, dry_run=dry_run)
        return output._replace(diagnostics=note_no_jobs(str(project.jobs_dir)))
    if not (dry_run or keep_history):
        _unselect(project, found)
    return _build_output(found, keep_history=keep_history, dry_run=dry_run)


def _confirm(environment: Environment, found: GarbageCollection, *, keep_history: bool) -> None:
    from logist.cli.show import render

    names = [each.job_id for each in found.removed]
    named = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
    jobs, size = format_count(len(names), "job"), format_bytes(found.freed)
    what = (
        f"remove workspace, checkpoints and logs of {jobs}"
        if keep_history
        else f"delete {jobs} with all files"
    )
    if not render.ask_to_confirm(f"{what} ({size}): {named}? This can't be undone.", environment):
        fix = "to see what would be removed, add --dry-run; to confirm, --yes"
        raise Refused("nothing was removed: it was not confirmed", fix=fix)


def _unselect(project: ProjectContext, found: GarbageCollection) -> None:
    if read_selected_job(str(project.home)) in {each.job_id for each in found.removed}:
        with suppress(OSError):
            (project.home / SELECTED_JOB_FILE).unlink()


def _build_output(found: GarbageCollection, *, keep_history: bool, dry_run: bool) -> Output:
    from logist.jobs.job_queue import choose_exit_code

    data = {
        "dry_run": dry_run,
        "keep_history": keep_history,
        "removed": [_build_removed_row(each) for each in found.removed],
        "kept": [_build_kept_row(each) for each in found.kept],
        "freed": {
            "jobs": sum(each.freed for each in found.removed),
            "packs": found.freed_packs,
            "setup": found.freed_setup,
            "words": found.freed_words,
            "runs": found.freed_runs,
            "total": found.freed,
        },
    }
    notes = [note for each in found.removed for note in each.notes]
    diagnostics = (*_list_problems(found, dry_run=dry_run), *make_notes(notes))
    code = choose_exit_code([each.exit_code for each in found.kept])
    rows = list(_build_rows(found))
    lines = [
        _format_total(found, keep_history=keep_history, dry_run=dry_run),
        *_count_kept(found, dry_run=dry_run),
    ]
    return Output(data, lines, diagnostics, code, table=TextTable(HEAD, rows) if rows else None)


def _build_removed_row(removed: RemovedFiles) -> dict[str, Any]:
    return {
        "job": removed.job_id,
        "ended_at": removed.ended_at or None,
        "freed": removed.freed,
        "branch": removed.branch,
    }


def _build_kept_row(kept: SparedJob) -> dict[str, Any]:
    return {
        "job": kept.job_id,
        "reason": kept.reason.value,
        "message": kept.why,
        "fix": kept.fix,
        "exit_code": kept.exit_code,
    }


def _build_rows(found: GarbageCollection) -> Iterator[tuple[StyledText | str, ...]]:
    for each in found.removed:
        yield format_bytes(each.freed), format_local(each.ended_at)[:10], StyledText(each.job_id, "bold")
    shared = ((".packs", found.freed_packs), (".setup", found.freed_setup), (".words", found.freed_words))
    for name, size in shared:
        if size:
            yield format_bytes(size), "", StyledText(f"{name}, shared by jobs", "dim")
    if found.freed_runs:
        yield format_bytes(found.freed_runs), "", StyledText("records of runs", "dim")


def _format_total(found: GarbageCollection, *, keep_history: bool, dry_run: bool) -> Line:
    if not found.removed and not found.freed:
        return "nothing to remove"
    jobs = format_count(len(found.removed), "job")
    what = f"the files of {jobs}" if keep_history else jobs
    verb = "would remove" if dry_run else "removed"
    return f"{verb} {what}: {format_bytes(found.freed)}"


def _count_kept(found: GarbageCollection, *, dry_run: bool) -> Iterator[Line]:
    """Yield one line with the jobs that are only counted; in a dry run, one for each job."""
    counts = Counter(each.reason.value for each in found.kept)
    if dry_run:
        for each in found.kept:
            if each.reason.value in COUNTED:
                yield f"kept {each.job_id}: {each.why}"
        return
    counted = ", ".join(f"{counts[reason]:,} {text}" for reason, text in COUNTED.items() if counts[reason])
    if counted:
        yield f"kept jobs: {counted}"


def _list_problems(found: GarbageCollection, *, dry_run: bool) -> Iterator[Diagnostic]:
    """Yield why jobs are kept that a person may want to look at."""
    for each in found.kept:
        if each.reason.value in COUNTED:
            continue
        severity = "error" if each.exit_code else "warning"
        yield Diagnostic(severity, f"kept_{each.reason.value}", each.why, f"kept {each.job_id}", each.fix)
