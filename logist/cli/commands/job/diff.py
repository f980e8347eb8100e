"""`logist job diff`."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click

from logist.cli.options import choose_job_id, expand_job_id, job_option, jobs_dir_option, json_flag
from logist.cli.shell_values import complete_file, complete_job
from logist.cli.show import render
from logist.cli.show.output import Diagnostic, Line, Output, StyledText, make_notes
from logist.config.environment import Environment
from logist.core.text.counts import format_count
from logist.errors import UsageError

if TYPE_CHECKING:
    from logist.core.model import State
    from logist.jobs.base.plain_project import JobFiles
    from logist.jobs.steward.job_diff import JobComparison, Scope
    from logist.store import JobDir
    from logist.workspace.comparison import FileDifference

MOST_PATCH = 1_000_000
"""Bytes of the patch in the JSON."""
_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})?")
_MARKS = {"created": ("A", "green"), "deleted": ("D", "red"), "renamed": ("R", "cyan"), "mode": ("M", "cyan")}


@click.command("diff")
@click.argument("names", metavar="[JOB] [A..B | OTHER]", nargs=-1, shell_complete=complete_job)
@click.option(
    "--since",
    type=click.Choice(["start", "review", "approval"]),
    default="start",
    help="Compare with where the job began (default), or with its last review or approval.",
)
@click.option("--stat", is_flag=True, help="List the files and how many lines differ, without the patch.")
@click.option("--name-only", is_flag=True, help="List only the paths of the files, one on each line.")
@click.option(
    "--path",
    "paths",
    metavar="PATH",
    multiple=True,
    help="Only this file or directory; repeat for more.",
    shell_complete=complete_file,
)
@job_option
@jobs_dir_option
@json_flag
@click.pass_obj
def diff(
    environment: Environment,
    names: tuple[str, ...],
    since: str,
    stat: bool,
    name_only: bool,
    paths: tuple[str, ...],
    job_option: str | None,
    jobs_dir: str | None,
    as_json: bool,
) -> Output:
    """Show what has changed in the workspace of a job.

    Compares the files on disk with where the job began, with --since review or --since approval with its last review
    or approval. A..B compares the workspace after interaction A with that after B (A.. with the files on disk, 0 is
    where the job began). OTHER compares with the workspace of another job, such as a fork.

    In a pipe, prints a patch that `git apply` accepts. Files that no checkpoint holds, such as caches, are left out and
    named.

    --json and the terminal also give the review hash, which names exactly this work: see `logist job approve --seen`.
    """
    from logist.jobs.steward.job_diff import compare_job

    if stat and name_only:
        raise UsageError("can't use --stat and --name-only together", fix="use only one of them")
    job_id, scope = _parse_scope(environment, names, job_option, since, paths)
    with compare_job(*_open_job(environment, jobs_dir, job_id), scope) as compared:
        files = compared.comparison.list_files()
        diagnostics = (*make_notes(compared.notes), *_note_left_out(compared))
        if as_json:
            return Output(_build_data(job_id, compared, files), diagnostics=diagnostics)
        if name_only:
            return Output(None, [each.path for each in files], diagnostics)
        is_terminal = sys.stdout.isatty()
        if is_terminal and not scope.paths:
            diagnostics += _advise_approval(job_id, compared)
        if stat:
            return Output(None, list(format_summary(compared, files)), diagnostics)
        if not is_terminal:
            with compared.comparison.open_patch() as stream:
                render.copy_bytes(stream)
            return Output(None, diagnostics=diagnostics)
        from logist.cli.show.patch_view import show_patch

        with compared.comparison.open_patch(binary=False) as stream:
            show_patch(format_summary(compared, files), stream, environment)
        return Output(None, diagnostics=diagnostics)


def _open_job(environment: Environment, jobs_dir: str | None, job_id: str) -> tuple[JobFiles, JobDir, State]:
    """Return the project, the job and its state; without the models if the settings and the state don't need them."""
    from logist.cli.context import open_plain_project, open_project
    from logist.jobs.base.plain_reader import read_settled_state

    plain_project = open_plain_project(environment, jobs_dir)
    if plain_project is not None:
        job = plain_project.open_job(job_id)
        state = read_settled_state(job)
        if state is not None:
            return plain_project, job, state
    from logist.jobs.base.session import load_session

    project = open_project(environment, jobs_dir)
    job = project.open_job(job_id)
    return project, job, load_session(project, job).state


def _parse_scope(
    environment: Environment, names: tuple[str, ...], option: str | None, since: str, paths: tuple[str, ...]
) -> tuple[str, Scope]:
    """Return the job, and what to compare."""
    from logist.jobs.steward.job_diff import Scope

    ranges = [found for found in map(_RANGE.fullmatch, names) if found]
    jobs = [name for name in names if not _RANGE.fullmatch(name)]
    if option and len(jobs) == 1 and jobs[0] != option:
        jobs.insert(0, option)
    if len(jobs) > 2 or len(ranges) > 1:
        raise UsageError(
            "too many arguments", where=" ".join(names), fix="name at most two jobs and one A..B"
        )
    other = expand_job_id(environment, jobs[1]) if len(jobs) == 2 else None
    chosen = [
        name for name, is_set in (("A..B", ranges), ("OTHER", other), ("--since", since != "start")) if is_set
    ]
    if len(chosen) > 1:
        raise UsageError(f"can't use {' and '.join(chosen)} together", fix="use only one of them")
    job_id = choose_job_id(environment, jobs[0] if jobs else None, option)
    between = None
    if ranges:
        first, last = ranges[0].groups()
        between = (int(first), int(last) if last else None)
    return job_id, Scope(since, between, other, paths)  # type: ignore[arg-type]  # click has checked it


def _note_left_out(compared: JobComparison) -> tuple[Diagnostic, ...]:
    names = ", ".join(compared.comparison.left_out)
    return make_notes([f"left out, because no checkpoint holds them: {names}"]) if names else ()


def _advise_approval(job_id: str, compared: JobComparison) -> tuple[Diagnostic, ...]:
    review_hash = compared.compute_review_hash() if compared.awaits_approval else None
    if review_hash is None:
        return ()
    command = f"logist job approve --job {job_id} --seen {review_hash}"
    return make_notes([f"to approve exactly this work: {command}"])


def format_summary(compared: JobComparison, files: list[FileDifference]) -> list[Line]:
    """Return the sides, the files and the sums."""
    head: Line = (StyledText(f"{compared.before} -> {compared.after}", "bold"),)
    if not files:
        return [head, "no changes"]
    added, deleted = (
        sum(count or 0 for count in column)
        for column in zip(*((f.added, f.deleted) for f in files), strict=True)
    )
    sums: Line = (
        f"{format_count(len(files), 'file')}, ",
        StyledText(f"+{added}", "green"),
        " ",
        StyledText(f"-{deleted}", "red"),
    )
    return [head, *map(_format_file, files), sums]


def _format_file(each: FileDifference) -> Line:
    mark, style = _MARKS.get(each.kind, ("M", "yellow"))
    name = f"{each.old_path} -> {each.path}" if each.old_path else each.path
    notes = [f"mode {each.mode_before} -> {each.mode_after}"] if each.has_new_mode() else []
    if each.added is None:
        counts: tuple[StyledText | str, ...] = (f"{'binary':>12}",)
    else:
        text = f"+{each.added} -{each.deleted}"
        counts = (
            " " * (12 - len(text)),
            StyledText(f"+{each.added}", "green"),
            " ",
            StyledText(f"-{each.deleted}", "red"),
        )
    return ("  ", StyledText(mark, style), *counts, f"  {name}", *(f" ({note})" for note in notes))


def _build_data(job_id: str, compared: JobComparison, files: list[FileDifference]) -> dict[str, Any]:
    patch, is_whole = compared.comparison.read_patch(MOST_PATCH)
    return {
        "job": job_id,
        "before": compared.before,
        "after": compared.after,
        "files": [each._asdict() for each in files],
        "left_out": list(compared.comparison.left_out),
        "patch": patch.decode("utf-8", "backslashreplace"),
        "whole": is_whole,
        "review_hash": compared.compute_review_hash(),
    }
