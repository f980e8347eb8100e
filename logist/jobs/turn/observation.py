"""What an answer did to the workspace: evidence, changes, and undoing those that the role may not make."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from logist.core.answer import questions
from logist.core.model import (
    Change,
    CheckResult,
    ExitAction,
    Observed,
    Phase,
    Refusal,
    Reply,
    Response,
    Steward,
)
from logist.core.permissions import permissions
from logist.jobs.turn import agent_calls
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import RecordedAsk
    from logist.core.step.step import JudgedAnswer
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.base.session import Session
    from logist.workspace import Checkpoint, Undone, Workspace

CHANGES_RECORDED = 1000
VERDICT = "verdict"
"""The part of a prompt that describes the verdict of a review."""
PARTIAL = "partial"
"""The part that says that the prompt does not contain all changes."""
CHANGED = frozenset({"changes", "diff"})
"""The parts that contain the changes."""


@dataclass(frozen=True)
class Answered:
    """An answer and its request: all that `record_answer` needs, whether the
    answer just arrived or was on disk.
    """

    ask: RecordedAsk
    reply: Reply
    steward: Steward | None = None
    """Who supplied the answer by hand, if no agent was called."""


def record_restore_point(session: Session, ask: RecordedAsk) -> None:
    """Record where to restore to, before an agent works in place.

    Such an agent leaves no request on disk, so after a crash its changes are reverted. Otherwise the next
    checkpoint would treat its forbidden changes as the work of a person.
    """
    if permissions.list_forbidden_changes(ask.work.permissions):
        session.job.begin_restore(session.state.revision + 1, ask.checkpoint_before)


def undo_forbidden_changes(
    session: Session, workspace: Workspace, answered: Answered, found: Checkpoint
) -> Undone | None:
    """Undo what the role may not have changed.

    Until that is recorded, a crash restores all of it, to be judged again; or, for an agent that worked in
    place (see `record_restore_point`), reverts all of it.
    """
    before, may = answered.ask.checkpoint_before, answered.ask.work.permissions
    kinds = permissions.list_forbidden_changes(may)
    if not kinds or not before:
        return None
    undone = None
    if before != found.commit:
        if answered.ask.agent not in agent_calls.IN_PLACE:
            session.job.begin_restore(session.state.revision + 1, found.commit)
        undone = workspace.undo_changes(before, found.commit, kinds, partial(permissions.is_forbidden, may))
    if undone is None:
        session.job.end_restore()
    return undone


def observe_workspace(
    session: Session,
    workspace: Workspace,
    answered: Answered,
    answer: JudgedAnswer,
    before: str | None,
    after: Checkpoint | None,
    undone: Undone | None = None,
    checks: Sequence[CheckResult] = (),
    *,
    touched: bool = False,
) -> Observed:
    """Collect everything about the workspace and the limits that judging the answer depends on.

    `touched`: what is_workspace_touched returns.
    """
    project, ask = session.project, answered.ask
    changes: list[Change] = []
    omitted = 0
    compared = bool(before and after)
    if before and after:
        changes, omitted = workspace.list_changes(before, after.commit, CHANGES_RECORDED)
    return Observed(
        phase=ask.phase,
        role=ask.role,
        evidence=[workspace.check_evidence(path) for path in answer.evidence_files],
        changes=[change.model_copy(update={"path": project.redact_text(change.path)}) for change in changes],
        changes_omitted=omitted,
        unchanged=True if compared and _has_changed_nothing(answered, changes) else None,
        refusals=[*answered.reply.refusals, *_describe_breaches(project, ask.role, undone)],
        checks=list(checks),
        asks_verdict=True if _has_part(ask, VERDICT) else None,
        partial=True if touched or _is_partial(ask) else None,
        output_schema=ask.output_schema,
        not_restorable=[project.redact_text(name) for name in after.skipped] if after else [],
        found=after.commit if after and undone else None,
    )


def _has_changed_nothing(answered: Answered, changes: Sequence[Change]) -> bool:
    """True if a doer was called and changed nothing; with an answer supplied by hand, the work may be older."""
    is_doer = answered.ask.phase is Phase.DOER and answered.steward is None
    return is_doer and permissions.has_changed_nothing(answered.ask.work.permissions, changes)


def is_plan(ask: RecordedAsk, response: Response) -> bool:
    """True if the task was to plan: the role may not change any file."""
    is_completed = response.actions == [ExitAction.COMPLETED]
    is_answer_complete = (
        ask.phase is Phase.DOER and is_completed and not questions.is_question(response.output)
    )
    return is_answer_complete and not permissions.can_change_files(ask.work.permissions)


def is_workspace_touched(session: Session, workspace: Workspace, ask: RecordedAsk) -> bool:
    """True if the workspace was changed between the last answer and the reviewer's turn.

    What checks leave in caches does not count.
    """
    last_checkpoint, before = session.state.checkpoint, ask.checkpoint_before
    if ask.phase is not Phase.REVIEWER or not last_checkpoint or not before or last_checkpoint == before:
        return False
    return any(not change.cache for change in workspace.list_changes(last_checkpoint, before, sys.maxsize)[0])


def _has_part(ask: RecordedAsk, source: str) -> bool:
    """True if the prompt had that part.

    Prompts of an earlier Logist had neither the part about the verdict nor the one about missing changes.
    """
    return any(part.source == source for part in ask.request.parts)


def _is_partial(ask: RecordedAsk) -> bool:
    """True if a reviewer did not get all of the change, for lack of space or tokens."""
    if not _has_part(ask, VERDICT):
        return False
    rows = ask.request.metadata.get("context") or []
    is_cut = any(row.get("source") in CHANGED and row.get("cut") != "none" for row in rows)
    return is_cut or _has_part(ask, PARTIAL)


def _describe_breaches(project: ProjectContext, role: str, undone: Undone | None) -> list[Refusal]:
    if undone is None:
        return []
    breaches = [
        permissions.describe_breach(
            change.model_copy(update={"path": project.redact_text(change.path)}),
            role,
            undone=change.path not in undone.remaining,
        )
        for change in undone.changes
    ]
    if undone.more:
        breaches.append(Refusal(kind="workspace", role=role, message=f"and {undone.more} more changes"))
    return breaches
