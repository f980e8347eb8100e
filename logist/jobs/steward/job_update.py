"""Moves the work of a job onto the current state of its source repository: `job update`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from logist.core.history import fold
from logist.core.machine import steward
from logist.core.model import EffectiveSpec, Interaction, Kind, Permission
from logist.core.model.commands import UpdateCommand
from logist.core.text.counts import format_count
from logist.errors import Refused
from logist.jobs.base import cleaned_files, source_repository
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import Session, load_session, open_session
from logist.jobs.steward import approved_work, job_merge
from logist.jobs.turn import answer_recording
from logist.quick_dataclass import dataclass
from logist.workspace import merge as merging
from logist.workspace import readable_history

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext
    from logist.workspace import Workspace
    from logist.workspace.merge import SourceUpdate, Target, UpdateDraft

MOST_NAMED_FILES = 100
"""The maximum number of files that are recorded in the history, and named in a prompt or a message."""
_SHORT = 12
"""Characters of a commit's name in texts."""


@dataclass(frozen=True)
class UpdateResult:
    """The result of an update, or of its preview, and the state of the job after it."""

    result: CommandResult
    update: SourceUpdate


def update_job(
    project: ProjectContext,
    job_id: str,
    *,
    onto: str | None = None,
    repository: Path | None = None,
    resolve: bool = False,
    dry_run: bool = False,
    note: str | None = None,
    wait: float = 0.0,
    revision: int | None = None,
) -> UpdateResult:
    """Merge what has changed in the source repository since the job began, or was last updated, into its workspace.

    `onto`: the commit or branch to move onto, instead of the checked-out one. `repository`: another one than the job's
    own, such as a clone of it. `resolve`: if files conflict, the workspace gets conflict markers, and the agent's next
    task is to resolve them; without it, a conflict raises Refused and the job stays as it was. `dry_run`: change nothing,
    and return what would be done. `revision`: refuse if the job is not at this revision any more.
    """
    if dry_run:
        return _preview_update(load_session(project, project.open_job(job_id)), repository, onto)
    note = project.redact_text(note) if note else None
    with open_session(project, job_id, "job update", wait=wait) as session:
        pending_entries = answer_recording.record_pending_first(session, then_refuse=True)
        approved_work.require_revision(session, revision)
        target = _find_source(session, repository)
        update = _find_update(session, target, onto)
        if not update.is_needed:
            result = CommandResult(job_id, session.state, tuple(pending_entries))
            return UpdateResult(result, update)
        advice = None if resolve else build_resolve_command(job_id, onto, repository)
        workspace = project.open_workspace(session.job)
        updated, recorded = _merge_and_record(session, workspace, target, update, advice=advice, note=note)
        warnings = source_repository.find_uncommitted_warnings(target.top) if onto is None else ()
        if workspace.why_history_is_missing:
            warnings += (workspace.why_history_is_missing,)
        result = CommandResult(job_id, session.state, (*pending_entries, *recorded), warnings=warnings)
        return UpdateResult(result, updated)


def build_resolve_command(job_id: str, onto: str | None, repository: Path | None) -> str:
    """The command that does the same update and lets the agent resolve its conflicts."""
    onto_option = f" --onto {quote(onto)}" if onto is not None else ""
    repo_option = f" --repo {quote(str(repository))}" if repository is not None else ""
    return f"logist job update --job {job_id}{onto_option}{repo_option} --resolve"


def _preview_update(session: Session, repository: Path | None, onto: str | None) -> UpdateResult:
    target = _find_source(session, repository)
    update = _find_update(session, target, onto)
    warnings: tuple[str, ...] = ()
    if update.is_needed:
        workspace = session.project.open_workspace(session.job)
        ours = session.state.checkpoint or update.before
        if workspace.examine_content(ours).edits:
            warnings = ("files have changed since the last checkpoint; an update includes these changes too",)
        with merging.draft_update(workspace.git, target, update, ours, beside=False) as draft:
            update = draft.update
    return UpdateResult(CommandResult(session.job.id, session.state, warnings=warnings), update)


def _find_source(session: Session, repository: Path | None) -> Target:
    """The repository to update from. Raises Refused if the job can't be updated, or has none."""
    state, job_id = session.state, session.job.id
    cleaned_files.require_files(session.job, "update")
    if state.parent is not None:
        fix = f"when the child jobs have ended: logist job update --job {state.parent}"
        message = f"can't update a child job: it works on the files of its parent job {state.parent}"
        raise Refused(message, where=job_id, fix=fix)
    if state.merge == "merged":
        fix = f"create a new job, or start this one over from the new state: logist job rerun --job {job_id}"
        raise Refused("can't update: the work is merged already", where=job_id, fix=fix)
    # Before job.yaml is read: that of a job that has ended may be invalid by now.
    spec = EffectiveSpec(title=state.title, limits=state.limits)
    steward.apply_command(Kind.UPDATE, state.place, UpdateCommand(), spec, job=job_id)
    place = repository or job_merge.find_repository(session)
    if place is None:
        message = (
            f"git repository not found: {state.source}"
            if state.source
            else "the job was not created from a git repository"
        )
        fix = f"to update it from a clone of the repository: logist job update --job {job_id} --repo DIR"
        raise Refused(message, where=job_id, fix=fix)
    return merging.find_target(place, session.project.environment.git_config_files())


def _find_update(session: Session, target: Target, onto: str | None) -> SourceUpdate:
    base, job_id = session.state.start_checkpoint, session.job.id
    if base is None:
        fix = "create a new job from the repository"
        raise Refused(
            "can't update: the history has no commit that the work began with", where=job_id, fix=fix
        )
    git = session.project.open_workspace(session.job).git
    return merging.find_update(git, target, base, onto, job_id)


def _merge_and_record(
    session: Session,
    workspace: Workspace,
    target: Target,
    update: SourceUpdate,
    *,
    advice: str | None,
    note: str | None,
) -> tuple[SourceUpdate, list[Interaction]]:
    spec, changed = session.detect_spec_change()
    ours = workspace.create_checkpoint("before update").commit
    with merging.draft_update(workspace.git, target, update, ours, beside=True) as draft:
        _require_resolvable(session, spec, draft, advice)
        note = _join_notes(session, draft, note)
        command = _build_command(session, draft.update, note)
        after = steward.apply_command(Kind.UPDATE, session.state.place, command, spec, job=session.job.id)
        commit = draft.copy_into(workspace.git, ours)
    session.job.begin_restore(session.state.revision + len(changed) + 1, ours)
    readable_history.move_history(workspace.git, target.common / "objects")
    workspace.restore(commit)
    entry = session.build_interaction(
        Kind.UPDATE,
        after,
        note=note,
        command=command,
        reason=describe_update(draft.update),
        checkpoint_before=ours,
        checkpoint_after=commit,
    )
    recorded = session.record(*changed, entry)
    session.job.end_restore()
    return draft.update, recorded


def _require_resolvable(
    session: Session, spec: EffectiveSpec, draft: UpdateDraft, advice: str | None
) -> None:
    """Raise Refused if files conflict, unless an agent can resolve that; `advice`: the command that lets it, if that is not wanted yet."""
    update, job_id = draft.update, session.job.id
    if not update.conflicts:
        return
    told = describe_conflicts(update)
    lost = [each.path for each in update.conflicts if each.is_in_the_way]
    if lost:
        fix = f"move them away in {session.job.workspace}, then run the command again"
        raise Refused(f"{told}; these files of the workspace would be lost", where=job_id, fix=fix)
    if advice is not None:
        fix = f"to have the agent resolve that as its next task: {advice}"
        raise Refused(told, where=job_id, fix=fix)
    name, _ = fold.find_doer(spec, session.state)
    if not session.project.roles.get(name).permissions.allows(Permission.WRITE_FILES):
        fix = f"switch to a role that may: logist job role --job {job_id} NAME"
        raise Refused(f"{told}; the role {name} may not change files", where=job_id, fix=fix)


def describe_conflicts(update: SourceUpdate) -> str:
    """Describe which files conflict, and how."""
    first = "; ".join(map(str, update.conflicts[:MOST_NAMED_FILES]))
    more = len(update.conflicts) - MOST_NAMED_FILES
    count = f"; and {more} more" if more > 0 else ""
    return f"merge conflict with {update.branch} in: {first}{count}"


def describe_update(update: SourceUpdate, *, would: bool = False) -> str:
    """Describe an update in words."""
    if not update.is_needed:
        return f"already up to date with {update.branch} of {update.place} ({update.after[:_SHORT]})"
    new = (
        "its history was rewritten" if update.commits is None else format_count(update.commits, "new commit")
    )
    files = f"{format_count(len(update.files), 'file')} of the workspace"
    conflicts = f", {format_count(len(update.conflicts), 'conflict')}" if update.conflicts else ""
    return (
        f"{'would be ' if would else ''}updated to {update.after[:_SHORT]}, {update.branch} of {update.place}: "
        f"{new}, {files}{conflicts}"
    )


def _build_command(session: Session, update: SourceUpdate, note: str | None) -> UpdateCommand:
    redact = session.project.redact_text
    return UpdateCommand(
        before=update.before,
        after=update.after,
        repository=str(update.place),
        branch=update.branch,
        commits=update.commits,
        files=[redact(change.path) for change in update.files[:MOST_NAMED_FILES]] or None,
        conflicts=[redact(str(each)) for each in update.conflicts[:MOST_NAMED_FILES]] or None,
        note=note,
    )


def _join_notes(session: Session, draft: UpdateDraft, note: str | None) -> str | None:
    """The note for the next prompt: what an agent still has to read, the steward's note, and the conflicts.

    None if there is nothing new: an earlier note stays.
    """
    conflicts = session.project.redact_text(_build_conflict_note(draft.update))
    new = [text for text in (note, conflicts) if text]
    return "\n\n".join([session.state.note, *new] if session.state.note else new) if new else None


def _build_conflict_note(update: SourceUpdate) -> str:
    if not update.conflicts:
        return ""
    introduction = (
        f"The files were updated to commit {update.after[:_SHORT]} of the repository ({update.branch}), and these "
        "conflict with the work so far. First resolve the conflicts: keep what both sides intend, and leave no "
        "conflict markers. Then continue with the task."
    )
    lines = [
        introduction,
        "",
        *(
            f"- {each}{'' if each.has_markers else ': no markers'}"
            for each in update.conflicts[:MOST_NAMED_FILES]
        ),
    ]
    if len(update.conflicts) > MOST_NAMED_FILES:
        lines.append(f"- and {len(update.conflicts) - MOST_NAMED_FILES} more: search for the markers")
    lines += [
        "",
        "In a file with markers, `<<<<<<< job` is the work so far and `>>>>>>> source` the repository.",
    ]
    if not all(each.has_markers for each in update.conflicts):
        lines.append(
            "A file without markers has the content of the work so far, if the work has it; "
            "`git show HEAD:FILE` prints that of the repository."
        )
    return "\n".join(lines)
