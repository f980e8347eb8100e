"""Chooses what `job diff` compares: the workspace of a job with an earlier state, two states, or two jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from logist.core.model.words import Kind, Phase, Status
from logist.errors import Refused, UsageError
from logist.jobs.base import cleaned_files
from logist.jobs.base.plain_project import JobFiles
from logist.jobs.steward.review_hash import compute_review_hash
from logist.quick_dataclass import dataclass
from logist.store import JobDir
from logist.workspace.comparison import Side, WorkspaceComparison, open_comparison

if TYPE_CHECKING:
    from logist.core.model import Interaction, State

Since = Literal["start", "review", "approval"]


@dataclass(frozen=True)
class Scope:
    """What to compare; by default the workspace with where the job began."""

    since: Since = "start"
    between: tuple[int, int | None] | None = None
    """Two interactions, each with the workspace after it; 0 is where the job began, None the files on disk."""
    other: str | None = None
    """Another job: its workspace is the other side."""
    paths: tuple[str, ...] = ()
    """Only these files and directories, relative to the workspace."""


@dataclass(frozen=True)
class JobComparison:
    """A comparison, and what its sides are."""

    comparison: WorkspaceComparison
    before: str
    after: str
    notes: tuple[str, ...] = ()
    compute_review_hash: Callable[[], str | None] = lambda: None
    """Names what a steward sees of the job with these files; None if the files on disk are not compared. A function,
    because it reads the files again, and a list of changes doesn't have it.
    """
    awaits_approval: bool = False


@contextmanager
def compare_job(project: JobFiles, job: JobDir, state: State, scope: Scope) -> Iterator[JobComparison]:
    """Compare what `scope` says, for a job in this state. Only reads, takes no lock.

    Raises UsageError for an unknown interaction, Refused if there is no such state, Damaged, StorageError.
    """
    jobs = [job]
    cleaned_files.require_files(job, "compare")
    now = Side(project.open_workspace(job))
    if scope.other is not None:
        other = project.open_job(scope.other)
        cleaned_files.require_files(other, "compare")
        jobs.append(other)
        sides = (now, Side(project.open_workspace(other)))
        labels = (f"workspace of {job.id}", f"workspace of {other.id}")
    else:
        before, after = _choose_states(job, state, scope)
        sides = (now._replace(commit=before[0]), now._replace(commit=after[0]))
        labels = (before[1], after[1])
    temporary = project.environment.list_temporary_directories()
    with open_comparison(*sides, scope.paths, temporary=temporary) as comparison:
        now_side = next((number for number, side in enumerate(sides) if side == now), None)

        def find_review_hash() -> str | None:
            if now_side is None:
                return None
            return str(compute_review_hash(project, job, state, files=comparison.compute_digest(now_side)))

        awaits_approval = state.status is Status.APPROVAL_REQUIRED
        yield JobComparison(
            comparison, *labels, tuple(_describe_work(jobs)), find_review_hash, awaits_approval
        )


_State = tuple[str | None, str]
"""A checkpoint, or None for the files on disk; and its name."""
_ON_DISK: _State = (None, "workspace")


def _choose_states(job: JobDir, state: State, scope: Scope) -> tuple[_State, _State]:
    start = state.start_checkpoint
    if start is None:
        raise Refused(f"no agent has worked on {job.id} yet: nothing to compare", where=str(job.path))
    if scope.between is None and scope.since == "start":
        return (start, "start of the job"), _ON_DISK
    from logist.jobs.base.job_reader import read_interactions  # noqa: PLC0415 - comparing with the start needs no history

    interactions = list(read_interactions(job))
    if scope.between is None:
        return _find_last_decision(job, interactions, scope.since), _ON_DISK
    first, last = scope.between
    end = _ON_DISK if last is None else _find_state_after(job, interactions, last, start)
    return _find_state_after(job, interactions, first, start), end


def _find_state_after(job: JobDir, interactions: Sequence[Interaction], number: int, start: str) -> _State:
    if number == 0:
        return start, "start of the job"
    if all(entry.sequence != number for entry in interactions):
        fix = f"to list the interactions: logist job history --job {job.id}"
        raise UsageError(f"interaction {number} not found in {job.id}", fix=fix)
    checkpoint = _find_checkpoint_after(interactions, number)
    return checkpoint or start, f"after #{number}"


def _find_checkpoint_after(interactions: Sequence[Interaction], number: int) -> str | None:
    from logist.core.history.fold import fold  # noqa: PLC0415 - see _choose_states

    return fold([entry for entry in interactions if entry.sequence <= number]).checkpoint


def _is_review(entry: Interaction) -> bool:
    return entry.kind is Kind.ASK and entry.observed is not None and entry.observed.phase is Phase.REVIEWER


def _is_approval(entry: Interaction) -> bool:
    return entry.kind is Kind.APPROVE


def _find_last_decision(job: JobDir, interactions: Sequence[Interaction], since: Since) -> _State:
    matches: Callable[[Interaction], bool] = _is_review if since == "review" else _is_approval
    last = max((entry.sequence for entry in interactions if matches(entry)), default=None)
    if last is None:
        done = "reviewed" if since == "review" else "approved"
        raise Refused(f"{job.id} has not been {done} yet", fix=f"logist job diff --job {job.id}")
    checkpoint = _find_checkpoint_after(interactions, last)
    return checkpoint, f"{since} #{last}"


def _describe_work(jobs: Sequence[JobDir]) -> Iterator[str]:
    for job in jobs:
        if (holder := job.find_lock_holder()) is not None:
            yield f"{holder} is working on {job.id}: its files may still change"
