"""The switch of role: the steward puts another role into the doer's place, or takes it out again."""

from __future__ import annotations

from logist.core.history import fold
from logist.core.machine import steward
from logist.core.model import TERMINAL, EffectiveSpec, Kind, State, Status
from logist.core.model.commands import RoleCommand
from logist.jobs.base import specs
from logist.jobs.base.project import Project
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import Session, changing, load
from logist.jobs.steward import agent_stop
from logist.jobs.turn import answer_recording
from logist.roles import role_hash


def needless(project: Project, job_id: str, name: str | None) -> CommandResult | None:
    """What a switch comes to that changes nothing; None for one that does. Looks only, and takes no lock.

    Raises UsageError for a role that nobody knows, InvalidFile for one that is broken.
    """
    _known(project, name)
    session = load(project, project.job(job_id))
    if session.state.status in TERMINAL:
        return None
    draft = session.state.status is Status.DRAFT
    return _unchanged(session, specs.asked(project, session.job, draft=draft), name)


def switch(
    project: Project,
    job_id: str,
    name: str | None,
    *,
    note: str | None = None,
    wait: float = 0.0,
    ends_agent: bool = False,
) -> CommandResult:
    """Records that the role `name` does the work from here on; None: the one that the job itself says.

    It holds until the next switch, over restep and rerun too, and stays away from the reviewer.
    `ends_agent`: an agent at work on the job is ended first, and what is known of its answer recorded;
    without it, Busy. Raises what `needless` does, and Refused for a job that has ended.
    """
    _known(project, name)
    if ends_agent:
        agent_stop.end_agent(project, job_id)
        wait = max(wait, agent_stop.LEAVE_SECONDS)
    with changing(project, job_id, "job role", wait=wait) as session:
        settled = answer_recording.settle_first(session, then_refuse=not ends_agent)
        _refuse_ended(session)
        spec, changed = session.changed_spec()
        if same := _unchanged(session, spec, name):
            return CommandResult(job_id, session.state, tuple(settled), same.notes)
        command = _command(project, session.state, spec, name)
        note = project.redacted(note) if note else None
        after = steward.decide(Kind.ROLE, session.state.place, command, spec, job=job_id)
        entry = session.entry(Kind.ROLE, after, note=note, command=command, reason=note or "")
        recorded = session.record(*changed, entry)
        return CommandResult(job_id, session.state, (*settled, *recorded))


def _known(project: Project, name: str | None) -> None:
    if name is not None:
        project.roles.get(name)


def _refuse_ended(session: Session) -> None:
    """Before job.yaml is looked at, which need not be readable any more."""
    state = session.state
    spec = EffectiveSpec(title=state.title)
    steward.decide(Kind.ROLE, state.place, RoleCommand(to=""), spec, job=session.job.id)


def _unchanged(session: Session, spec: EffectiveSpec, name: str | None) -> CommandResult | None:
    """That the role does the work already, or that there is no switch to take back."""
    job_id, state = session.job.id, session.state
    role, source = fold.doer(spec, state)
    if name == role:
        said = f"{job_id} has the role {role} already ({source}): nothing was recorded"
    elif name is None and not fold.is_switched(state):
        said = f"the role of {job_id} was not switched: it is {role} ({source}); nothing was recorded"
    else:
        return None
    return CommandResult(job_id, state, (), (said,))


def _command(project: Project, state: State, spec: EffectiveSpec, name: str | None) -> RoleCommand:
    """What the interaction records: who takes over from whom, and all that listings show of the new role."""
    role = spec.doer if name is None else name
    known = project.roles.by_name.get(role)
    shown = specs.marks(project, role)
    return RoleCommand(
        from_role=fold.doer(spec, state)[0],
        to=role,
        source=spec.doer_source if name is None else fold.SWITCH,
        badge=shown["badge"] or None,
        color=shown["color"] or None,
        sha256=role_hash(known.role) if known else None,
    )
