"""Merges the work of a succeeded job into its repository: `job merge` by a person, or automatically."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from logist.config.settings import can_merge_automatically
from logist.core.history import merge_policy
from logist.core.machine import machine, steward
from logist.core.model import (
    Actor,
    EffectiveSpec,
    Interaction,
    Kind,
    Status,
    StuckKind,
)
from logist.core.model.commands import MergeCommand
from logist.core.text.counts import format_count
from logist.errors import LogistError, Refused, Stopped, UsageError
from logist.jobs.base import cleaned_files, source_repository, specs, truncation
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import Session, load_session, open_session
from logist.jobs.steward import approved_work, signed_decisions
from logist.jobs.turn import answer_recording
from logist.quick_dataclass import dataclass
from logist.workspace import merge as publishing

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.workspace.merge import JobWork, Person, Published, Target

PATIENCE_SECONDS = 60.0
"""How long a merge waits for the merge of another job into the same repository."""
MOST_NAMED_FILES = 100
"""The maximum number of files that are recorded in the history."""
SETTINGS = frozenset({".logist", ".coven"})
"""Directories with the settings of work, review and merge: only a person may merge changes of these."""


@dataclass(frozen=True)
class MergeResult:
    """The result of a merge, and the state of the job after it."""

    result: CommandResult
    published: Published


def merge_job(
    project: ProjectContext,
    job_id: str,
    *,
    mode: str = "merge",
    patch: bool = False,
    repository: Path | None = None,
    wait: float = 0.0,
    by_itself: bool = False,
    revision: int | None = None,
) -> MergeResult:
    """Merge the work of a job, create only its branch, or show what a merge would do (see publishing.MODES).

    `repository`: another one than the job's own, such as a clone of it. Work that conflicts makes the job
    STUCK if the merge is automatic (`by_itself`); a person gets Refused, and nothing is recorded.
    `revision`: refuse if the job is not at this revision any more; checked under the lock. Raises Refused.
    """
    if mode == "look":
        session = load_session(project, project.open_job(job_id))
        target = _find_target(session, repository)
        return MergeResult(
            _build_result(session, []),
            publishing.publish_work(_build_job_work(session), target, mode, patch=patch),
        )
    if by_itself:
        project.trust.require_to_merge()
    with open_session(project, job_id, "job merge", wait=wait) as session:
        pending_entries = answer_recording.record_pending_first(session, then_refuse=True)
        approved_work.require_revision(session, revision)
        signed_decisions.require_signed_approval(session)
        _refuse_older_copy(session)
        if by_itself:
            _require_automatic_merge_allowed(session)
            _refuse_settings_changes(session)
        with publishing.lock_target(
            _find_target(session, repository), PATIENCE_SECONDS, lambda: _raise_if_stopping(project)
        ) as target:
            published = publishing.publish_work(_build_job_work(session), target, mode, patch=patch)
        if published.how == "conflict" and not by_itself:
            raise _conflict_error(session, published, target)
        recorded = (
            pending_entries
            if mode == "branch"
            else [*pending_entries, *_record_merge(session, published, by_itself=by_itself)]
        )
        return MergeResult(_build_result(session, recorded), published)


def merge_due(project: ProjectContext, result: CommandResult) -> CommandResult:
    """Add a merge that has become due to the result of a command. If it can't be done now, it stays due.

    Work that would be merged automatically, but was not accepted completely, is left to a person.
    """
    if result.entries and merge_policy.is_merge_held(result.state):
        warning = merge_policy.HELD.format(job=result.job_id)
        return replace(result, warnings=(*result.warnings, warning))
    if result.state.merge != "due" or result.state.status is not Status.SUCCESS:
        return result
    try:
        merge_result = merge_job(project, result.job_id, by_itself=True)
    except Stopped:
        raise
    except LogistError as error:
        warning = f"not merged yet: {error}"
        return replace(result, warnings=(*result.warnings, warning), exit_code=error.exit_code)
    merged, published = merge_result.result, merge_result.published
    return replace(
        merged,
        entries=(*result.entries, *merged.entries),
        notes=(*result.notes, *merged.notes),
        warnings=(*result.warnings, *merged.warnings, *_left_out_warnings(published)),
        exit_code=machine.exit_code(merged.state.status),
    )


def _left_out_warnings(found: Published) -> tuple[str, ...]:
    return (f"left out of the merge: {', '.join(found.left_out)}",) if found.left_out else ()


def _raise_if_stopping(project: ProjectContext) -> None:
    if project.stopping():
        raise Stopped("stopped waiting for the repository", exit_code=project.stopping())


def _find_target(session: Session, repository: Path | None) -> Target:
    """The repository to merge into. Raises Refused if merging is not allowed, or if there is none."""
    state, job_id = session.state, session.job.id
    cleaned_files.require_files(session.job, "merge")
    if state.parent is not None:
        fix = f"when the parent has succeeded: logist job merge --job {state.parent}"
        raise Refused(
            f"can't merge a child job: its work is merged with its parent job {state.parent}",
            where=job_id,
            fix=fix,
        )
    is_stuck_at_merge = state.place.stuck is not None and state.place.stuck.kind is StuckKind.MERGE
    if state.status is not Status.SUCCESS and not is_stuck_at_merge:
        fix = steward.next_command(state, job_id)
        raise Refused(f"can't merge: the job is {state.status}", fix=fix)
    place = repository or find_repository(session)
    if place is None:
        fix = f"to merge it into a repository: logist job merge --job {job_id} --repo DIR"
        message = (
            f"git repository not found: {state.source}"
            if state.source
            else "the job was not created from a git repository"
        )
        raise Refused(message, where=job_id, fix=fix)
    option = f" --repo {quote(str(repository))}" if repository else ""
    by_branch = f"logist job merge --job {job_id}{option} --branch, then: git -C {quote(str(place))} merge logist/{job_id}"
    return publishing.find_target(place, session.project.environment.git_config_files(), by_branch=by_branch)


def _require_automatic_merge_allowed(session: Session) -> None:
    """Raise Refused if only the job's own files request the automatic merge: they may come from elsewhere.

    The current config or job.yaml must request it, and the job must have been created here, for the
    repository that its spec names now.
    """
    project, job, state = session.project, session.job, session.state
    spec = specs.read_job_spec(job)
    fix = f"check the work, then merge it: logist job merge --job {job.id} --repo DIR"
    if not can_merge_automatically(project.settings, spec.auto_merge, spec.review_mode):
        raise Refused("the current config and job.yaml don't allow an automatic merge", where=job.id, fix=fix)
    creation = next((entry for entry in session.load_history() if entry.kind is Kind.CREATE), None)
    if creation is None or not _is_same_path(creation.workspace_path, job.workspace):
        raise Refused(
            "the job was created in another directory, so its files may come from elsewhere",
            where=job.id,
            fix=fix,
        )
    source = source_repository.find_job_repository(project, spec)
    if source is None or not _is_same_path(state.source, source):
        message = f"the repository has changed: it was {state.source}, now it is {source or 'no repository'}"
        raise Refused(message, where=job.id, fix=fix)


def _is_same_path(recorded: str | None, now: Path) -> bool:
    return recorded is not None and os.path.realpath(recorded) == os.path.realpath(now)


def _refuse_older_copy(session: Session) -> None:
    """Raise Refused if the work was merged after the backup that the job was restored from."""
    unknown_merge = truncation.find_unknown_merge(session.job, session.state)
    if unknown_merge:
        branch = f"logist/{session.job.id}"
        place = quote(str(session.state.source))
        fix = f"compare: git -C {place} show {branch}; to merge all the same, first: git -C {place} branch -d {branch}"
        raise Refused(f"can't merge: {unknown_merge}", fix=fix)


def _refuse_settings_changes(session: Session) -> None:
    """Raise Refused for work that changes the rules by which later work is judged."""
    state = session.state
    if not state.start_checkpoint or not state.checkpoint:
        return
    workspace = session.project.open_workspace(session.job)
    changed, _ = workspace.list_changes(state.start_checkpoint, state.checkpoint, limit=sys.maxsize)
    settings_paths = [change.path for change in changed if SETTINGS & set(change.path.split("/"))]
    if settings_paths:
        message = f"the work changes settings of Logist, so a person must review it: {', '.join(settings_paths[:5])}"
        fix = f"logist job merge --job {session.job.id} --dry-run --diff, then: logist job merge --job {session.job.id}"
        raise Refused(message, fix=fix)


def find_repository(session: Session) -> Path | None:
    """The repository in the history; if that was moved or never recorded, the one in the spec."""
    recorded = session.state.source
    if recorded is not None and Path(recorded).is_dir():
        return Path(recorded)
    try:
        return source_repository.find_job_repository(session.project, specs.read_job_spec(session.job))
    except UsageError:
        return None


def _build_job_work(session: Session) -> JobWork:
    state, project = session.state, session.project
    history = session.load_history()
    entries = [entry for entry in history if entry.kind is not Kind.MERGE]
    return publishing.JobWork(
        job_id=session.job.id,
        title=project.redact_text(state.title),
        git=project.open_workspace(session.job).git,
        base=state.start_checkpoint or "",
        commit=state.checkpoint or "",
        previous=_find_previous_commit(history),
        recorded=tuple(_list_merge_commits(history)),
        author=_build_author(project.steward),
        seconds=_parse_timestamp(entries[-1].timestamp),
        now=int(project.clock.now().timestamp()),
        jobs_dir=project.jobs_dir,
    )


def _find_previous_commit(history: Sequence[Interaction]) -> str | None:
    return next(_list_merge_commits(history), None)


def _list_merge_commits(history: Sequence[Interaction]) -> Iterator[str]:
    """The commits that merged work of the job, the latest first."""
    merges = (MergeCommand.read(entry.command) for entry in reversed(history) if entry.kind is Kind.MERGE)
    return (merge.commit for merge in merges if merge.commit and not merge.conflicts)


def _build_author(name: str) -> Person:
    plain = " ".join(re.sub(r"[<>\x00-\x1f]", "", name).split()) or "steward"
    return publishing.Person(plain, f"{re.sub(r'[^A-Za-z0-9._-]+', '-', plain)}@localhost")


def _parse_timestamp(timestamp: str) -> int:
    return int(datetime.fromisoformat(timestamp).timestamp())


def _conflict_error(session: Session, found: Published, target: Target) -> Refused:
    update = f"logist job update --job {session.job.id} --resolve"
    fix = f"to have the agent resolve it: {update}; or by hand: {target.by_branch}"
    return Refused(_describe_conflict(found), where=str(found.place), fix=fix)


def _describe_conflict(found: Published) -> str:
    files = ", ".join(found.conflicts[:MOST_NAMED_FILES])
    return f"merge conflict with {found.into} in: {files} ({found.into} has {_count_new(found)})"


def _count_new(found: Published) -> str:
    return format_count(found.ahead, "new commit")


def describe_moved_source(job_id: str, found: Published) -> str:
    """Say that the source has commits that the work was not made with, and what to do; "" if it has none."""
    update = f"logist job update --job {job_id}"
    if found.conflicts:
        return f"to have the agent resolve the conflict as its next task: {update} --resolve"
    if not found.ahead:
        return ""
    count = _count_new(found)
    return f"{found.into} has {count} that the work was not tested with; to bring them into the job first: {update}"


def _record_merge(session: Session, found: Published, *, by_itself: bool) -> list[Interaction]:
    state = session.state
    is_unchanged = found.how in ("already", "nothing") and state.merge == "merged"
    if is_unchanged and state.status is Status.SUCCESS:
        return []
    command = _build_merge_record(found)
    spec = EffectiveSpec(title=state.title, limits=state.limits)
    after = steward.apply_command(Kind.MERGE, state.place, command, spec, job=session.job.id)
    actor = Actor.SYSTEM if by_itself else Actor.STEWARD
    entry = session.build_interaction(
        Kind.MERGE, after, actor=actor, reason=describe_merge(found), command=command
    )
    return session.record(entry)


def _build_merge_record(found: Published) -> MergeCommand:
    """What the history keeps of a merge."""
    return MergeCommand(
        merge=found.how,
        repository=str(found.place),
        into=found.into,
        branch=found.branch,
        commit=found.commit or None,
        before=found.before or None,
        after=found.after or None,
        files=[change.path for change in found.files[:MOST_NAMED_FILES]] or None,
        left_out=list(found.left_out) or None,
        conflicts=list(found.conflicts[:MOST_NAMED_FILES]) or None,
        lack=_describe_conflict(found) if found.conflicts else None,
        revert=found.revert or None,
    )


def describe_merge(found: Published, *, would: bool = False) -> str:
    """Describe the result of a merge in words."""
    files = f"{len(found.files)} file{'s' * (len(found.files) != 1)}"
    there = f"{found.into} of {found.place}"
    begin = "would be " if would else ""
    return {
        "fast_forward": f"{begin}merged into {there}: {files}, fast-forward",
        "merge": f"{begin}merged into {there}: {files}, with a merge commit",
        "already": f"{there} already contains the work",
        "nothing": "nothing to merge: the job changed no files",
        "branch": f"{files} on the branch {found.branch} of {found.place}; {found.into} is unchanged",
        "conflict": _describe_conflict(found) if found.conflicts else "",
    }[found.how]


def _build_result(session: Session, recorded: Sequence[Interaction]) -> CommandResult:
    return CommandResult(session.job.id, session.state, tuple(recorded))
