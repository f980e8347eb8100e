"""Detects that entries were removed from the end of a history.

Each entry is proven by the checksum in the next one, and the last entry by state.json. So a history without
its last entries and without state.json still verifies. Other files show how long it was: checkpoints, logs,
exchanges in flight, its child jobs, its parent, its forks, and a commit in the user's repository.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from logist.core.model.words import TERMINAL, Kind, Status
from logist.core.text.ids import is_commit
from logist.core.text.json_object import JsonObject
from logist.errors import Damaged, LogistError
from logist.jobs.base.plain_project import JobFiles
from logist.jobs.base.plain_reader import read_interactions
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass
from logist.store import Exchanges, HistoryProblem, JobDir, cleaned, files, list_jobs
from logist.timestamps import format_utc
from logist.workspace import merge
from logist.workspace.checkpoint import objects, packs

if TYPE_CHECKING:
    from logist.core.model import Forked, Interaction, State
    from logist.store.cleaned import Cleaned

_CHECKPOINT = compile_on_use(r"(?P<when>before|after) interaction (?P<number>\d{1,18})")
"""The subjects of the checkpoints of a step."""
_LOG = compile_on_use(r"(?:torn-)?(\d+)(?:-\d+)?\.(?:turns\.jsonl|kept\.json|txt|setup\.log)")
_OF_THE_NEXT = ("torn-", ".setup.log")
"""Logs of an interaction that may never have been recorded: an incomplete append, and a setup that failed."""
_KEPT_FILES = compile_on_use(r"rerun-(\d+)")
_CHILD = compile_on_use(r"(?P<parent>.+)--\d+-\d+")
_FORKED = b'"forked": {'
"""How the fork record in state.json begins. Most jobs have none, so their state.json is not parsed."""


@dataclass
class Forks:
    """The forks of every job of a project, collected once."""

    jobs_dir: Path

    @cached_property
    def by_origin(self) -> dict[str, list[tuple[JobDir, Forked]]]:
        """The forks, by the id of the job that they were forked from."""
        forks: dict[str, list[tuple[JobDir, Forked]]] = {}
        for job_id in list_jobs(self.jobs_dir):
            job = JobDir(self.jobs_dir / job_id, job_id)
            with suppress(LogistError, ValueError, KeyError, TypeError, RecursionError):
                data = files.read_bytes(job.state_file)
                if data is not None and _FORKED in data:
                    from logist.core.model import Forked  # noqa: PLC0415 - few jobs are forks

                    forked = Forked.model_validate(json.loads(data)["forked"])
                    forks.setdefault(forked.job, []).append((job, forked))
        return forks


@dataclass
class VerifiedHistory:
    """Facts about a valid history."""

    state: State
    """The fold of the history."""
    checksum: str
    """The checksum of its last entry."""
    children: Collection[str] = field(default_factory=set)
    """The jobs that its entries created."""

    @property
    def last_sequence(self) -> int:
        """The number of its last interaction."""
        return self.state.revision


def read_spawned_ids(entry: JsonObject) -> Iterator[str]:
    """Yield the ids of the jobs that an entry created."""
    if entry.get("kind") == Kind.SPAWN:
        yield from (child["id"] for child in _read_child_records(entry) if isinstance(child.get("id"), str))


def _read_child_records(entry: JsonObject) -> Iterator[JsonObject]:
    """Yield the records of children in an entry. A history may come from
    elsewhere, so any value is possible.
    """
    command = entry.get("command")
    children = command.get("children") if isinstance(command, dict) else None
    yield from (
        child for child in (children if isinstance(children, list) else []) if isinstance(child, dict)
    )


def find_truncation_signs(
    project: JobFiles, job: JobDir, history: VerifiedHistory, forks: Forks
) -> Iterator[HistoryProblem]:
    """Find references to interactions that the history lacks, each with the highest number it refers to.

    Read after the history. While a command works on the job, a newer interaction can be the reason for such a
    reference (see job_reader.verify_job).
    """
    # The files of an interaction are written before it is recorded: a killed command leaves those of the next.
    most = history.last_sequence + 1 if _may_be_cut_off(job, history) else history.last_sequence
    removed = job.read_cleaned()
    if removed is not None:
        yield from _check_removal(job, history, removed)
    yield from _check_numbered_files(job, history.last_sequence, most)
    yield from _check_in_flight(job, history)
    yield from _check_children(project, job, history)
    yield from _check_forks(job, history, forks)
    yield from _check_parent(project, job, history)
    if has_git(project, job):
        is_being_cleaned = job.is_being_cleaned() and history.state.status in TERMINAL
        if removed is None and not is_being_cleaned:
            yield from _check_checkpoints(project, job, history, most)
        yield from _check_merge_commit(job, history)


def require_complete_history(project: JobFiles, job: JobDir, state: State, checksum: str) -> None:
    """Raise Damaged for a history whose last entries were removed.

    `state` is the fold of the history, `checksum` that of its last entry. A step would pay again for what was
    lost, and a new state.json would confirm the shortened history.
    """
    children = {child for entry in job.read_entries() for child in read_spawned_ids(entry)}
    for sign in find_truncation_signs(
        project, job, VerifiedHistory(state, checksum, children), Forks(project.jobs_dir)
    ):
        again = (
            f"to continue with the rest in a new job: logist job fork --job {job.id} --at {state.revision}"
        )
        fix = f"restore jobHistory.json and state.json from a backup; {again}"
        raise Damaged(
            f"the end of the history is missing: {sign.message}", where=str(job.history_file), fix=fix
        )


def has_git(project: JobFiles, job: JobDir) -> bool:
    """True if git is installed, so that checkpoints can be read."""
    return project.open_workspace(job).git.is_installed


def _may_be_cut_off(job: JobDir, history: VerifiedHistory) -> bool:
    """True if files of the next interaction prove nothing.

    Then state.json confirms the end of the history, or an append was cut off after such files were written.
    """
    with suppress(LogistError):
        head = (job.read_state() or {}).get("head")
        if isinstance(head, dict) and head.get("hash") == history.checksum:
            return True
    next_one = history.last_sequence + 1
    torn = (*job.logs.glob(f"torn-{next_one}.txt"), *job.logs.glob(f"torn-{next_one}-*.txt"))
    return any(map(os.path.lexists, (job.inflight, job.restoring, *torn)))


def _too_short_problem(what: str, number: int, last: int) -> HistoryProblem:
    return HistoryProblem(f"{what} belongs to interaction {number}, but the history ends with {last}")


def _check_removal(job: JobDir, history: VerifiedHistory, removed: Cleaned) -> Iterator[HistoryProblem]:
    """Check that the record of a removal of files belongs to this history: without one, these files are lost."""
    if removed.revision > history.last_sequence:
        yield _too_short_problem(f"the file {cleaned.NAME}", removed.revision, history.last_sequence)
    elif _read_checksum(job, removed.revision) != removed.head:
        message = f"{cleaned.NAME} was written after a different interaction {removed.revision}"
        yield HistoryProblem(message, removed.revision)


def _check_numbered_files(job: JobDir, last: int, most: int) -> Iterator[HistoryProblem]:
    """Check logs, and files that a rerun kept: their names contain the number of the interaction."""
    for folder, pattern in ((job.logs, _LOG), (job.attachments, _KEPT_FILES)):
        names: list[str] = []
        with suppress(OSError):
            names = os.listdir(folder)
        numbered = [(int(match[1]), match[0]) for match in map(pattern.fullmatch, names) if match]
        beyond = [
            (number, name)
            for number, name in numbered
            if number > (last + 1 if any(part in name for part in _OF_THE_NEXT) else most)
        ]
        if beyond:
            number, name = max(beyond)
            yield _too_short_problem(f"{folder.name}/{name}", number, last)


def _check_in_flight(job: JobDir, history: VerifiedHistory) -> Iterator[HistoryProblem]:
    """Check the exchanges in flight: they are for the next interaction at
    most, and name the entry before it.
    """
    next_one = history.last_sequence + 1
    with suppress(LogistError):
        if exchanges := job.read_exchanges():
            yield from _check_unfinished_call(exchanges, history)
    with suppress(LogistError):
        restore_sequence = job.read_restore_sequence()
        if restore_sequence is not None and restore_sequence > next_one:
            yield _too_short_problem("the file restoring", restore_sequence, history.last_sequence)


def _check_unfinished_call(exchanges: Exchanges, history: VerifiedHistory) -> Iterator[HistoryProblem]:
    from logist.agents.courier import ask_files  # noqa: PLC0415 - few jobs have an unfinished call

    request, next_one = ask_files.position_of(exchanges), history.last_sequence + 1
    if request.sequence is not None and request.sequence > next_one:
        yield _too_short_problem("the unfinished call", request.sequence, history.last_sequence)
    elif request.sequence == next_one and request.after not in (None, history.checksum):
        message = f"the unfinished call was made after a different interaction {history.last_sequence}"
        yield HistoryProblem(message)


def _check_checkpoints(
    project: JobFiles, job: JobDir, history: VerifiedHistory, most: int
) -> Iterator[HistoryProblem]:
    """Find checkpoints numbered beyond the history, and a last checkpoint that no entry can have made."""
    workspace = project.open_workspace(job)
    recorded = workspace.list_checkpoints()
    known_commits = set(_walk_first_parents(recorded, history.state.start_checkpoint))
    if history.state.forked is not None:
        known_commits |= set(_walk_first_parents(recorded, _find_fork_checkpoint(job, history.state.forked)))
    beyond = [
        (int(match["number"]), commit)
        for commit, (_, subject) in recorded.items()
        if commit not in known_commits and (match := _CHECKPOINT.fullmatch(subject))
        if int(match["number"]) > (most if match["when"] == "after" else history.last_sequence + 1)
    ]
    if beyond:
        number, commit = max(beyond)
        yield _too_short_problem(f"the checkpoint {commit}", number, history.last_sequence)
    elif most == history.last_sequence:
        yield from _check_last_checkpoint(recorded, objects.read_tip(workspace.git), history)


def _walk_first_parents(made: dict[str, objects.RecordedCheckpoint], commit: str | None) -> Iterator[str]:
    """Yield a checkpoint and its predecessors."""
    while commit is not None and commit in made:
        yield commit
        commit = made[commit].after


def _find_fork_checkpoint(job: JobDir, forked: Forked) -> str | None:
    """The checkpoint that a fork began with. It belongs to the other job, where the numbers continued."""
    entry = next(islice(job.read_entries(), max(forked.at, 0), None), {})
    commit = entry.get("checkpoint_after")
    return commit if isinstance(commit, str) else None


def _check_last_checkpoint(
    made: dict[str, objects.RecordedCheckpoint], tip: str | None, history: VerifiedHistory
) -> Iterator[HistoryProblem]:
    """Check the last checkpoint, if nothing else confirms the end of the history.

    The history must name it, or a command made it before it did anything.
    """
    last = history.state.checkpoint
    if last is None or tip is None:
        return
    ancestry = list(_walk_first_parents(made, tip))
    newer = ancestry[: ancestry.index(last)] if last in ancestry else ancestry
    if last not in ancestry or not all(made[commit].subject.startswith("before ") for commit in newer):
        yield HistoryProblem(f"the last checkpoint, {tip}, belongs to no interaction of the history")


def _check_children(project: JobFiles, job: JobDir, history: VerifiedHistory) -> Iterator[HistoryProblem]:
    """Find child jobs that no interaction of the history created."""
    for job_id in list_jobs(project.jobs_dir):
        match = _CHILD.fullmatch(job_id)
        if not match or match["parent"] != job.id or job_id in history.children:
            continue
        if _is_child(JobDir(project.jobs_dir / job_id, job_id), job, history.state):
            yield HistoryProblem(
                f"job {job_id} was created as its child by an interaction that the history does not have"
            )
            return


def _is_child(other: JobDir, job: JobDir, parent: State) -> bool:
    """True if `other` was created for this job: it began with a checkpoint of this job.

    Another job of the same name may have created it.
    """
    try:
        state = other.read_state() or {}
    except LogistError:
        return False
    start, created_at = state.get("start_checkpoint"), state.get("created_at")
    is_recorded_child = (
        state.get("parent") == job.id and isinstance(created_at, str) and created_at >= parent.created_at
    )
    return is_recorded_child and is_commit(str(start)) and not packs.find_lacking(job.git_dir, {str(start)})


def _check_forks(job: JobDir, history: VerifiedHistory, forks: Forks) -> Iterator[HistoryProblem]:
    """Check that the history has the interactions that its forks were made
    from; forks begin with exact copies.
    """
    for fork, forked in forks.by_origin.get(job.id, ()):
        if fork.id == job.id or not _has_same_beginning(job, fork):
            continue
        if forked.at > history.last_sequence:
            yield HistoryProblem(
                f"job {fork.id} was forked from interaction {forked.at}, but the history ends with {history.last_sequence}"
            )
        elif _read_checksum(job, forked.at) != forked.head and not (_is_scrubbed(job) or _is_scrubbed(fork)):
            yield HistoryProblem(
                f"job {fork.id} was forked from a different interaction {forked.at}", forked.at
            )


def _is_scrubbed(job: JobDir) -> bool:
    """Whether a scrub has begun a new chain, so that another job's copy of an interaction may differ."""
    return any(entry.get("kind") == Kind.SCRUB for entry in job.read_entries())


def _has_same_beginning(job: JobDir, other: JobDir) -> bool:
    try:
        return _read_checksum(job, 1) == _read_checksum(other, 1)
    except LogistError:
        return False


def _read_checksum(job: JobDir, sequence: int) -> str | None:
    entry: JsonObject = next(islice(job.read_entries(), max(sequence - 1, 0), None), {})
    return entry.get("checksum")


def _check_parent(project: JobFiles, job: JobDir, history: VerifiedHistory) -> Iterator[HistoryProblem]:
    """Check the outcome that the parent recorded for this job: its status and its checkpoint."""
    match = _CHILD.fullmatch(job.id)
    if match is None or history.state.parent != match["parent"]:
        return
    try:
        records = list(
            _read_gathered_records(project.open_job(match["parent"]), job.id, history.state.created_at)
        )
    except LogistError:
        return  # the parent was moved, or its own history is damaged
    if not records:
        return
    statuses, commits = set(), set()
    for entry in read_interactions(job):
        statuses.add(str(entry.state_after))
        commits |= {entry.checkpoint_before, entry.checkpoint_after}
    for child in records:
        status, checkpoint = str(child.get("status")), child.get("checkpoint")
        if status not in statuses or (checkpoint is not None and str(checkpoint) not in commits):
            outcome = f"{status} with the checkpoint {checkpoint}"
            yield HistoryProblem(
                f"its parent {match['parent']} recorded the result {outcome}, but the history doesn't contain it"
            )
            return


def _read_gathered_records(parent: JobDir, child_id: str, since: str) -> Iterator[JsonObject]:
    """Yield what a parent recorded of a child since that was created: an
    older child may have had its name.
    """
    for entry in parent.read_entries():
        if entry.get("kind") == Kind.COLLECT and str(entry.get("timestamp")) >= since:
            for child in _read_child_records(entry):
                if child.get("id") == child_id and child.get("status") != "missing":
                    yield child


def _check_merge_commit(job: JobDir, history: VerifiedHistory) -> Iterator[HistoryProblem]:
    """Check the merge commit in the user's repository."""
    if found := find_unknown_merge(job, history.state):
        yield HistoryProblem(found)


def find_unknown_merge(job: JobDir, state: State) -> str | None:
    """Describe a merge of the job that its history doesn't have: it was cut off, or restored from an older backup.

    The commit is made when the job has succeeded, with the time of the job's last interaction.
    """
    if state.source is None or not Path(state.source).is_dir():
        return None
    try:
        merge_commit = merge.find_commit(Path(state.source), job.id)
    except LogistError:
        return None  # the user's repository is not a part of the job
    if merge_commit is None:
        return None
    from logist.core.model.commands import MergeCommand  # noqa: PLC0415 - few jobs were merged

    when = format_utc(merge_commit.seconds)
    starts: set[object] = {state.start_checkpoint}
    for entry in read_interactions(job):
        if entry.kind is Kind.MERGE:
            starts.add(MergeCommand.read(entry.command).commit)
        elif _is_mergeable(entry, when):
            return None
    if merge_commit.parent not in starts or merge_commit.commit in starts:
        return None
    return (
        f"{state.source} has work of this job from {when} on the branch logist/{job.id}, "
        "but the history has no such interaction: perhaps it was restored from an older backup"
    )


def _is_mergeable(entry: Interaction, when: str) -> bool:
    """True if a merge right after this interaction would make a commit with that time."""
    return entry.state_after in (Status.SUCCESS, Status.STUCK) and entry.timestamp == when
