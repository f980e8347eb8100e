"""Judges and records answers, when they arrive or in a later command. No other module records answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logist import workspace as workspaces
from logist.agents import sandbox, workplace
from logist.agents.courier import ask_files
from logist.core.history import fold
from logist.core.machine.steward import next_command
from logist.core.model import (
    Actor,
    ExitAction,
    Interaction,
    Kind,
    Observed,
    State,
)
from logist.core.model.commands import RecoverCommand
from logist.core.step import step
from logist.core.template import data
from logist.errors import LogistError, ProviderError, Refused, Stopped
from logist.jobs.base import budgets, transcript
from logist.jobs.turn import (
    agent_calls,
    answer_forms,
    check_runs,
    doubtful_payments,
    errands,
    late_results,
    observation,
    outages,
    unfinished_turns,
)
from logist.workspace.files import removal

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import RecordedAsk
    from logist.jobs.base.session import Session
    from logist.workspace import Checkpoint


def record_pending_answer(
    session: Session,
    *,
    goes_on: Callable[[RecordedAsk], bool] = lambda ask: False,
    unchecked: bool = False,
    just_answered: bool = False,
) -> list[Interaction]:
    """Record the outcome that an earlier command left in flight; empty if there was none.

    `just_answered`: this command has asked for it, so no check of an earlier command can be running.

    An answer on disk is recorded as if it had just arrived; if nothing was sent, nothing has changed; a
    request sent without an answer is in doubt. A model that was ended between two turns resumes if `goes_on`
    returns True for its envelope; otherwise it is given up: its cost is recorded, and the workspace is
    restored.
    """
    restore_point = unfinished_turns.undo_cut_off_restore(session)
    budgets.settle_calls(session)
    collected = _collect_unrecorded(session)
    if collected is not None and collected.ask is not None and collected.ask.is_away:
        errands.collect_away(session)
        budgets.settle_calls(session)
        collected = _collect_unrecorded(session)
    if _may_resume(session, collected, goes_on):
        assert collected is not None
        collected = _resume_answer(session, collected)
    if collected is None or collected.ask is None:
        session.job.end_exchanges()
        return []
    if step.find_due_phase(session.state) is None:
        return []  # the job has ended or is suspended: the answer stays until the job is resumed
    ask = collected.ask
    answer_forms.remember_refusal(session.project, ask, session.job.read_exchanges())
    answered = observation.Answered(ask, collected.reply)
    # The search reads all processes of the machine several times: milliseconds that most answers don't need.
    if not just_answered or agent_calls.may_run_programs(ask.agent, ask.work.permissions):
        _end_leftover_processes(ask)
    removal.remove_directory(
        session.job.inflight / workplace.RUN / "home"
    )  # may be nested deeper than files.remove_tree can handle
    if collected.kind == "unfinished":
        return [_record_given_up_answer(session, answered)]
    if collected.kind == "in_doubt":
        return [_record_doubtful_answer(session, answered)]
    if ask.phase != step.find_due_phase(session.state) or ask.step != session.state.step:
        return [_record_late_answer(session, answered)]
    return [record_answer(session, answered, found=restore_point, unchecked=unchecked)]


def _may_resume(
    session: Session, got: ask_files.Collected | None, goes_on: Callable[[RecordedAsk], bool]
) -> bool:
    """True if a half-done answer is still valid: no decision since, and the request would be the same.

    Files that came with a copied job are not trusted: resuming with them runs the commands they contain.
    """
    if (
        got is None
        or got.kind != "unfinished"
        or got.ask is None
        or step.find_due_phase(session.state) is None
    ):
        return False
    return got.ask.after == session.position.hash and goes_on(got.ask)


def _resume_answer(session: Session, got: ask_files.Collected) -> ask_files.Collected | None:
    """Resume with the courier, then collect what is on disk."""
    ask = got.ask
    assert ask is not None
    _end_leftover_processes(ask)
    session.project.report_progress(f"continuing the unfinished answer of {ask.role}")
    agent_calls.ask_by_courier(session, ask, begun=True)
    session.require_unmoved()
    collected = _collect_unrecorded(session)
    if collected is not None and collected.kind == "unfinished":
        if not session.project.stopping():
            outages.raise_for_outage(session, ask_files.collect_ask(session.job.read_exchanges()))
        raise _cut_off_error(session, ask)
    return collected


def _cut_off_error(session: Session, ask: RecordedAsk | None) -> LogistError:
    """The error that the agent was ended between two of its turns; all that was paid for is on disk."""
    if ask is not None:
        _end_leftover_processes(ask)
    fix = f"to continue from there without paying again, run: logist job step --job {session.job.id}"
    if session.project.stopping() == agent_calls.INTERRUPTED:
        return Stopped("stopped between two turns of the agent; its work so far is saved", fix=fix)
    return ProviderError(
        "the agent was stopped between two of its turns; its work so far is saved",
        where=str(session.job.logs / "courier.log"),
        fix=fix,
    )


def _end_leftover_processes(ask: RecordedAsk) -> None:
    """End the processes that a killed courier left in the workspace."""
    if ask.work.marker:
        sandbox.end_leftover_processes(ask.work.marker)


def _collect_unrecorded(session: Session) -> ask_files.Collected | None:
    """Collect what is in flight and not recorded yet; None if nothing is, or nothing was sent."""
    exchanges = session.job.read_exchanges()
    return _find_unrecorded(session, ask_files.collect_ask(exchanges)) if exchanges else None


def _find_unrecorded(session: Session, got: ask_files.Collected) -> ask_files.Collected | None:
    nothing_charged = got.kind in ("not_sent", "unavailable")
    return None if got.ask is None or nothing_charged or is_recorded(session, got.ask) else got


def is_recorded(session: Session, ask: RecordedAsk) -> bool:
    """True if the history has the outcome of this request, possibly after a decision recorded in between."""
    if ask.sequence > session.state.revision:
        return False
    return ask.after is None or any(
        _find_request_origin(entry) == ask.after for entry in session.load_history()
    )


def _find_request_origin(entry: Interaction) -> str | None:
    """The checksum of the entry before the request whose outcome `entry` is;
    None if it is not such an outcome.
    """
    return (entry.exchange or entry.previous) if fold.is_agent_asked(entry) else None


def describe_pending_work(session: Session) -> str:
    """Why the next changing command first records or undoes something; empty if it does not."""
    got = _collect_unrecorded(session) if step.find_due_phase(session.state) is not None else None
    if got is not None and got.ask is not None and got.ask.errand is not None and got.ask.is_away:
        return errands.describe_work(got.ask.errand)
    if got is not None:
        return "a step is in progress or not recorded yet: the next command records its result without a new request"
    if not session.find_unfinished_restore():
        return ""
    setup, holder = session.job.is_restore_for_setup(), session.job.find_lock_holder()
    if holder is not None:
        return f"the workspace is being {'set up' if setup else 'changed'}: {holder}"
    what = "the workspace setup" if setup else "a command that changed the workspace"
    return f"{what} was interrupted: the next command restores the workspace"


def is_unsent(session: Session) -> bool:
    """True if a courier ended before it sent its request; then no other
    command recorded an outcome either.
    """
    exchanges = session.job.read_exchanges()
    return bool(exchanges) and _is_unsent(session, ask_files.collect_ask(exchanges))


def _is_unsent(session: Session, got: ask_files.Collected) -> bool:
    return got.kind == "not_sent" and got.ask is not None and not is_recorded(session, got.ask)


def record_pending_first(
    session: Session, *, then_refuse: bool = False, at_any_price: bool = False
) -> list[Interaction]:
    """Record a pending answer and report it.

    `then_refuse`: raise Refused after that, because the person decided without knowing this answer.
    `at_any_price`: nothing in flight, not even unreadable files, keeps a job from being ended; such files
    stay. Checks are not waited for either.
    """
    try:
        entries = record_pending_answer(session, unchecked=at_any_price)
    except LogistError as error:
        if not at_any_price:
            raise
        session.project.say(f"can't record the result of an earlier step; it stays in inflight/: {error}")
        return []
    if entries:
        status = session.state.status
        session.project.say(f"recorded the result of an earlier step: {session.job.id} is now {status}")
        if then_refuse:
            fix = f"run: logist job status --job {session.job.id}, then decide"
            raise Refused(f"an answer has arrived in the meantime; the job is now {status}", fix=fix)
    return entries


def record_courier_answer(session: Session) -> Interaction:
    """Record what the courier received. Raises ProviderError if it never sent anything, Outage if the provider was
    not available.

    After Ctrl-C, what is known is recorded, and Stopped says so.
    """
    session.require_unmoved()
    got = ask_files.collect_ask(session.job.read_exchanges())
    if not session.project.stopping():
        outages.raise_for_outage(session, got)
    collected = _find_unrecorded(session, got)
    if collected is not None and collected.kind == "unfinished":
        raise _cut_off_error(session, collected.ask)
    unsent = _is_unsent(session, got)
    entries = record_pending_answer(session, just_answered=True)
    if session.project.stopping() == agent_calls.INTERRUPTED:
        raise _interrupted_error(session, entries, was_unavailable=got.outage is not None)
    if not entries:
        raise _nothing_to_record_error(session, got, unsent=unsent)
    return entries[0]


def _nothing_to_record_error(session: Session, got: ask_files.Collected, *, unsent: bool) -> ProviderError:
    log, job_id = str(session.job.logs / "courier.log"), session.job.id
    if unsent and got.reply.error is not None:
        fix = "then run the command again; nothing was sent or recorded"
        return ProviderError(session.project.redact_text(got.reply.error.message), fix=fix)
    if unsent:
        message = "the agent was stopped, or failed to start, before a request was sent; nothing was charged"
        return ProviderError(
            message,
            where=log,
            fix=f"to try again, run: logist job step --job {job_id}; if it fails again, read this file",
        )
    return ProviderError(
        "the agent ended, but left no answer to record",
        where=log,
        fix=f"to see whether another command recorded it, run: logist job history --job {job_id}",
    )


class StoppedAndRecorded(Stopped):
    """Ctrl-C ended the agent, and what is known of its work was recorded: a `logist run` adds that to its sums."""

    def __init__(self, message: str, *, fix: str, state: State, entries: Sequence[Interaction]) -> None:
        super().__init__(message, fix=fix)
        self.state = state
        self.entries = tuple(entries)


def _interrupted_error(session: Session, entries: list[Interaction], *, was_unavailable: bool) -> Stopped:
    job_id, place = session.job.id, session.state.place
    if was_unavailable:
        message = "stopped; the provider was not available, and nothing was charged"
        return Stopped(message, fix=next_command(session.state, job_id))
    if not entries:
        return Stopped("stopped before a request was sent", fix=next_command(session.state, job_id))
    message = f"stopped; results so far are recorded: {job_id} is now {place.status}"
    reason = f" ({session.state.reason})" if session.state.reason else ""
    fix = next_command(session.state, job_id)
    return StoppedAndRecorded(message + reason, fix=fix, state=session.state, entries=entries)


def record_answer(
    session: Session,
    answered: observation.Answered,
    *,
    simulated: bool = False,
    releases: bool = False,
    found: str | None = None,
    unchecked: bool = False,
    unchanged: Checkpoint | None = None,
) -> Interaction:
    """Judge an answer and record it. No other function records answers.

    `unchecked`: the commands of checks do not run, so these checks do not pass.
    `unchanged`: the checkpoint that was just made, if no agent has had the workspace since; it is not scanned again.
    `found`: the checkpoint of the workspace as the agent left it, if an earlier command made it and was cut
    off. It may contain files that no later checkpoint can.
    """
    ask = answered.ask
    before = ask.checkpoint_before
    workspace = session.project.open_workspace(session.job)
    answer = step.judge_answer(ask.spec, session.state, answered.reply, session.project.schema)
    checkpoint_left = unchanged or workspace.create_checkpoint(
        f"after interaction {session.state.revision + 1}"
    )
    checkpoint_left = workspaces.Checkpoint(found) if found else checkpoint_left
    undone = (
        None
        if simulated
        else observation.undo_forbidden_changes(session, workspace, answered, checkpoint_left)
    )
    checkpoint_kept = undone.kept if undone else checkpoint_left
    touched = observation.is_workspace_touched(session, workspace, ask)
    check_results = (
        []
        if undone
        else check_runs.run_due_checks(
            session, ask, answer, checkpoint_left.commit, unchecked=unchecked, touched=touched
        )
    )
    observed = observation.observe_workspace(
        session, workspace, answered, answer, before, checkpoint_left, undone, check_results, touched=touched
    )
    outcome = step.conclude(ask.spec, session.state, answer, observed)
    transcript.write_transcript(session)
    kept_turns = None if observed.refusals else _save_turns_before_error(session, answered)
    by_hand = simulated and outcome.response.actions == [ExitAction.COMPLETED]
    output = outcome.response.output
    results = data.to_children_results(ask.spec, ask.step, output) if by_hand else None
    command = step.recorded(outcome, results).model_copy(
        update={
            "turns_kept": kept_turns,
            "plan": observation.is_plan(ask, outcome.response) or None,
        }
    )
    if releases:
        command = doubtful_payments.release(session, command)
    entry = _build_entry(
        session,
        Kind.ASK,
        answered,
        outcome,
        observed,
        (before, checkpoint_kept.commit),
        simulated=simulated,
        steward=answered.steward,
        command=command,
    )
    recorded = session.record(entry)[0]
    if simulated:
        released = command.released_of
        booked = late_results.find_booked(session, released) if released is not None else 0
        budgets.book_supplied_cost(session, ask, answered.reply.usage, booked)
    if undone or check_results:
        session.job.end_restore()
    return recorded


def _save_turns_before_error(session: Session, answered: observation.Answered) -> int | None:
    """Save the turns before a failed one: a later step may resume after them."""
    return (
        unfinished_turns.save_completed_turns(session, session.job.read_exchanges())
        if answered.reply.error
        else None
    )


def _record_given_up_answer(session: Session, answered: observation.Answered) -> Interaction:
    """Record the cost of an agent that was ended between two turns, and restore the workspace."""
    outcome = step.conclude_given_up(answered.ask.spec, session.state, answered.ask.role)
    booked = RecoverCommand(in_doubt_microcents=0, given_up=True)
    return _record_rolled_back(session, answered, outcome, booked)


def _record_doubtful_answer(session: Session, answered: observation.Answered) -> Interaction:
    """Record the worst-case cost, restore the workspace, and leave the question to a steward."""
    if answered.ask.is_away:
        late_results.note_away(session, answered.ask)
    outcome = step.conclude_in_doubt(answered.ask.spec, session.state, answered.ask.role)
    exchanges = session.job.read_exchanges()
    booked = RecoverCommand(
        in_doubt_microcents=ask_files.read_reserved(exchanges) or 0,
        turns_kept=unfinished_turns.save_completed_turns(session, exchanges),
    )
    return _record_rolled_back(session, answered, outcome, booked)


def _record_rolled_back(
    session: Session, answered: observation.Answered, outcome: step.Outcome, booked: RecoverCommand
) -> Interaction:
    """Record a request without an answer to judge, with the workspace restored to what it was before."""
    ask = answered.ask
    before = ask.checkpoint_before
    workspace = session.project.open_workspace(session.job)
    found = workspace.create_checkpoint("before it is put back").commit
    # If this is interrupted before it is recorded, the agent may resume, and needs its changes.
    session.job.begin_restore(session.state.revision + 1, found)
    workspace.restore(before, clearing=True)
    transcript.write_transcript(session)
    observed = Observed(phase=ask.phase, role=ask.role)
    checkpoints = (found, before)
    entry = _build_entry(
        session, Kind.RECOVER, answered, outcome, observed, checkpoints, actor=Actor.SYSTEM, command=booked
    )
    recorded = session.record(entry)[0]
    session.job.end_restore()
    return recorded


def _record_late_answer(session: Session, answered: observation.Answered) -> Interaction:
    """Record the cost and text of an answer that arrived after the job moved on, and mark the job STUCK."""
    ask = answered.ask
    outcome = step.conclude_in_doubt(ask.spec, session.state, ask.role)
    response = outcome.response.model_copy(update={"raw_response": answered.reply.text})
    observed = Observed(phase=ask.phase, role=ask.role)
    stuck_outcome = replace(
        outcome,
        response=response,
        reason="late answer: the job moved on while the agent worked; the text is saved",
    )
    no_cost = RecoverCommand(in_doubt_microcents=0)
    entry = _build_entry(
        session,
        Kind.RECOVER,
        answered,
        stuck_outcome,
        observed,
        (None, None),
        actor=Actor.SYSTEM,
        command=no_cost,
    )
    return session.record(entry)[0]


def _build_entry(
    session: Session,
    kind: Kind,
    answered: observation.Answered,
    outcome: step.Outcome,
    seen: Observed,
    checkpoints: tuple[str | None, str | None],
    *,
    actor: Actor = Actor.AGENT,
    **fields: Any,
) -> Interaction:
    """Build the interaction of a request, whatever its outcome. `checkpoints`: before and after."""
    ask = answered.ask
    return session.build_interaction(
        kind,
        outcome.place,
        actor=actor,
        exchange=ask.after if ask.after != session.position.hash else None,
        step=ask.step,
        attempt=ask.attempt,
        reason=outcome.reason,
        route=outcome.route,
        request=ask.request,
        response=outcome.response,
        usage=answered.reply.usage,
        observed=seen,
        checkpoint_before=checkpoints[0],
        checkpoint_after=checkpoints[1],
        **fields,
    )
