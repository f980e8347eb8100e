"""What came back: judged and recorded, now or by a later command. The one way of any answer into a history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from logist.agents import sandbox
from logist.agents.courier import ask_files
from logist.agents.courier.ask_files import RecordedAsk
from logist.agents.workplace import RUN
from logist.core.history import fold
from logist.core.machine.steward import next_command
from logist.core.model import (
    Actor,
    ExitAction,
    Interaction,
    Kind,
    Observed,
)
from logist.core.model.commands import RecoverCommand
from logist.core.step import step
from logist.core.template import data
from logist.errors import LogistError, ProviderError, Refused, Stopped
from logist.jobs.base import transcript
from logist.jobs.base.session import Session
from logist.jobs.turn import agent_calls, check_runs, doubtful_payments, observation, unfinished_turns
from logist.jobs.turn.agent_calls import INTERRUPTED
from logist.jobs.turn.observation import Answered
from logist.workspace import Checkpoint
from logist.workspace.files import removal


def settle(
    session: Session,
    *,
    goes_on: Callable[[RecordedAsk], bool] = lambda ask: False,
    unchecked: bool = False,
) -> list[Interaction]:
    """Concludes what an earlier command left in flight; empty if there was nothing to conclude.

    An answer on disk is concluded as if it had just come; nothing sent is as before; sent without an
    answer is in doubt. A model that was ended between two turns goes on if `goes_on` says so of its
    ask, or is given up: what it cost is booked, and the workspace goes back.
    """
    found = unfinished_turns.undo(session)
    got = _collected(session)
    if _may_go_on(session, got, goes_on):
        assert got is not None
        got = _gone_on(session, got)
    if got is None or got.ask is None:
        session.job.end_exchanges()
        return []
    if step.turn(session.state) is None:
        return []  # ended or set aside while it could not be recorded: it waits for the job to be taken up
    ask = got.ask
    answered = Answered(ask, got.reply)
    _end_strays(ask)
    removal.remove(session.job.inflight / RUN / "home")  # what an agent left there may be too deep for others
    if got.kind == "unfinished":
        return [_given_up(session, answered)]
    if got.kind == "in_doubt":
        return [_in_doubt(session, answered)]
    if ask.phase != step.turn(session.state) or ask.step != session.state.step:
        return [_late(session, answered)]
    return [conclude(session, answered, found=found, unchecked=unchecked)]


def _may_go_on(
    session: Session, got: ask_files.Collected | None, goes_on: Callable[[RecordedAsk], bool]
) -> bool:
    """Whether a half-done answer is today's: nothing was decided since, and it would be asked for in the same way.

    Files that came with a copied job are not our word: who goes on by them runs what they say.
    """
    if got is None or got.kind != "unfinished" or got.ask is None or step.turn(session.state) is None:
        return False
    return got.ask.after == session.position.hash and goes_on(got.ask)


def _gone_on(session: Session, got: ask_files.Collected) -> ask_files.Collected | None:
    """What is on disk after the courier has gone on with it."""
    ask = got.ask
    assert ask is not None
    _end_strays(ask)
    session.project.say(f"going on with the answer of {ask.role} that was under way")
    agent_calls.by_courier(session, ask, begun=True)
    session.require_place()
    after = _collected(session)
    if after is not None and after.kind == "unfinished":
        raise _cut_off(session, ask)
    return after


def _cut_off(session: Session, ask: RecordedAsk | None) -> LogistError:
    """The agent was ended between two of its turns; all that was paid is on disk."""
    if ask is not None:
        _end_strays(ask)
    fix = f"logist job step --job {session.job.id} goes on from there, without paying again"
    if session.project.stopping() == INTERRUPTED:
        return Stopped("stopped between two turns of the agent; what it has done so far is kept", fix=fix)
    return ProviderError(
        "the agent was ended between two of its turns; what it has done so far is kept",
        where=str(session.job.logs / "courier.log"),
        fix=fix,
    )


def _end_strays(ask: RecordedAsk) -> None:
    """Ends what a courier that was killed has left at work in the workspace."""
    if ask.work.marker:
        sandbox.sweep(ask.work.marker)


def _collected(session: Session) -> ask_files.Collected | None:
    """What is in flight and not recorded yet; None if nothing is, or nothing was sent."""
    got = ask_files.collect(session.job.exchanges())
    if got.ask is None or got.kind == "not_sent" or is_recorded(session, got.ask):
        return None
    return got


def is_recorded(session: Session, ask: RecordedAsk) -> bool:
    """Whether the history has the outcome of this ask; a decision may have come before it."""
    if ask.sequence > session.state.revision:
        return False
    return ask.after is None or any(_outcome_of(entry) == ask.after for entry in session.history())


def _outcome_of(entry: Interaction) -> str | None:
    """What stood before the ask whose outcome an interaction is: the checksum of that entry."""
    return (entry.exchange or entry.previous) if fold.asks(entry) else None


def unsettled(session: Session) -> str:
    """Why the next changing command concludes or undoes something before it does its own; empty where it doesn't."""
    if step.turn(session.state) is not None and _collected(session) is not None:
        return "a step is in flight: the next command records its outcome, and asks nothing"
    if not session.unfinished_restore():
        return ""
    setup, holder = session.job.is_restore_for_setup(), session.job.holder()
    if holder is not None:
        return f"the workspace is being {'set up' if setup else 'changed'}: {holder}"
    what = "the setup of the workspace" if setup else "a command that changed the workspace"
    return f"{what} was cut off: the next command puts the workspace back"


def is_unsent(session: Session) -> bool:
    """Whether a courier ended before it sent what it was to send: then nobody concluded anything either."""
    got = ask_files.collect(session.job.exchanges())
    return got.kind == "not_sent" and got.ask is not None and not is_recorded(session, got.ask)


def settle_first(
    session: Session, *, then_refuse: bool = False, at_any_price: bool = False
) -> list[Interaction]:
    """Settles, and says so. `then_refuse`: what a person decided did not take this answer into account.

    `at_any_price`: nothing that is in flight, not even what can't be read, keeps a job from being
    ended; it stays where it is. Nor is it then kept waiting for checks.
    """
    try:
        entries = settle(session, unchecked=at_any_price)
    except LogistError as error:
        if not at_any_price:
            raise
        session.project.say(f"what was in flight could not be recorded, and stays there: {error}")
        return []
    if entries:
        status = session.state.status
        session.project.say(f"recorded what was in flight: {session.job.id} is {status} now")
        if then_refuse:
            fix = f"logist job status --job {session.job.id}, then decide"
            raise Refused(f"an answer came in meanwhile, and the job is {status} now", fix=fix)
    return entries


def harvest(session: Session) -> Interaction:
    """Concludes what the courier brought. Raises ProviderError when it never sent anything.

    After Ctrl-C, what is known is recorded, and Stopped says so.
    """
    session.require_place()
    got = _collected(session)
    if got is not None and got.kind == "unfinished":
        raise _cut_off(session, got.ask)
    entries = settle(session)
    if session.project.stopping() == INTERRUPTED:
        raise _interrupted(session, entries)
    if not entries:
        raise ProviderError(
            "the agent was ended before it sent anything, or could not begin",
            where=str(session.job.logs / "courier.log"),
            fix=f"logist job history --job {session.job.id} shows whether another command recorded it",
        )
    return entries[0]


def _interrupted(session: Session, entries: list[Interaction]) -> Stopped:
    job_id, place = session.job.id, session.state.place
    if not entries:
        return Stopped("stopped before anything was sent", fix=next_command(session.state, job_id))
    message = f"stopped; what is known is recorded: {job_id} is {place.status} now"
    reason = f" ({session.state.reason})" if session.state.reason else ""
    return Stopped(message + reason, fix=next_command(session.state, job_id))


def conclude(
    session: Session,
    answered: Answered,
    *,
    simulated: bool = False,
    releases: bool = False,
    found: str | None = None,
    unchecked: bool = False,
) -> Interaction:
    """Judges an answer and records it; the one way in which any answer enters a history.

    `releases`: whoever gives the answer says what it has cost, and so takes back what was booked in doubt.

    `unchecked`: the commands of checks are not run, so that they do not hold.

    `found`: the workspace as the agent left it, where an earlier command has looked and was cut off. It may
    have held what no checkpoint holds, and nobody can bring back.
    """
    ask = answered.ask
    before = ask.checkpoint_before
    workspace = session.project.workspace(session.job)
    answer = step.judge_answer(ask.spec, session.state, answered.reply, session.project.schema)
    left = workspace.checkpoint(f"after interaction {session.state.revision + 1}")
    left = Checkpoint(found) if found else left
    undone = None if simulated else observation.take_back(session, workspace, answered, left)
    kept = undone.kept if undone else left
    touched = observation.touched(session, workspace, ask)
    checked = (
        []
        if undone
        else check_runs.run(
            session, workspace, ask, answer, left.commit, unchecked=unchecked, touched=touched
        )
    )
    seen = observation.observe(
        session, workspace, answered, answer, before, left, undone, checked, touched=touched
    )
    outcome = step.conclude(ask.spec, session.state, answer, seen)
    transcript.keep(session)
    kept_turns = None if seen.refusals else _kept_turns(session, answered)
    by_hand = simulated and outcome.response.actions == [ExitAction.COMPLETED]
    output = outcome.response.output
    results = data.in_place_of_children(ask.spec, ask.step, output) if by_hand else None
    command = step.recorded(outcome, results).model_copy(
        update={
            "turns_kept": kept_turns,
            "plan": observation.is_plan(ask, outcome.response) or None,
        }
    )
    if releases:
        command = doubtful_payments.release(session, command)
    entry = _entry(
        session,
        Kind.ASK,
        answered,
        outcome,
        seen,
        (before, kept.commit),
        simulated=simulated,
        steward=answered.steward,
        command=command,
    )
    recorded = session.record(entry)[0]
    if undone or checked:
        session.job.end_restore()
    return recorded


def _kept_turns(session: Session, answered: Answered) -> int | None:
    """Keeps the turns before one that brought no answer: a later step may get over that."""
    return unfinished_turns.keep(session, session.job.exchanges()) if answered.reply.error else None


def _given_up(session: Session, answered: Answered) -> Interaction:
    """Books what an agent has cost that was ended between two turns, and puts the workspace back."""
    outcome = step.given_up(answered.ask.spec, session.state, answered.ask.role)
    booked = RecoverCommand(in_doubt_microcents=0, given_up=True)
    return _rolled_back(session, answered, outcome, booked)


def _in_doubt(session: Session, answered: Answered) -> Interaction:
    """Books the worst case, puts the workspace back, and leaves the question to a steward."""
    outcome = step.in_doubt(answered.ask.spec, session.state, answered.ask.role)
    exchanges = session.job.exchanges()
    booked = RecoverCommand(
        in_doubt_microcents=ask_files.reserved(exchanges) or 0,
        turns_kept=unfinished_turns.keep(session, exchanges),
    )
    return _rolled_back(session, answered, outcome, booked)


def _rolled_back(
    session: Session, answered: Answered, outcome: step.Outcome, booked: RecoverCommand
) -> Interaction:
    """Records an ask that brought no answer to judge, with the workspace as it was before it."""
    ask = answered.ask
    before = ask.checkpoint_before
    workspace = session.project.workspace(session.job)
    found = workspace.checkpoint("before it is put back").commit
    # Cut off before it is recorded, the agent may be gone on with: it must find what it did.
    session.job.begin_restore(session.state.revision + 1, found)
    workspace.restore(before, clearing=True)
    transcript.keep(session)
    seen = Observed(phase=ask.phase, role=ask.role)
    checkpoints = (found, before)
    entry = _entry(
        session, Kind.RECOVER, answered, outcome, seen, checkpoints, actor=Actor.SYSTEM, command=booked
    )
    recorded = session.record(entry)[0]
    session.job.end_restore()
    return recorded


def _late(session: Session, answered: Answered) -> Interaction:
    """Books an answer whose turn is over, keeps its words, and leaves it to a steward."""
    ask = answered.ask
    outcome = step.in_doubt(ask.spec, session.state, ask.role)
    words = outcome.response.model_copy(update={"raw_response": answered.reply.text})
    seen = Observed(phase=ask.phase, role=ask.role)
    late = replace(
        outcome, response=words, reason="an answer came late: its turn is over, its words are kept"
    )
    nothing = RecoverCommand(in_doubt_microcents=0)
    entry = _entry(
        session, Kind.RECOVER, answered, late, seen, (None, None), actor=Actor.SYSTEM, command=nothing
    )
    return session.record(entry)[0]


def _entry(
    session: Session,
    kind: Kind,
    answered: Answered,
    outcome: step.Outcome,
    seen: Observed,
    checkpoints: tuple[str | None, str | None],
    *,
    actor: Actor = Actor.AGENT,
    **fields: Any,
) -> Interaction:
    """The interaction of an ask, whatever came of it. `checkpoints`: before and after."""
    ask = answered.ask
    return session.entry(
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
