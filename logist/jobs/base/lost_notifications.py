"""Sends the notifications that a killed command left in `.notify`."""

from __future__ import annotations

import os

from logist.core.history import fold
from logist.core.model import State
from logist.errors import LogistError
from logist.jobs.base import hooks
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.session import load_session
from logist.store import JobDir, due_notifications
from logist.store.due_notifications import DueNotification


def send_lost_notifications(project: ProjectContext) -> None:
    """Run the hooks of recorded events whose command was killed; forget those that were never recorded."""
    for due in due_notifications.list_due(project.jobs_dir):
        if not due.job:
            continue  # `logist run` owns it
        fd = due_notifications.claim_due(project.jobs_dir, due)
        if fd is None:
            continue  # another command is about to send it
        try:
            state = _find_state_after(project, due)
        except LogistError:
            os.close(fd)  # it is sent when the job can be read again; the next step reports the problem
            continue
        if state is None:
            due_notifications.remove_due(project.jobs_dir, due, fd)
        else:
            hooks.send_notifications(project, [hooks.HeldNotification(due, state, fd)])


def _find_state_after(project: ProjectContext, due: DueNotification) -> State | None:
    """Return the state of the job right after the event; None if the history has no such event."""
    path = project.jobs_dir / due.job
    if not os.path.lexists(path):
        return None
    session = load_session(project, JobDir.open(project.jobs_dir, due.job))
    if session.state.revision < due.sequence:
        return None
    history = session.load_history()
    after = fold.fold_before(history, due.sequence + 1)
    before = fold.fold_before(history, due.sequence) if due.sequence > 1 else None
    return after if hooks.find_event(before, after) == due.event else None
