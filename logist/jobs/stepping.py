"""`job step`, `job poststep`, `job preview`: read, plan, ask, conclude, write."""

from __future__ import annotations

from dataclasses import dataclass, field

from logist.core import prompt, step, steward
from logist.core.machine import exit_code, next_command
from logist.core.model import (
    TERMINAL,
    Actor,
    Change,
    EffectiveSpec,
    ErrorKind,
    Interaction,
    JsonObject,
    Kind,
    Model,
    Phase,
    Reply,
    Role,
    State,
    Status,
    Steward,
    Usage,
)
from logist.core.step import Bounds, Halt, Idle, StepPlan
from logist.errors import InvalidFile, Refused
from logist.jobs import asking, hooks, specs
from logist.jobs.project import Project
from logist.jobs.session import Session, changing, load
from logist.workspace import Workspace

PROVIDER = 6
NOTHING = Usage()


@dataclass(frozen=True)
class Choice:
    """What a person may choose for one step."""

    role: str | None = None
    model: str | None = None
    wait: float = 0.0
    command: str = "step"


@dataclass(frozen=True)
class Result:
    """Where a job stands after a command, and what the command recorded."""

    job_id: str
    state: State
    entries: tuple[Interaction, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    exit_code: int = field(default=0)

    @property
    def next_command(self) -> str:
        return next_command(self.state.place(), self.job_id)


@dataclass(frozen=True)
class Answer:
    """An answer that is given instead of asked for."""

    text: str
    warnings: tuple[str, ...] = ()
    broken: bool = False
    """It was not UTF-8, so it can't be a valid exit command."""
    charge: Usage = NOTHING


def do_step(project: Project, job_id: str, choice: Choice) -> Result:
    """One step. Raises Refused for a job that takes none, Busy for one at which others are at work."""
    with changing(
        project, job_id, f"job {choice.command}", wait=choice.wait, wait_for_courier=True
    ) as session:
        before = session.state.status
        settled = asking.settle(session)
        if settled:
            note = "concluded what an earlier step had left in flight; nothing was asked"
            return _result(session, settled, before, (note,))
        if session.lock is not None and session.lock.waited_for_courier:
            return _result(session, [], before, ("another command concluded the step that was under way",))
        return _step(session, choice, before)


def _step(session: Session, choice: Choice, before: Status) -> Result:
    _refuse_terminal(session.state)
    waits = step.idle(session.state)
    if waits:
        return _result(session, [], before, (_waiting(waits),))
    spec = session.refreshed_spec()
    phase = step.turn(session.state)
    assert phase is not None
    halt = step.halted(spec, session.state.usage)
    if halt is None:
        role = _role(session.project, spec, phase, choice, session.state)
        workspace = session.project.workspace(session.job)
        kept = workspace.checkpoint(f"before interaction {session.state.revision + 1}")
        plan = planned(session, spec, role, choice, phase, workspace)
        if isinstance(plan, StepPlan):
            return _result(session, [_ask(session, spec, plan, kept.commit)], before, ())
        halt = plan
    return _result(session, [_halt(session, halt)], before, ())


def _ask(session: Session, spec: EffectiveSpec, plan: StepPlan, checkpoint: str) -> Interaction:
    project = session.project
    asked = asking.envelope(session, spec, plan, checkpoint)
    if project.script is not None:
        reply = asking.in_place(session, asked)
        return asking.conclude(session, asking.Given(spec, asked, reply))
    if plan.reserved_microcents is None and not project.settings.allow_unknown_price:
        raise InvalidFile(
            f"the price of model {plan.model.name!r} is unknown, so a cost limit can't be kept",
            where=f"models.{plan.model.name}",
            fix="set input_price and output_price (dollars per million tokens), or allow_unknown_price: true",
        )
    project.say(f"asking {plan.role.name} ({plan.model.provider_model})")
    name = plan.model.api_key_env
    asking.by_courier(session, asked, project.environment.key(name) if name else None)
    return asking.harvest(session)


def _halt(session: Session, halt: Halt) -> Interaction:
    from_place = session.state.place()
    command = {"limit": halt.limit.value}
    after = steward.decide(Kind.HALT, from_place, command, specs_of(session))
    entry = session.entry(Kind.HALT, after, actor=Actor.SYSTEM, reason=halt.reason, command=command)
    return session.record(entry)[0]


def specs_of(session: Session) -> EffectiveSpec:
    return specs.effective(session.project, specs.read(session.job))


def planned(
    session: Session,
    spec: EffectiveSpec,
    role: Role,
    choice: Choice,
    phase: Phase,
    workspace: Workspace,
    *,
    given: bool = False,
) -> StepPlan | Halt:
    """The exact request of the next step, from the workspace as it stands.

    `given`: it will not be sent, since the answer is there; so no model is needed, and no money.
    """
    project = session.project
    name = choice.model or role.llm_model
    model = Model(name=name, provider_model=f"given/{name}") if given else project.model(name)
    bounds = Bounds(min_output_tokens=project.settings.min_output_tokens, redact=project.redact)
    free = given or project.script is not None
    seen = gathered(session, spec, workspace, phase)
    plan = step.plan(spec, session.state, role, model, seen, bounds, phase=phase, free=free)
    if isinstance(plan, Halt):
        return plan
    command = {"action": choice.command, "job_id": session.job.id, "options": _options(choice)}
    request = plan.request.model_copy(update={"command": command})
    return StepPlan(
        plan.phase,
        plan.role,
        plan.model,
        request,
        plan.attempt,
        plan.max_output_tokens,
        plan.reserved_microcents,
    )


def _options(choice: Choice) -> JsonObject:
    return {"model": choice.model} if choice.model else {}


def gathered(session: Session, spec: EffectiveSpec, workspace: Workspace, phase: Phase) -> prompt.Given:
    """What the prompt takes from the workspace: listing, the files that matter, what the doer changed."""
    state, limits = session.state, session.project.settings.context
    listing = workspace.listing(limits.listing_limit)
    last = state.last.evidence_files if state.last else []
    files, room = [], limits.max_total_bytes
    for path in dict.fromkeys([*spec.files, *last]):
        file = workspace.read_file(path, min(limits.max_file_bytes, room))
        files.append(prompt.FileText(file.path, file.text, file.note))
        room -= len((file.text or "").encode("utf-8"))
    changes: list[Change] = []
    omitted = 0
    if state.start_checkpoint and state.checkpoint and phase is Phase.REVIEWER:
        changes, omitted = workspace.changes(state.start_checkpoint, state.checkpoint, limits.listing_limit)
    return prompt.Given(listing.paths, listing.omitted, files, changes, omitted)


def _role(project: Project, spec: EffectiveSpec, phase: Phase, choice: Choice, state: State) -> Role:
    """The role that was chosen, else the one that got stuck, else the one whose turn it is."""
    default = spec.doer if phase is Phase.DOER else spec.reviewer
    stuck = state.stuck.role if state.stuck else None
    return project.roles.get(choice.role or stuck or default)


def preview(project: Project, job_id: str, choice: Choice) -> tuple[State, StepPlan | Halt | Idle]:
    """What `step` would send now; writes nothing and takes no lock."""
    session = load(project, project.job(job_id))
    _refuse_terminal(session.state)
    waits = step.idle(session.state)
    phase = step.turn(session.state)
    if waits or phase is None:
        assert waits is not None
        return session.state, waits
    spec = specs_of(session)
    halt = step.halted(spec, session.state.usage)
    if halt:
        return session.state, halt
    role = _role(project, spec, phase, choice, session.state)
    workspace = project.workspace(session.job)
    return session.state, planned(session, spec, role, choice, phase, workspace)


def poststep(
    project: Project, job_id: str, answer: Answer, choice: Choice, *, dry_run: bool = False
) -> Result:
    """The same as a step, with an answer that is given. A dry run writes nothing."""
    if dry_run:
        session = load(project, project.job(job_id))
        return _supplied(session, answer, choice, dry_run=True)
    with changing(project, job_id, "job poststep", wait=choice.wait, wait_for_courier=True) as session:
        before = session.state.status
        settled = asking.settle(session)
        if settled:
            note = "concluded what an earlier step had left in flight; the given answer was not used"
            return _result(session, settled, before, (note,))
        return _supplied(session, answer, choice)


def _supplied(session: Session, answer: Answer, choice: Choice, *, dry_run: bool = False) -> Result:
    before = session.state.status
    _refuse_terminal(session.state)
    phase = step.owed_by(session.state)
    if phase is None:
        fix = next_command(session.state.place(), session.job.id)
        raise Refused(f"a job that is {session.state.status} takes no answer", fix=fix)
    spec, changed = session.changed_spec()
    step.standing(spec, session.state)
    role = _role(session.project, spec, phase, choice, session.state)
    workspace = session.project.workspace(session.job)
    checkpoint = session.state.checkpoint or ""
    if not dry_run:
        if changed:
            session.record(*changed)
        checkpoint = workspace.checkpoint("before an answer was given").commit
    plan = planned(session, spec, role, choice, phase, workspace, given=True)
    assert isinstance(plan, StepPlan)
    asked = asking.envelope(session, spec, plan, checkpoint)
    asked["steward"] = Steward(name=session.project.steward).model_dump(mode="json")
    given = asking.Given(spec, asked, _reply(session.project, answer))
    if dry_run:
        return _dry(session, given)
    return _result(session, [asking.conclude(session, given, simulated=True)], before, ())


def _reply(project: Project, answer: Answer) -> Reply:
    text, redactions = project.redact(answer.text)
    return Reply(
        text=text,
        usage=answer.charge,
        finish="broken_encoding" if answer.broken else None,
        redactions=redactions,
        warnings=answer.warnings,
    )


def _dry(session: Session, given: asking.Given) -> Result:
    project = session.project
    workspace = project.workspace(session.job)
    seen = asking.observe(project, workspace, given, None, None)
    outcome = step.conclude(given.spec, session.state, given.reply, seen, project.schema)
    entry = session.entry(
        Kind.ASK,
        outcome.place,
        actor=Actor.AGENT,
        attempt=given.envelope["attempt"],
        reason=outcome.reason,
        response=outcome.response,
        observed=seen,
        simulated=True,
    )
    place = outcome.place
    state = session.state.model_copy(update={name: getattr(place, name) for name in type(place).model_fields})
    return Result(
        session.job.id, state, (entry,), ("dry run: nothing was written",), exit_code=exit_code(place.status)
    )


def _refuse_terminal(state: State) -> None:
    if state.status in TERMINAL:
        raise Refused(
            f"the job has ended: {state.status}", fix="logist job rerun, or logist job restep --to N"
        )


def _waiting(waits: Idle) -> str:
    return f"{waits.status}: {waits.reason}" if waits.reason else str(waits.status)


def _result(session: Session, entries: list[Interaction], before: Status, notes: tuple[str, ...]) -> Result:
    state = session.state
    warnings = [warning for entry in entries for warning in entry.response.warnings]
    if state.status is Status.STUCK and before is not Status.STUCK:
        warnings += hooks.on_stuck(session.project, session.job, state)
    code = exit_code(state.status)
    error = entries[-1].response.error if entries else None
    if code == 0 and error is not None:
        code = PROVIDER
    return Result(session.job.id, state, tuple(entries), notes, tuple(warnings), code)


def provider_is_out(result: Result) -> bool:
    """Whether asking again at once would fail in the same way."""
    error = result.entries[-1].response.error if result.entries else None
    return error is not None and error.kind in (ErrorKind.AUTH, ErrorKind.BAD_REQUEST, ErrorKind.REFUSED)
