"""`job step` and `job poststep`: read, plan, ask, record."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from logist import event_log
from logist.agents.protocol import MODEL_AGENTS
from logist.core.history import fold, merge_policy
from logist.core.machine import limits, steward
from logist.core.machine.limits import Halt
from logist.core.machine.machine import exit_code
from logist.core.machine.predecessors import describe_unmet
from logist.core.machine.steward import next_command
from logist.core.model import (
    Actor,
    EffectiveSpec,
    ErrorKind,
    Interaction,
    JsonObject,
    Kind,
    Phase,
    Reply,
    Status,
    Steward,
    Usage,
)
from logist.core.money import money
from logist.core.step import step
from logist.core.step.step import Idle, StepPlan
from logist.core.text import surrogates
from logist.errors import Busy, InvalidFile, LogistError, ProviderError, Refused, StorageError
from logist.event_log import events
from logist.jobs.base import budgets, family, free_space, predecessors
from logist.jobs.base.budgets import BudgetReached
from logist.jobs.base.result import CommandResult
from logist.jobs.base.session import Session, load_session, open_session
from logist.jobs.children import family_limits, gather
from logist.jobs.setup import remote_commands, workspace_setup
from logist.jobs.setup.command_host import JobHost
from logist.jobs.steward import approved_work, job_merge, steward_decisions
from logist.jobs.turn import (
    agent_calls,
    answer_recording,
    next_request,
    observation,
    outages,
    unfinished_turns,
)
from logist.jobs.turn.observation import Answered
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import RecordedAsk
    from logist.jobs.base.project import ProjectContext
    from logist.jobs.children.family_limits import PreparedCall
    from logist.jobs.turn.next_request import Choice
    from logist.store.provider_wait import ProviderWait
    from logist.workspace import Checkpoint

MOST_TRIES = 3
"""How often a step checks the limits again if they change while it checks them."""
AT_A_LIMIT = exit_code(Status.HALTED_COST)
NOTHING = Usage()
DETACHED = "the agent continues in the background; the next step waits for its answer and records it"


@dataclass(frozen=True)
class GivenAnswer:
    """An answer that a person supplies instead of an agent."""

    text: str
    broken: bool = False
    """It was not UTF-8, so it can't be a valid exit command."""
    charge: Usage = NOTHING


def do_step(project: ProjectContext, job_id: str, choice: Choice) -> CommandResult:
    """Do one step. Raises Refused if the job can't do a step, Busy while another process works on it.

    If the provider is not available, or a budget is used up, waits for it as long as `choice.provider_wait`, without the job's lock.
    """
    try:
        return _do_step(project, job_id, choice)
    except Exception as error:
        # A module or a schema of a newer version can fail in any way here. Nothing that is recorded depends on it.
        is_expected = isinstance(error, LogistError) and not isinstance(error, StorageError | InvalidFile)
        if not is_expected and project.was_upgraded(at_once=True):
            raise agent_calls.build_upgraded_error(project, job_id) from error
        raise


def _do_step(project: ProjectContext, job_id: str, choice: Choice) -> CommandResult:
    deadline = project.clock.monotonic() + choice.provider_wait
    result = _step_locked(project, job_id, choice)
    while result.wait is not None and outages.sleep_until_next_try(
        project, project.open_job(job_id), result.wait, deadline
    ):
        result = _step_locked(project, job_id, choice)
    if merge_policy.concerns_merge(result.state):
        result = job_merge.merge_due(project, result)
    steward_decisions.cancel_children(
        project, gather.find_unended_children(result.entries), f"{job_id} continues without it"
    )
    return result


def _step_locked(project: ProjectContext, job_id: str, choice: Choice) -> CommandResult:
    project.trust.require_to_run()  # before anything is written or paid for
    with open_session(
        project, job_id, f"job {choice.command}", wait=choice.wait, wait_for_courier=not project.detach
    ) as session:
        try:
            return _record_or_take_step(session, choice)
        except agent_calls.Detached:
            return _build_result(session, [], (DETACHED,))
        except outages.Outage as outage:
            return _build_waiting_result(session, outages.begin_wait(session, outage))
        except BudgetReached as reached:
            return _build_waiting_result(session, outages.begin_budget_wait(session, reached))


def _record_or_take_step(session: Session, choice: Choice) -> CommandResult:
    wait = None if choice.model or choice.role else outages.find_unfinished_wait(session)
    if wait is not None:
        return _build_waiting_result(session, wait)
    unsent = answer_recording.is_unsent(session)
    pending_entries = answer_recording.record_pending_answer(
        session, goes_on=partial(_is_still_current, session, choice)
    )
    if pending_entries:
        note = "recorded the outcome of an interrupted step; no new request was sent"
        return _build_result(session, pending_entries, (note,))
    if session.lock is not None and session.lock.waited_for_courier and not unsent:
        return _build_result(session, [], ("another command has finished the step that was in progress",))
    return _take_step(session, choice)


def _is_still_current(session: Session, choice: Choice, ask: RecordedAsk) -> bool:
    """True if an unfinished request would be the same now: same spec, role,
    model, agent and permissions. Prices may have fallen since.
    """
    spec, changed = session.detect_spec_change()
    phase = step.find_due_phase(session.state)
    if changed or phase is None or ask.phase != phase:
        return False
    family.require_wanted(session.project, session.state, session.job.id)
    options = (ask.request.command or {}).get("options") or {}
    choice = replace(choice, role=choice.role or ask.role, model=choice.model or options.get("model"))
    turn = next_request.plan_turn(session, spec, phase, choice)
    next_request.require_sandbox(session, turn)
    agent_calls.require_key(session.project, turn.agent, turn.model)
    tools = next_request.list_offered_tools(session.project, turn)
    work = agent_calls.describe_agent_work(session, turn.agent, turn.role, tools)
    same_agent = ask.agent == turn.agent or {ask.agent, turn.agent} <= MODEL_AGENTS
    same_work = (ask.spec, ask.role, ask.work) == (spec, turn.role.name, work)
    # Its cost is computed by the recorded prices: lower ones, in a job from elsewhere, could exceed the cost limit.
    enough = session.project.settings.allow_unknown_price or money.is_at_least_as_expensive(
        ask.model, turn.model
    )
    return same_agent and same_work and ask.model.is_called_like(turn.model) and enough


def _take_step(session: Session, choice: Choice, tries: int = 1) -> CommandResult:
    if session.state.merge == "due":
        return _build_result(session, [], ())
    next_request.refuse_ended(session)
    family.require_wanted(session.project, session.state, session.job.id)
    if session.state.status is Status.WAITING:
        return _gather_children(session)
    if session.state.place.spawns and session.state.status is Status.PENDING:
        return _spawn_children(session, choice, tries)
    idle, phase = step.find_idle_reason(session.state), step.find_due_phase(session.state)
    if idle or phase is None:
        assert idle is not None
        return _build_result(session, [], (_describe_idle(idle),))
    return _ask_due_agent(session, choice, phase, tries)


def _ask_due_agent(session: Session, choice: Choice, phase: Phase, tries: int) -> CommandResult:
    free_space.require_space(session.project)
    spec, changed = session.detect_spec_change()
    if held := _hold_for_predecessors(session, spec, changed):
        return held
    # Plan before anything is written: an unusable role, model, price or script is only reported.
    turn = next_request.plan_turn(session, spec, phase, choice)
    next_request.require_sandbox(session, turn)
    next_request.warn_without_gate(session.project, turn)
    if turn.sent:
        agent_calls.require_key(session.project, turn.agent, turn.model)
    provider = agent_calls.name_provider_of(session.project, turn.agent, turn.model)
    if wait := (
        None
        if choice.model or choice.role or not budgets.is_booked(session.project)
        else outages.find_budget_wait(session)
    ) or outages.find_wait(
        session, provider, agent_calls.bind_rates_of(session.project, turn.agent, turn.model)
    ):
        return _build_waiting_result(session, wait)
    if turn.sent:
        agent_calls.prepare_courier(session.project, turn.agent, turn.model)
    if changed:
        session.record(*changed)
    setup: JsonObject = {}
    if limits.find_reached_limit(spec, session.state.usage) is None:
        setup = _set_up(session, network=next_request.may_use_network(turn))
    workspace = session.project.open_workspace(session.job)
    checkpoint = workspace.create_checkpoint(f"before interaction {session.state.revision + 1}")
    prepared = family_limits.prepare_call(session, turn, workspace, checkpoint, setup)
    if isinstance(prepared, Halt):
        return _halt_limit_owner(session, spec, prepared, choice, tries)
    recorded = _ask_agent(session, prepared, checkpoint)
    if session.project.breakers is not None:
        session.project.breakers.close(provider)
    error = recorded.response.error
    if error is not None and error.budget:
        return _build_cut_off_result(session, recorded, BudgetReached(error, prepared.ask.role))
    return _build_result(session, [recorded], ())


def _set_up(session: Session, *, network: bool) -> JsonObject:
    """Set the workspace up where the commands of the job run; return what to record of it."""
    if session.project.workers is not None:
        return remote_commands.prepare_before_ask(session, network=network).record
    return workspace_setup.prepare_before_ask(JobHost(session), network=network).record


def _hold_for_predecessors(
    session: Session, spec: EffectiveSpec, changed: list[Interaction]
) -> CommandResult | None:
    """Return the result of a job that has to wait for others before it begins; None if it may begin, or has begun."""
    unmet = predecessors.find_unmet_of(session.project, session.job.id, session.state, spec.after or ())
    if not unmet:
        return None
    # The queue reads from the state which jobs this one waits for.
    recorded = session.record(*changed) if changed else []
    result = _build_result(session, recorded, (f"{describe_unmet(unmet)}; nothing was sent",))
    return replace(result, exit_code=AT_A_LIMIT, unmet=tuple(unmet))


def _halt_limit_owner(
    session: Session, spec: EffectiveSpec, halt: Halt, choice: Choice, tries: int
) -> CommandResult:
    """Halt the job that owns the limit: this one, or one above it, whose other children stop too."""
    if not halt.job:
        return _build_result(session, [_record_halt(session, spec, halt)], ())
    above = family_limits.halt_above(session, halt)
    if above is None and tries == MOST_TRIES:
        raise Busy(
            f"the limits of {halt.job} keep changing while its child jobs run",
            fix=f"logist job step --job {session.job.id}",
        )
    if above is None:  # its limit was raised in the meantime
        return _take_step(session, choice, tries + 1)
    note = f"{halt.job} is {above.status}: {above.reason}"
    return replace(_build_result(session, [], (note,)), exit_code=exit_code(above.status))


def _spawn_children(session: Session, choice: Choice, tries: int) -> CommandResult:
    """Give the step to child jobs; they are created here and run by themselves."""
    from logist.jobs.children import spawn  # noqa: PLC0415 - slow import: reads and checks workflows

    free_space.require_space(session.project)
    spec, changed = session.detect_spec_change()
    if held := _hold_for_predecessors(session, spec, changed):
        return held
    if changed:
        session.record(*changed)
    halt = spawn.find_spawn_halt(session, spec)
    if halt is not None:
        return _halt_limit_owner(session, spec, halt, choice, tries)
    recorded = spawn.spawn_children(session, spec, strict=choice.strict)
    kin = family.load_children(session.project, session.state)
    return _build_result(session, recorded, (family.describe_waiting(kin),) if kin else ())


def _gather_children(session: Session) -> CommandResult:
    """Create children that are missing, and gather the results once all of them have ended."""
    from logist.jobs.children import spawn  # noqa: PLC0415 - as above

    spawn.create_missing_children(session)
    kin = family.load_children(session.project, session.state)
    if not all(child.is_settled for child in kin):
        return _build_result(session, [], (family.describe_waiting(kin),))
    free_space.require_space(session.project)
    spec, changed = session.detect_spec_change()
    if changed:
        session.record(*changed)
    recorded = gather.gather_children(session, spec, kin)
    return _build_result(session, recorded, tuple(filter(None, [recorded[-1].reason])))


def _ask_agent(session: Session, prepared: PreparedCall, before: Checkpoint) -> Interaction:
    project, ask, plan = session.project, prepared.ask, prepared.plan
    if event_log.is_on():
        event_log.report(
            events.AgentAsked(
                session.state.revision + 1,
                session.state.place.step,
                ask.phase,
                plan.role.name,
                plan.agent,
                plan.model.provider_model,
            )
        )
    if project.function is not None:
        agent_calls.ask_function(session, ask, project.function, begun=prepared.begun)
        return answer_recording.record_courier_answer(session)
    if project.has_local_agent:
        observation.record_restore_point(session, ask)
        unchanged = None if agent_calls.may_change_files_in_place(session, ask) else before
        answered = Answered(ask, agent_calls.ask_in_place(session, ask))
        return answer_recording.record_answer(session, answered, unchanged=unchanged)
    suffix = "" if plan.agent in MODEL_AGENTS else f" via {plan.agent}"
    project.report_progress(f"asking {plan.role.name}{suffix} ({plan.model.provider_model})")
    if prepared.kept is None:
        agent_calls.ask_by_courier(session, ask, begun=prepared.begun)
    else:
        project.report_progress(
            f"continuing after turn {len(prepared.kept.turns)}, the last one that was answered"
        )
        agent_calls.ask_by_courier(
            session, unfinished_turns.resume_turns(session, prepared.kept, ask), begun=True
        )
    return answer_recording.record_courier_answer(session)


def _record_halt(session: Session, spec: EffectiveSpec, halt: Halt) -> Interaction:
    command = halt.to_command()
    after = steward.apply_command(Kind.HALT, session.state.place, command, spec)
    entry = session.build_interaction(
        Kind.HALT, after, actor=Actor.SYSTEM, reason=halt.reason, command=command
    )
    return session.record(entry)[0]


def do_poststep(
    project: ProjectContext,
    job_id: str,
    answer: GivenAnswer,
    choice: Choice,
    *,
    dry_run: bool = False,
    revision: int | None = None,
) -> CommandResult:
    """Like do_step, with an answer that is supplied. A dry run writes nothing.

    `revision`: refuse if the job is not at this revision any more; checked under the lock.
    """
    if dry_run:
        session = load_session(project, project.open_job(job_id))
        if reason := answer_recording.describe_pending_work(session):
            is_held = session.job.find_lock_holder() is not None
            raise Refused(reason, fix=f"logist job {'status' if is_held else 'step'} --job {job_id}")
        return _record_supplied_answer(session, answer, choice, dry_run=True)
    result = _poststep_locked(project, job_id, answer, choice, revision)
    return job_merge.merge_due(project, result) if merge_policy.concerns_merge(result.state) else result


def _poststep_locked(
    project: ProjectContext, job_id: str, answer: GivenAnswer, choice: Choice, revision: int | None
) -> CommandResult:
    project.trust.require_to_run()  # it may run checks
    with open_session(project, job_id, "job poststep", wait=choice.wait, wait_for_courier=True) as session:
        unsent = answer_recording.is_unsent(session)
        pending_entries = answer_recording.record_pending_answer(session)
        if pending_entries:
            note = "recorded the outcome of an interrupted step; the supplied answer was not used"
            return _build_result(session, pending_entries, (note,))
        if session.lock is not None and session.lock.waited_for_courier and not unsent:
            note = (
                "another command has finished the step that was in progress; the supplied answer was not used"
            )
            return _build_result(session, [], (note,))
        if revision is not None:
            approved_work.require_revision(session, revision)
        return _record_supplied_answer(session, answer, choice)


def _record_supplied_answer(
    session: Session, answer: GivenAnswer, choice: Choice, *, dry_run: bool = False
) -> CommandResult:
    next_request.refuse_ended(session)
    phase = step.find_owing_phase(session.state)
    if phase is None:
        fix = next_command(session.state, session.job.id)
        raise Refused(f"can't accept an answer: the job is {session.state.status}", fix=fix)
    spec, changed = session.detect_spec_change()
    step.find_judged_place(spec, session.state, session.job.id)
    turn = next_request.plan_turn(session, spec, phase, choice, sent=False)
    workspace = session.project.open_workspace(session.job)
    before = None
    if not dry_run:
        if changed:
            session.record(*changed)
        before = workspace.create_checkpoint("before a supplied answer")
    given = next_request.gather_context(session, turn, workspace, before)
    plan = next_request.plan_request(session, turn, given)
    assert isinstance(plan, StepPlan)
    commit = before.commit if before else session.state.checkpoint or ""
    ask = agent_calls.build_ask(session, spec, plan, commit)
    answered = Answered(ask, _build_reply(session.project, answer), Steward(name=session.project.steward))
    if dry_run:
        return _simulate_answer(session, answered)
    # A cost that the steward supplies replaces the amount that was booked for a call in doubt.
    releases = answer.charge.source == "steward"
    entry = answer_recording.record_answer(
        session, answered, simulated=True, releases=releases, unchanged=before
    )
    return _build_result(session, [entry], ())


def _build_reply(project: ProjectContext, answer: GivenAnswer) -> Reply:
    text, redactions = project.redact(surrogates.replace_surrogates(answer.text)[0])
    finish = "broken_encoding" if answer.broken else None
    return Reply(text=text, usage=answer.charge, finish=finish, redactions=redactions)


def _simulate_answer(session: Session, answered: Answered) -> CommandResult:
    project = session.project
    workspace = project.open_workspace(session.job)
    spec, state = answered.ask.spec, session.state
    judged = step.judge_answer(spec, state, answered.reply, project.schema)
    observed = observation.observe_workspace(session, workspace, answered, judged, None, None)
    outcome = step.conclude(spec, state, judged, observed)
    entry = session.build_interaction(
        Kind.ASK,
        outcome.place,
        actor=Actor.AGENT,
        attempt=answered.ask.attempt,
        reason=outcome.reason,
        route=outcome.route,
        response=outcome.response,
        observed=observed,
        simulated=True,
    )
    state = fold.apply_interaction(session.state, entry)
    note = "dry run: nothing was written"
    return CommandResult(
        session.job.id, state, (entry,), (note,), exit_code=exit_code(state.status), before=session.state
    )


def _describe_idle(waits: Idle) -> str:
    return f"{waits.status}: {waits.reason}" if waits.reason else str(waits.status)


def _build_result(session: Session, entries: list[Interaction], notes: tuple[str, ...]) -> CommandResult:
    state = session.state
    warnings = [warning for entry in entries for warning in entry.response.warnings]
    warnings += [
        f"not in any checkpoint, can't be restored: {name}"
        for entry in entries
        for name in _list_not_restorable(entry)
    ]
    code = exit_code(state.status)
    if state.status is Status.WAITING:
        code = family.waiting_exit_code(session.project, state)
    error = entries[-1].response.error if entries else None
    if code == 0 and error is not None:
        code = AT_A_LIMIT if error.kind is ErrorKind.SHARED_LIMIT else ProviderError.exit_code
    return CommandResult(session.job.id, state, tuple(entries), notes, tuple(warnings), code)


def _build_waiting_result(session: Session, wait: ProviderWait) -> CommandResult:
    result = _build_result(session, [], (outages.describe_wait(wait),))
    code = AT_A_LIMIT if wait.budget else ProviderError.exit_code
    return replace(result, exit_code=code, wait=wait)


def _build_cut_off_result(session: Session, recorded: Interaction, reached: BudgetReached) -> CommandResult:
    """Return the result of an agent program that reached a budget while it worked: the job waits for the budget."""
    wait = outages.begin_budget_wait(session, reached)
    note = f"waiting for {outages.describe_with_message(wait)}; the work so far is kept"
    return replace(_build_result(session, [recorded], (note,)), exit_code=AT_A_LIMIT)


def _list_not_restorable(entry: Interaction) -> list[str]:
    """The files that no checkpoint contains, except caches, which are never in one."""
    names = entry.observed.not_restorable if entry.observed else []
    return [name for name in names if not name.endswith("(cache)")]


def is_provider_failing(result: CommandResult) -> bool:
    """True if another call right away would fail in the same way."""
    error = result.entries[-1].response.error if result.entries else None
    return error is not None and error.kind in (ErrorKind.AUTH, ErrorKind.BAD_REQUEST, ErrorKind.REFUSED)
