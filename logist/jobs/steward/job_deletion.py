"""Deletes jobs that have ended, and the branches that merges have made for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

from logist.core.machine.predecessors import MISSING, Unmet, build_drop_command, list_due
from logist.core.machine.steward import next_command
from logist.core.model import TERMINAL, State, Status
from logist.errors import LogistError, NewerFormat, Refused, UsageError
from logist.jobs.base import budgets, cleaned_files, predecessors, source_repository, specs
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.session import load_session
from logist.jobs.steward.job_merge import PATIENCE_SECONDS
from logist.quick_dataclass import dataclass
from logist.store import JobDir, jobdir, list_jobs
from logist.workspace import find_repository
from logist.workspace import merge as publishing
from logist.workspace.checkpoint import kept_packs
from logist.workspace.merge import JobBranch

NAMED = 3
"""How many changed files a message names."""


@dataclass(frozen=True)
class DeletedJob:
    """A job that was deleted."""

    job_id: str
    branch: str | None = None
    """Its branch in the source repository, if it was deleted too."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrunedBranch:
    """A branch of a job that was deleted, or why not."""

    repository: Path
    branch: str
    commit: str
    kept: str = ""
    """Why it was not deleted; "" if it was."""


def list_with_children(project: ProjectContext, job_ids: Sequence[str]) -> list[str]:
    """Return the jobs to delete, each once, every job after its child jobs, which would be left without a parent."""
    order: dict[str, None] = {}
    existing = list(list_jobs(project.jobs_dir))
    for job_id in job_ids:
        project.open_job(job_id)
        children = [
            each for each in existing if each.startswith(f"{job_id}--") and _is_below(project, each, job_id)
        ]
        order |= dict.fromkeys([*sorted(children, key=len, reverse=True), job_id])
    return list(order)


def _is_below(project: ProjectContext, job_id: str, above: str) -> bool:
    """Whether a job does a part of `above`, whether or not the jobs between them still exist."""
    with suppress(LogistError):
        parent = load_session(project, project.open_job(job_id)).state.parent
        return parent is not None and f"{parent}--".startswith(f"{above}--")
    return False


def delete_job(project: ProjectContext, job_id: str, *, force: bool = False) -> DeletedJob:
    """Delete a job and its branch. It disappears at once, and a killed deletion is finished by a later command.

    Raises Refused for a job that has not ended, that its parent still needs, for which others wait, or whose changes are not
    merged; `force` allows the last, and a job that can't be read. Raises Busy while a command works on it.
    """
    jobdir.remove_abandoned(project.jobs_dir)
    job = project.open_job(job_id)
    with job.hold_lock(command="job delete", since=project.clock.timestamp()):
        state = require_deletable(project, job_id, force=force)
        if state is not None:
            _require_not_awaited(project, state, job_id)
        repository = find_branch_repository(project, job, state)
        budgets.settle_deleted_job(project, job)
        notes = remove_job_directory(job)
        kept_packs.remove_unused(project.jobs_dir / kept_packs.FOLDER)
    branch, branch_notes = delete_branch(project, repository, job_id, force=force)
    return DeletedJob(job_id, branch, (*notes, *branch_notes))


def remove_job_directory(job: JobDir) -> tuple[str, ...]:
    """Remove the directory of a locked job; return notes about what could not be removed."""
    hidden = job.begin_removal()
    try:
        cleaned_files.remove_directory(hidden)
    except OSError as error:
        return (f"files of {job.id} are left in {hidden}: {error.strerror}",)
    return ()


def require_deletable(project: ProjectContext, job_id: str, *, force: bool = False) -> State | None:
    """Return the state of a job that may be deleted; None if it can't be read. Raises Refused, see delete_job."""
    job = project.open_job(job_id)
    state = _load_state(project, job, force=force)
    if state is not None:
        _require_ended(state, job_id)
        _require_no_need(project, state, job_id)
        if not force:
            _require_merged(project, job, state)
    return state


def _load_state(project: ProjectContext, job: JobDir, *, force: bool) -> State | None:
    """Return the state; None if the job can't be read and `force` is set."""
    try:
        return load_session(project, job).state
    except LogistError as error:
        if force:
            return None
        repair = error.fix if isinstance(error, NewerFormat) else "to repair it: logist doctor --fix"
        fix = f"{repair}; to delete it all the same: logist job delete --job {job.id} --force"
        raise Refused(f"can't delete {job.id}: {error.message}", where=error.where, fix=fix) from error


def _require_ended(state: State, job_id: str) -> None:
    if state.status not in TERMINAL:
        fix = f"to end it: logist job cancel --job {job_id}"
        raise Refused(
            f"can't delete {job_id}: it is {state.status}, and only jobs that have ended are deleted", fix=fix
        )


def _require_no_need(project: ProjectContext, state: State, job_id: str) -> None:
    """Raise Refused for a child while its parent may still use its work."""
    if state.parent is None:
        return
    try:
        parent = load_session(project, project.open_job(state.parent)).state
    except UsageError:
        return
    if parent.status not in TERMINAL:
        message = f"can't delete {job_id}: its parent {state.parent} is {parent.status}, and still needs it"
        raise Refused(message, fix=next_command(parent, state.parent))


def _require_not_awaited(project: ProjectContext, state: State, job_id: str) -> None:
    """Raise Refused for a successful job while others that have not begun wait for it: without it, they would wait forever."""
    if state.status is not Status.SUCCESS:
        return
    successors = predecessors.find_successors(str(project.jobs_dir), job_id)
    if successors:
        named = successors[0] + (f" and {len(successors) - 1} more" if len(successors) > 1 else "")
        verb = "wait" if len(successors) > 1 else "waits"
        waiting = predecessors.read_state(str(project.jobs_dir), successors[0])
        after = [job_id] if isinstance(waiting, str) else list_due(waiting)
        drop = build_drop_command(successors[0], after, [Unmet(job_id, MISSING)])
        fix = f"to let it begin without {job_id}: {drop}"
        raise Refused(f"can't delete {job_id}: {named} {verb} for it (`after`)", fix=fix)


def _require_merged(project: ProjectContext, job: JobDir, state: State) -> None:
    """Raise Refused if the workspace has changes that are nowhere else."""
    if state.start_checkpoint is None or _has_work_in_parent(project, state):
        return
    if job.is_being_cleaned() or job.read_cleaned() is not None:
        return  # `logist gc` has checked it before it removed the workspace
    since = state.checkpoint if state.merge == "merged" and state.checkpoint else state.start_checkpoint
    try:
        changes, more = project.open_workspace(job).list_edits(since, NAMED)
    except (LogistError, OSError) as error:
        fix = f"to delete it all the same: logist job delete --job {job.id} --force"
        raise Refused(f"can't delete {job.id}: its changes can't be read: {error}", fix=fix) from error
    if not changes:
        return
    named = ", ".join(change.path for change in changes) + (f" and {more} more" if more else "")
    can_merge = state.source and state.status is Status.SUCCESS and state.merge != "merged"
    keep = f"logist job {'merge' if can_merge and state.parent is None else 'pack'} --job {job.id}"
    fix = f"to see them: logist job diff --job {job.id}; to keep them: {keep}; to delete them: logist job delete --job {job.id} --force"
    what = "changes after the merge" if state.merge == "merged" else "changes that are not merged"
    raise Refused(f"can't delete {job.id}: it has {what}: {named}", fix=fix)


def _has_work_in_parent(project: ProjectContext, state: State) -> bool:
    """Whether the work of a child is in its parent: both have succeeded."""
    if state.parent is None or state.status is not Status.SUCCESS:
        return False
    with suppress(LogistError):
        return load_session(project, project.open_job(state.parent)).state.status is Status.SUCCESS
    return False


def find_branch_repository(project: ProjectContext, job: JobDir, state: State | None) -> Path | None:
    """Return the repository that may have a branch of the job."""
    if state is not None and state.source is not None:
        return Path(state.source) if Path(state.source).is_dir() else None
    try:
        return source_repository.find_job_repository(project, specs.read_job_spec(job))
    except (LogistError, OSError):
        return None


def delete_branch(
    project: ProjectContext, repository: Path | None, job_id: str, *, force: bool
) -> tuple[str | None, list[str]]:
    """Delete the branch of a job, and return its name; notes if it was kept."""
    if repository is None:
        return None, []
    try:
        pruned = list(_prune_repository(project, repository, job_id, force=force))
    except LogistError as error:
        return None, [f"can't delete the branch of {job_id}: {error}"]
    deleted = next((each.branch for each in pruned if not each.kept), None)
    return deleted, [
        f"kept the branch {each.branch} of {each.repository}: {each.kept}" for each in pruned if each.kept
    ]


def prune_branches(project: ProjectContext, *, force: bool = False) -> list[PrunedBranch]:
    """Delete the branches of jobs that are merged, in the project's repository and in those of its jobs.

    `force`: also those that are not merged, of jobs that no longer exist. Branches with commits of others, and
    those that are checked out, are never deleted.
    """
    repositories = dict.fromkeys(_list_repositories(project))
    return [each for place in repositories for each in _prune_repository(project, place, force=force)]


def _list_repositories(project: ProjectContext) -> Iterator[Path]:
    if project.home.name == ".logist" and (own := find_repository(project.home.parent)) is not None:
        yield own
    for job_id in list_jobs(project.jobs_dir):
        with suppress(LogistError):
            source = load_session(project, project.open_job(job_id)).state.source
            if source is not None and Path(source).is_dir():
                yield Path(source)


def _prune_repository(
    project: ProjectContext, repository: Path, job_id: str | None = None, *, force: bool
) -> Iterator[PrunedBranch]:
    target = publishing.find_target(repository, project.environment.git_config_files())
    with publishing.lock_target(target, PATIENCE_SECONDS) as locked:
        for branch in publishing.list_job_branches(locked, job_id):
            is_gone = not (project.jobs_dir / branch.job_id).exists()
            kept = _find_reason_to_keep(branch, str(locked.place), may_lose=force and is_gone)
            if not kept:
                publishing.delete_job_branch(locked, branch)
            yield PrunedBranch(locked.place, branch.name, branch.commit, kept)


def _find_reason_to_keep(branch: JobBranch, place: str, *, may_lose: bool) -> str:
    if branch.checked_out:
        return f"it is checked out in {branch.checked_out}"
    if branch.is_merged or may_lose:
        return ""
    return f"it is not merged (to delete it: git -C {quote(place)} branch -D {branch.name})"
