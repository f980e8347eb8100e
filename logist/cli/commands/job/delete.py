"""`logist job delete`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from logist.cli.current_job import SELECTED_JOB_FILE, read_selected_job
from logist.cli.options import expand_job_id, job_option, jobs_dir_option, json_option
from logist.cli.shell_values import complete_job
from logist.cli.show.output import Diagnostic, Line, Output, StyledText, make_notes
from logist.config.environment import Environment
from logist.errors import LogistError, Refused, UsageError

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.steward.job_deletion import DeletedJob, PrunedBranch

NAMED = 5
"""How many jobs a question names."""


@click.command("delete")
@click.argument("jobs", metavar="[JOB]...", nargs=-1, shell_complete=complete_job)
@click.option("--yes", is_flag=True, help="Delete without asking.")
@click.option(
    "--force", is_flag=True, help="Also delete changes that are not merged, and jobs that can't be read."
)
@click.option("--prune", is_flag=True, help="Delete the branches logist/JOB of all jobs that are merged.")
@job_option
@jobs_dir_option
@json_option
@click.pass_obj
def delete(
    environment: Environment,
    jobs: tuple[str, ...],
    yes: bool,
    force: bool,
    prune: bool,
    job_option: str | None,
    jobs_dir: str | None,
) -> Output:
    """Delete jobs that have ended, with their child jobs, and their branches logist/JOB.

    Refused for a job with changes that are not merged, except with --force, and for a child job that its parent still
    needs. A branch is deleted only if a merge of Logist has made it, if it is not checked out, and if it is merged; with
    --force also if it is not merged. With several jobs, the exit code is chosen as by `logist run`.

    --yes needs complete ids: a command that is repeated must not delete another job.
    """
    from logist.cli.context import open_project
    from logist.jobs.steward.job_deletion import list_with_children, prune_branches, require_deletable

    if job_option:
        jobs = (*jobs, job_option)
    if not jobs and not prune:
        raise UsageError("missing job", fix="name the jobs to delete, or use --prune")
    jobs = tuple(dict.fromkeys(_choose_job(environment, name, is_asked=not yes) for name in jobs))
    project = open_project(environment, jobs_dir)
    wanted = list_with_children(project, jobs)
    if len(wanted) == 1:
        require_deletable(project, wanted[0], force=force)  # rather than ask, and then refuse
    if not yes:
        _confirm(environment, wanted, jobs, force=force, prune=prune)
    deleted, errors = _delete_jobs(project, wanted, force=force)
    if len(wanted) == 1 and errors:
        raise errors[wanted[0]]
    pruned = prune_branches(project, force=force) if prune else []
    return _build_output(wanted, deleted, errors, pruned)


def _choose_job(environment: Environment, name: str, *, is_asked: bool) -> str:
    """Return the id of a job to delete.

    Raises UsageError for the beginning of an id if no person is asked: once `fix` is deleted, the same command would name
    `fix-2`, and delete that too.
    """
    job_id = expand_job_id(environment, name)
    if not is_asked and job_id != name:
        fix = f"if you mean {job_id}, use its complete id, or leave out --yes"
        raise UsageError(f"job {name!r} not found, and --yes needs complete ids", where="--yes", fix=fix)
    return job_id


def _confirm(
    environment: Environment, wanted: Sequence[str], jobs: Sequence[str], *, force: bool, prune: bool
) -> None:
    """Ask the person at the terminal. Raises Refused without a yes."""
    from logist.cli.show import render

    named = ", ".join(wanted[:NAMED]) + (f" and {len(wanted) - NAMED} more" if len(wanted) > NAMED else "")
    what = [f"delete {named} with all files"] if wanted else []
    what += [f"delete the branches of {'all' if force else 'merged'} jobs"] if prune else []
    if not render.ask_to_confirm(f"{' and '.join(what)}? This can't be undone.", environment):
        raise Refused("nothing was deleted: it was not confirmed", fix="to confirm, add --yes to the command")


def _delete_jobs(
    project: ProjectContext, wanted: Sequence[str], *, force: bool
) -> tuple[dict[str, DeletedJob], dict[str, LogistError]]:
    """Delete one job after the other. One that can't be deleted doesn't stop the others, but keeps those above and below."""
    from logist.jobs.steward.job_deletion import delete_job, require_deletable

    deleted: dict[str, DeletedJob] = {}
    errors: dict[str, LogistError] = {}
    for job_id in wanted:  # child jobs are deleted first, but not if their parent is kept
        if any(each.startswith(f"{job_id}--") for each in wanted):
            try:
                require_deletable(project, job_id, force=force)
            except LogistError as error:
                errors[job_id] = error
    for job_id in wanted:
        if job_id in errors:
            continue
        above = next((each for each in errors if job_id.startswith(f"{each}--")), None)
        below = next((each for each in errors if each.startswith(f"{job_id}--")), None)
        try:
            if above is not None:
                raise Refused(f"can't delete {job_id}: its parent {above} is not deleted either")
            if below is not None:
                raise Refused(f"can't delete {job_id}: its child job {below} was not deleted")
            deleted[job_id] = delete_job(project, job_id, force=force)
        except LogistError as error:
            errors[job_id] = error
            continue
        if read_selected_job(str(project.home)) == job_id:
            with suppress(OSError):
                (project.home / SELECTED_JOB_FILE).unlink()
    return deleted, errors


def _build_output(
    wanted: Sequence[str],
    deleted: dict[str, DeletedJob],
    errors: dict[str, LogistError],
    pruned: Sequence[PrunedBranch],
) -> Output:
    from logist.jobs.job_queue import choose_exit_code

    lines: list[Line] = []
    for each in deleted.values():
        branch = f", and the branch {each.branch}" if each.branch else ""
        lines.append((StyledText(each.job_id, "bold"), f" was deleted{branch}"))
    lines += [
        f"the branch {each.branch} of {each.repository} was deleted" for each in pruned if not each.kept
    ]
    if not wanted and not any(not each.kept for each in pruned):
        lines.append("no branch to delete")
    kept = [
        f"kept the branch {each.branch} of {each.repository}: {each.kept}" for each in pruned if each.kept
    ]
    notes = [note for each in deleted.values() for note in each.notes]
    data = {
        "jobs": [_build_row(job_id, deleted.get(job_id), errors.get(job_id)) for job_id in wanted],
        "branches": [
            {
                "repository": str(each.repository),
                "branch": each.branch,
                "commit": each.commit,
                "deleted": not each.kept,
                "kept": each.kept or None,
            }
            for each in pruned
        ],
    }
    diagnostics = (*map(Diagnostic.from_error, errors.values()), *make_notes([*notes, *kept]))
    return Output(data, lines, diagnostics, choose_exit_code([error.exit_code for error in errors.values()]))


def _build_row(job_id: str, deleted: DeletedJob | None, error: LogistError | None) -> dict[str, Any]:
    return {
        "job": job_id,
        "deleted": deleted is not None,
        "branch": deleted.branch if deleted else None,
        "error": Diagnostic.from_error(error)._asdict() if error else None,
    }
