"""Switches the role that does the work of a job, or undoes such a switch."""

from __future__ import annotations

from logist.core.history import fold
from logist.core.machine import steward
from logist.core.model import TERMINAL, EffectiveSpec, Kind, State, Status
from logist.core.model.commands import RoleCommand
from logist.jobs.base import specs
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import Session, load_session, open_session
from logist.jobs.steward import agent_stop, approved_work
from logist.jobs.turn import answer_recording
from logist.roles import role_hash


def find_needless_switch(project: ProjectContext, job_id: str, name: str | None) -> CommandResult | None:
    """The result of a switch that would change nothing; None if it would. Only reads, takes no lock.

    Raises UsageError for an unknown role, InvalidFile for a broken one.
    """
    _require_known(project, name)
    session = load_session(project, project.open_job(job_id))
    if session.state.status in TERMINAL:
        return None
    draft = session.state.status is Status.DRAFT
    return _describe_unchanged(session, specs.load_effective_spec(project, session.job, draft=draft), name)


def switch_role(
    project: ProjectContext,
    job_id: str,
    name: str | None,
    *,
    note: str | None = None,
    wait: float = 0.0,
    ends_agent: bool = False,
    revision: int | None = None,
) -> CommandResult:
    """Record that the role `name` does the work from now on; None: the role that the job itself names.

    It applies until the next switch, through restep and rerun too, and does not affect the reviewer.
    `ends_agent`: an agent that works on the job is ended first, and what is known of its answer recorded;
    without it, Busy. `revision`: refuse if the job is not at this revision any more; checked under the lock.
    Raises what `find_needless_switch` raises, and Refused for a job that has ended.
    """
    _require_known(project, name)
    if ends_agent:
        agent_stop.end_agent(project, job_id)
        wait = max(wait, agent_stop.LEAVE_SECONDS)
    with open_session(project, job_id, "job role", wait=wait) as session:
        settled = answer_recording.record_pending_first(session, then_refuse=not ends_agent)
        approved_work.require_revision(session, revision)
        _refuse_ended(session)
        spec, changed = session.detect_spec_change()
        if unchanged_result := _describe_unchanged(session, spec, name):
            return CommandResult(job_id, session.state, tuple(settled), unchanged_result.notes)
        command = _build_command(project, session.state, spec, name)
        note = project.redact_text(note) if note else None
        after = steward.apply_command(Kind.ROLE, session.state.place, command, spec, job=job_id)
        entry = session.build_interaction(Kind.ROLE, after, note=note, command=command, reason=note or "")
        recorded = session.record(*changed, entry)
        return CommandResult(job_id, session.state, (*settled, *recorded))


def _require_known(project: ProjectContext, name: str | None) -> None:
    if name is not None:
        project.roles.get(name)


def _refuse_ended(session: Session) -> None:
    """Raise Refused for a job that has ended, before reading its job.yaml,
    which may be unreadable by then.
    """
    state = session.state
    spec = EffectiveSpec(title=state.title)
    steward.apply_command(Kind.ROLE, state.place, RoleCommand(to=""), spec, job=session.job.id)


def _describe_unchanged(session: Session, spec: EffectiveSpec, name: str | None) -> CommandResult | None:
    """The result if that role does the work already, or if there is no switch to undo; else None."""
    job_id, state = session.job.id, session.state
    role, source = fold.find_doer(spec, state)
    if name == role:
        note = f"{job_id} already has the role {role} ({source}): nothing recorded"
    elif name is None and not fold.is_switched(state):
        note = f"{job_id} has no role switch to undo: its role is {role} ({source}); nothing recorded"
    else:
        return None
    return CommandResult(job_id, state, (), (note,))


def _build_command(
    project: ProjectContext, state: State, spec: EffectiveSpec, name: str | None
) -> RoleCommand:
    """What the interaction records: both roles, and everything that listings display of the new one."""
    role = spec.doer if name is None else name
    loaded = project.roles.by_name.get(role)
    marks = specs.find_role_marks(project, role)
    return RoleCommand(
        from_role=fold.find_doer(spec, state)[0],
        to=role,
        source=spec.doer_source if name is None else fold.SWITCH,
        badge=marks["badge"] or None,
        color=marks["color"] or None,
        sha256=role_hash(loaded.role) if loaded else None,
    )
