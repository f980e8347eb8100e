"""Removes jobs that ended long ago, or only their workspaces, checkpoints and logs: `logist gc`.

A job is judged, and removed, together with its parent and its child jobs: none of them as long as one of them is needed.
What a killed command has begun, the next one finishes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from logist import systems
from logist.core.history import newer_versions
from logist.core.machine.predecessors import list_due
from logist.core.model import TERMINAL, State, Status
from logist.errors import Busy, Damaged, LogistError, Refused
from logist.jobs.base import budgets, cleaned_files
from logist.jobs.base.session import Session, load_session, open_session
from logist.jobs.base.stored_records import read_current_state
from logist.jobs.setup.setup_cache import SetupCache
from logist.jobs.steward import job_deletion
from logist.quick_dataclass import dataclass
from logist.store import JobDir, jobdir, list_jobs
from logist.store.cleaned import describe_removal
from logist.store.disk_usage import FreedSpace
from logist.store.run_records import find_runs_folder, list_old_records
from logist.timestamps import parse_time
from logist.workspace.checkpoint import kept_packs
from logist.workspace.context import WORDS_FOLDER, word_index

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MANY = 100
"""A family with more jobs than this needs more open files than a process may have by default."""
_MOST_ON_MACOS = 10_240
"""Open files of a process: OPEN_MAX."""


class KeepReason(StrEnum):
    """Why a job was kept."""

    NOT_ENDED = "not_ended"
    TOO_NEW = "too_new"
    CLEANED = "cleaned"
    """Only its history is left, and that is to be kept."""
    BUSY = "busy"
    UNFINISHED = "unfinished"
    UNMERGED = "unmerged"
    FAMILY = "family"
    """Its parent, or a child job, was kept."""
    AWAITED = "awaited"
    """Another job waits for it before it begins."""
    UNREADABLE = "unreadable"
    FAILED = "failed"
    """It could not be removed."""


@dataclass(frozen=True)
class SparedJob:
    """A job that `gc` has kept."""

    job_id: str
    reason: KeepReason
    why: str
    fix: str | None = None
    exit_code: int = 0
    """Of the error for which it was kept; 0 if that is none."""


@dataclass(frozen=True)
class RemovedFiles:
    """A job that was deleted, or whose workspace, checkpoints and logs were removed; or would be."""

    job_id: str
    ended_at: str
    """UTC; "" if it is not known: a killed command had begun to remove it."""
    freed: int
    """Bytes."""
    branch: str | None = None
    """Its branch in the source repository, if it was deleted too."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class GarbageCollection:
    """What was removed, or would be, and what was kept."""

    removed: tuple[RemovedFiles, ...]
    kept: tuple[SparedJob, ...]
    freed_packs: int = 0
    """Bytes of kept objects of repositories (`.packs`)."""
    freed_setup: int = 0
    """Bytes of what setups kept for later jobs (`.setup`)."""
    freed_words: int = 0
    """Bytes of the word index (`.words`)."""
    freed_runs: int = 0
    """Bytes of records of runs (`runs`)."""

    @property
    def freed(self) -> int:
        """All bytes together."""
        shared = self.freed_packs + self.freed_setup + self.freed_words + self.freed_runs
        return sum(each.freed for each in self.removed) + shared


@dataclass(frozen=True)
class _RetentionRules:
    """What is removed."""

    cutoff: str
    """Jobs that ended before this time."""
    keep_history: bool


class _Spared(Exception):
    """A job has to be kept."""

    def __init__(self, reason: KeepReason, why: str, fix: str | None = None, exit_code: int = 0) -> None:
        super().__init__(why)
        self.reason, self.why, self.fix, self.exit_code = reason, why, fix, exit_code

    def to_spared(self, job_id: str) -> SparedJob:
        return SparedJob(job_id, self.reason, self.why, self.fix, self.exit_code)


@dataclass(frozen=True)
class _OldJob:
    """A job that ended long enough ago."""

    job: JobDir
    session: Session
    ended_at: str


def collect_garbage(
    project: ProjectContext, older_than: timedelta, *, keep_history: bool = False, dry_run: bool = False
) -> GarbageCollection:
    """Delete the jobs that ended longer ago than that; with `keep_history`, only their workspaces, checkpoints and logs.

    Kept are jobs that have not ended, that have changes which are not merged, that a command works on, that can't be
    read, and those whose parent or child job is kept. A dry run removes nothing.
    """
    try:
        cutoff = (project.clock.now() - older_than).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        cutoff = ""  # before the year 1
    collecting = _Collecting(project, _RetentionRules(cutoff, keep_history), dry_run=dry_run)
    if not dry_run:
        jobdir.remove_abandoned(project.jobs_dir)
    return collecting.collect()


class _Collecting:
    def __init__(self, project: ProjectContext, rules: _RetentionRules, *, dry_run: bool) -> None:
        self._project, self._rules, self._dry_run = project, rules, dry_run
        self._space = FreedSpace()
        """Of a dry run: all that would be removed, together."""
        self._removed: list[RemovedFiles] = []
        self._kept: list[SparedJob] = []
        self._awaited: dict[str, str] = {}
        """The jobs that others wait for before they begin, each with one of those."""
        self._gone: set[str] = set()
        """Jobs without a workspace: those that were removed, or would be."""

    def collect(self) -> GarbageCollection:
        families, statuses = self._find_families()
        for family in families:
            unended = next(
                (each for each in family if statuses.get(each, Status.SUCCESS) not in TERMINAL), None
            )
            if unended is None:
                self._collect_family(family)
            else:
                self._spare_family(family, unended, statuses)
        packs, setup, words = self._collect_shared(statuses)
        removed = tuple(sorted(self._removed, key=lambda each: (-each.freed, each.job_id)))
        finished = {each.job_id for each in removed}
        kept = [each for each in self._kept if each.job_id not in finished]
        return GarbageCollection(
            removed,
            tuple(sorted(kept, key=lambda each: each.job_id)),
            packs,
            setup,
            words,
            self._collect_runs(),
        )

    def _find_families(self) -> tuple[list[list[str]], dict[str, str]]:
        """Return the jobs in groups of those that are parents and children of each other, every job after its child
        jobs; and the status of each that can be read.
        """
        parents: dict[str, str] = {}
        statuses: dict[str, str] = {}
        existing = list(list_jobs(self._project.jobs_dir))
        known = set(existing)
        for job_id in existing:
            self._finish_interrupted(job_id)
            parent: object = None
            try:
                state = read_current_state(JobDir(self._project.jobs_dir / job_id, job_id))
                statuses[job_id], parent = str(state.get("status")), state.get("parent")
                self._awaited |= dict.fromkeys(list_due(state), job_id)
            except LogistError:
                parent = job_id.rpartition("--")[0] or None  # it may be a child
            if isinstance(parent, str) and job_id.startswith(f"{parent}--"):
                parents[job_id] = parent
        families: dict[str, list[str]] = {}
        for job_id in sorted(existing, key=lambda each: (-len(each), each)):
            top = job_id
            while parents.get(top) in known:
                top = parents[top]
            families.setdefault(top, []).append(job_id)
        return list(families.values()), statuses

    def _finish_interrupted(self, job_id: str) -> None:
        """Finish what a killed command has begun to remove."""
        job = JobDir(self._project.jobs_dir / job_id, job_id)
        if self._dry_run or not job.is_being_cleaned():
            return
        freed = _measure_files(job, FreedSpace())
        with suppress(Busy):
            try:
                with open_session(self._project, job_id, "gc"):
                    pass  # opening it has done it
                if not job.is_being_cleaned():
                    self._removed.append(RemovedFiles(job_id, "", freed))
            except LogistError as error:
                self._kept.append(
                    SparedJob(job_id, KeepReason.FAILED, error.message, error.fix, error.exit_code)
                )

    def _spare_family(self, family: Sequence[str], unended: str, statuses: dict[str, str]) -> None:
        for job_id in family:
            status = statuses.get(job_id)
            if status is None:
                self._kept.append(_describe_unreadable(self._project, job_id))
            elif status not in TERMINAL:
                self._kept.append(SparedJob(job_id, KeepReason.NOT_ENDED, f"it is {status}"))
            else:
                why = f"{_name_relative(unended, job_id)} is {statuses[unended]}"
                self._kept.append(SparedJob(job_id, KeepReason.FAMILY, why))

    def _collect_family(self, family: Sequence[str]) -> None:
        """Remove the jobs of a family, or none of them."""
        ended, spared = self._examine_all(family, None)
        if self._dry_run or not ended or _list_blocking(spared):
            self._remove_or_spare(ended, spared)
            return
        if len(family) > _MANY:
            _allow_many_files()
        with ExitStack() as locks:
            self._remove_or_spare(*self._examine_all(family, locks))

    def _examine_all(
        self, family: Sequence[str], locks: ExitStack | None
    ) -> tuple[list[_OldJob], dict[str, SparedJob]]:
        """Load jobs, with `locks` locked; return those that ended long ago, and the others."""
        ended: list[_OldJob] = []
        spared: dict[str, SparedJob] = {}
        for job_id in family:
            try:
                ended.append(self._examine(job_id, locks))
            except _Spared as reason:
                spared[job_id] = reason.to_spared(job_id)
        return ended, spared

    def _remove_or_spare(self, ended: Sequence[_OldJob], spared: dict[str, SparedJob]) -> None:
        for each in () if _list_blocking(spared) else ended:
            try:
                self._require_merged(each)
            except _Spared as reason:
                spared[each.job.id] = reason.to_spared(each.job.id)
        self._kept += spared.values()
        blocking = _list_blocking(spared)
        if blocking:
            self._kept += [
                _spare_relative(each.job.id, blocking[0]) for each in ended if each.job.id not in spared
            ]
        else:
            self._remove_family(ended)

    def _examine(self, job_id: str, locks: ExitStack | None) -> _OldJob:
        """Load a job. Raises _Spared if it has to be kept."""
        project = self._project
        try:
            job = project.open_job(job_id)
            if locks is not None:
                locks.enter_context(job.hold_lock(command="gc", since=project.clock.timestamp()))
            elif (holder := job.find_lock_holder()) is not None:
                raise _Spared(KeepReason.BUSY, f"{holder} is working on it")
            session = load_session(project, job)
            newer_versions.refuse_to_move(session.state)
            self._require_rest(job, session.state)
            if self._rules.keep_history and job.read_cleaned() is not None:
                raise _Spared(KeepReason.CLEANED, "only its history is left")
            ended_at = self._require_old(job, session.state)
        except Busy as error:
            raise _Spared(KeepReason.BUSY, error.message, error.fix) from error
        except LogistError as error:
            raise _Spared(KeepReason.UNREADABLE, error.message, error.fix, error.exit_code) from error
        return _OldJob(job, session, ended_at)

    def _require_rest(self, job: JobDir, state: State) -> None:
        if state.status not in TERMINAL:
            raise _Spared(KeepReason.NOT_ENDED, f"it is {state.status}")
        if job.id in self._awaited and not self._rules.keep_history:
            why = f"{self._awaited[job.id]} waits for it"
            raise _Spared(KeepReason.AWAITED, why, f"logist job status --job {self._awaited[job.id]}")
        if os.path.lexists(job.inflight) or os.path.lexists(job.restoring):
            message = "a command was interrupted, and its work is not recorded yet"
            raise _Spared(KeepReason.UNFINISHED, message, f"logist job status --job {job.id}")
        if self._rules.keep_history and describe_removal(str(job.path)) is None:
            for folder in (job.workspace, job.git_dir):
                if folder.is_symlink() or not folder.is_dir():
                    message, fix = f"{folder.name}/ is not a directory", f"logist job verify --job {job.id}"
                    raise _Spared(KeepReason.UNREADABLE, message, fix, Damaged.exit_code)

    def _require_old(self, job: JobDir, state: State) -> str:
        """Return when a job has ended. Raises _Spared if that is not long ago."""
        ended_at = state.updated_at
        if state.created_at <= self._rules.cutoff:
            ended_at = _find_end(job) or ended_at  # a merge or a note later than that doesn't count
        if not _TIME.fullmatch(ended_at):
            message = "the time of its end can't be read"
            raise _Spared(KeepReason.UNREADABLE, message, None, Damaged.exit_code)
        if ended_at > self._rules.cutoff:
            raise _Spared(KeepReason.TOO_NEW, f"it ended at {ended_at}")
        return ended_at

    def _require_merged(self, ended: _OldJob) -> None:
        try:
            job_deletion.require_deletable(self._project, ended.job.id)
        except Refused as error:
            why = error.message.removeprefix(f"can't delete {ended.job.id}: ")
            if error.__cause__ is None:
                raise _Spared(KeepReason.UNMERGED, why, error.fix) from error
            raise _Spared(KeepReason.UNREADABLE, why, error.fix, Damaged.exit_code) from error
        except LogistError as error:
            raise _Spared(KeepReason.UNREADABLE, error.message, error.fix, error.exit_code) from error

    def _remove_family(self, family: Iterable[_OldJob]) -> None:
        """Remove jobs that are locked, every job after its child jobs. After an error, those above it are kept."""
        failed: SparedJob | None = None
        for ended in family:
            job_id = ended.job.id
            if failed is not None:
                self._kept.append(_spare_relative(job_id, failed))
                continue
            try:
                self._removed.append(self._remove(ended))
                self._gone.add(job_id)
            except LogistError as error:
                failed = SparedJob(job_id, KeepReason.FAILED, error.message, error.fix, error.exit_code)
                self._kept.append(failed)

    def _remove(self, ended: _OldJob) -> RemovedFiles:
        job, keep_history = ended.job, self._rules.keep_history
        space = self._space if self._dry_run else FreedSpace()
        freed = _measure_files(job, space) if keep_history else space.add(str(job.path))
        if self._dry_run:
            return RemovedFiles(job.id, ended.ended_at, freed)
        if keep_history:
            cleaned_files.clean_job(ended.session)
            return RemovedFiles(job.id, ended.ended_at, freed)
        state = ended.session.state
        repository = job_deletion.find_branch_repository(self._project, job, state)
        budgets.settle_deleted_job(self._project, job)
        notes = job_deletion.remove_job_directory(job)
        branch = None
        if state.parent is None:
            branch, branch_notes = job_deletion.delete_branch(self._project, repository, job.id, force=False)
            notes = (*notes, *branch_notes)
        return RemovedFiles(job.id, ended.ended_at, freed, branch, notes)

    def _collect_shared(self, statuses: dict[str, str]) -> tuple[int, int, int]:
        """Remove what was kept for later jobs and none needs any more; return the bytes of packs, setups and words."""
        return self._collect_packs(), self._collect_setup(statuses), self._collect_words()

    def _collect_packs(self) -> int:
        folder = self._project.jobs_dir / kept_packs.FOLDER
        with suppress(OSError):
            if any(self._space.has_other_names(str(path)) for path in folder.glob(kept_packs.FILES)):
                return 0
            freed = self._space.add(str(folder)) if folder.is_dir() and not folder.is_symlink() else 0
            if not self._dry_run:
                kept_packs.remove_unused(folder)
            return freed if self._dry_run or not os.path.lexists(folder) else 0
        return 0

    def _collect_setup(self, statuses: dict[str, str]) -> int:
        cache = SetupCache(self._project.jobs_dir)
        jobs = [each for each in list_jobs(self._project.jobs_dir) if each not in self._gone]
        with_files = {each for each in jobs if os.path.lexists(self._project.jobs_dir / each / "workspace")}
        needing = {
            each
            for each in with_files
            if statuses.get(each) not in TERMINAL
            or os.path.lexists(self._project.jobs_dir / each / "setup.json")
        }
        freed = 0
        for path in cache.list_unneeded(with_files, self._rules.cutoff, is_used=bool(needing)):
            size = FreedSpace().add(str(path))
            if self._dry_run or cache.remove_unneeded(path):
                freed += size
        return freed

    def _collect_words(self) -> int:
        folder, rules = self._project.jobs_dir / WORDS_FOLDER, self._rules
        left = [each for each in list_jobs(self._project.jobs_dir) if each not in self._gone]
        is_needed = any(os.path.lexists(self._project.jobs_dir / each / "workspace") for each in left)
        freed = 0
        for part in word_index.list_parts_unused_since(folder, rules.cutoff if is_needed else None):
            with suppress(OSError):
                size = FreedSpace().add(str(part))
                if not self._dry_run:
                    os.unlink(part)
                freed += size
        return freed

    def _collect_runs(self) -> int:
        folder = find_runs_folder(str(self._project.home), str(self._project.jobs_dir))
        freed = 0
        for record in list_old_records(folder, parse_time(self._rules.cutoff) or 0.0):
            with suppress(OSError):
                size = FreedSpace().add(record)
                if not self._dry_run:
                    os.unlink(record)
                freed += size
        return freed


def _find_end(job: JobDir) -> str | None:
    """Return when the job ended the last time, from its history."""
    ended_at = None
    for entry in job.read_entries():
        if entry.get("state_after") in TERMINAL:
            if entry.get("state_before") not in TERMINAL or ended_at is None:
                ended_at = str(entry.get("timestamp"))
        else:
            ended_at = None
    return ended_at


def _measure_files(job: JobDir, space: FreedSpace) -> int:
    return sum(
        space.add(str(path))
        for path in (job.workspace, job.cleaning, job.git_dir, job.logs)
        if os.path.lexists(path)
    )


def _describe_unreadable(project: ProjectContext, job_id: str) -> SparedJob:
    try:
        load_session(project, project.open_job(job_id))
    except LogistError as error:
        return SparedJob(job_id, KeepReason.UNREADABLE, error.message, error.fix, error.exit_code)
    return SparedJob(job_id, KeepReason.BUSY, "it was changed meanwhile")


def _list_blocking(spared: dict[str, SparedJob]) -> list[SparedJob]:
    """List the jobs for which the others of the family are kept too."""
    return [each for each in spared.values() if each.reason is not KeepReason.CLEANED]


def _spare_relative(job_id: str, blocking: SparedJob) -> SparedJob:
    name = _name_relative(blocking.job_id, job_id)
    return SparedJob(job_id, KeepReason.FAMILY, f"{name} is kept: {blocking.why}")


def _name_relative(other: str, job_id: str) -> str:
    if job_id.startswith(f"{other}--"):
        return f"its parent {other}"
    return f"its child job {other}" if other.startswith(f"{job_id}--") else f"{other}, of the same parent,"


def _allow_many_files() -> None:
    """Let this process open as many files as it may: each locked job is one."""
    import resource  # noqa: PLC0415 - few families are so large

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            # macOS refuses an unlimited number, and more than this one.
            most = hard if systems.IS_LINUX or 0 <= hard <= _MOST_ON_MACOS else _MOST_ON_MACOS
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
