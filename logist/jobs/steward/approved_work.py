"""Binds an approval to the work that it accepts: the job's revision, its files on disk, checks and evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from logist.errors import Refused
from logist.jobs.steward.review_hash import compute_review_hash
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.core.model import Change, State
    from logist.core.model.commands import ApproveCommand
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.session import Session
    from logist.store import JobDir
    from logist.workspace.reading import Content

NAMED = 5
"""Maximum number of changed files in a message."""


@dataclass(frozen=True)
class BoundApproval:
    """An approval that names the work it accepts."""

    command: ApproveCommand
    checkpoint: str | None
    """The checkpoint of the files if a person has edited them, so that a merge includes the edits."""


def bind_approval(session: Session, command: ApproveCommand, seen: str | None) -> BoundApproval:
    """Return the approval with the review hash of the work.

    `seen`: the hash of what the steward has seen; None if no hash was passed. Raises Refused if the work has changed
    since, or if the files were edited and no hash says that the steward has seen that; UsageError for an invalid hash.
    """
    project, job, state = session.project, session.job, session.state
    workspace = project.open_workspace(job)
    content = workspace.examine_content(state.checkpoint)
    current = compute_review_hash(project, job, state, files=content.digest)
    edited = _list_edits(content)
    if seen is not None:
        if changed := current.describe_changes(seen):
            files = f"; the last checkpoint and the files on disk differ: {edited}" if edited else ""
            raise Refused(
                f"the work has changed since you saw it: {', '.join(changed)}{files}",
                where="--seen",
                fix=f"to see it as it is now: logist job diff --job {job.id}",
            )
    elif edited and state.place.awaiting != "manual":  # the files of a manual step are the person's own work
        look = f"logist job diff --job {job.id} {state.revision}.."
        raise Refused(
            f"files have changed since the last checkpoint and its checks: {edited}",
            fix=f"to see them, and the command that approves them too: {look}",
        )
    checkpoint = None
    if edited:
        checkpoint = workspace.create_checkpoint("before approval").commit
        if seen is not None and workspace.compute_checkpoint_digest(checkpoint) != content.digest:
            fix = f"to see it as it is now: logist job diff --job {job.id}"
            raise Refused("files changed while you approved them", where=str(job.workspace), fix=fix)
    update = {"review_hash": str(current), "seen": seen is not None}
    return BoundApproval(command.model_copy(update=update), checkpoint)


def carry_seen(project: ProjectContext, job: JobDir, state: State, seen: str) -> Callable[[int], str]:
    """Return what names the work that a steward has seen at a later revision, which only records what they decided.

    `seen`: the review hash of what the steward has seen. Raises Refused if that has changed already, UsageError for an
    invalid hash.
    """
    current = compute_review_hash(project, job, state)
    if changed := current.describe_changes(seen):
        fix = f"to see it as it is now: logist job diff --job {job.id}"
        raise Refused(f"the work has changed since you saw it: {', '.join(changed)}", where="--seen", fix=fix)
    return lambda revision: str(replace(current, revision=revision))


def require_revision(session: Session, revision: int | None) -> None:
    """Raise Refused if the job is at another revision than the one for which a steward has decided."""
    if revision is None or revision == session.state.revision:
        return
    job_id, now = session.job.id, session.state.revision
    if revision > now:
        message = f"the job has no revision {revision} yet: it is at {now}"
    else:
        later = [entry for entry in session.load_history() if entry.sequence > revision]
        done = ", ".join(f"#{entry.sequence} {entry.kind}" for entry in later[:NAMED])
        more = f" and {len(later) - NAMED} more" if len(later) > NAMED else ""
        message = f"the job has changed since revision {revision}: {done}{more}"
    raise Refused(message, where=job_id, fix=f"to see it as it is now: logist job show --job {job_id}")


def _list_edits(content: Content) -> str:
    """Return the first files that differ from the last checkpoint, in words."""
    first = ", ".join(map(_describe_edit, content.edits[:NAMED]))
    more = len(content.edits) + content.omitted - NAMED
    return f"{first} and {more} more" if more > 0 else first


def _describe_edit(change: Change) -> str:
    return f"{change.kind} {change.path}"
