"""Asking an agent: in place when it costs nothing, else through the courier; and the harvest."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Any

from logist.agents import courier, ending
from logist.core import step
from logist.core.machine import next_command
from logist.core.model import (
    Actor,
    Change,
    EffectiveSpec,
    Interaction,
    JsonObject,
    Kind,
    Observed,
    Phase,
    Reply,
)
from logist.core.step import StepPlan
from logist.errors import LogistError, ProviderError, Refused, Stopped
from logist.jobs.project import Project
from logist.jobs.session import Session
from logist.workspace import Checkpoint, Workspace

CHANGES_RECORDED = 1000
POLL_SECONDS = 0.5
INTERRUPTED = 130
"""What `project.stopping()` says after Ctrl-C."""
LEFT_AT_WORK: list[subprocess.Popen[bytes]] = []
"""Couriers nobody waits for any more; kept, for a Popen that is dropped complains of its child."""


@dataclass(frozen=True)
class Answered:
    """An answer, and what was asked: all that `conclude` needs, harvested or fresh."""

    spec: EffectiveSpec
    envelope: JsonObject
    reply: Reply


def envelope(session: Session, spec: EffectiveSpec, plan: StepPlan, checkpoint: str) -> JsonObject:
    """What goes to disk before anything is spent: enough to conclude without planning again."""
    settings = session.project.settings
    return {
        "sequence": session.state.revision + 1,
        "started": session.project.clock.timestamp(),
        "agent": session.project.agent,
        "phase": plan.phase.value,
        "role": plan.role.name,
        "step": session.state.step,
        "attempt": plan.attempt,
        "checkpoint_before": checkpoint,
        "request": plan.request.model_dump(mode="json", exclude_none=True),
        "model": plan.model.model_dump(mode="json"),
        "temperature": plan.role.temperature,
        "max_output_tokens": plan.max_output_tokens,
        "deadline_seconds": settings.agent_timeout_minutes * 60,
        "max_tries": settings.retries.max_tries,
        "backoff_seconds": settings.retries.backoff_seconds,
        "reserved_microcents": plan.reserved_microcents,
        "index": session.state.asked,
        "spec": spec.model_dump(mode="json"),
    }


def in_place(session: Session, asked: JsonObject) -> Reply:
    """Asks the scripted agent; it costs nothing, so nothing is written before it has answered."""
    script = session.project.script
    assert script is not None
    clock = session.project.clock
    began = clock.monotonic()
    reply = script.ask(courier.ask_from(asked), session.job.workspace)
    text, redactions = session.project.redact(reply.text)
    error = reply.error
    if error:
        error = error.model_copy(update={"message": session.project.redacted(error.message)})
    seconds = round(reply.usage.seconds or clock.monotonic() - began, 3)
    usage = reply.usage.model_copy(update={"seconds": seconds})
    return reply.model_copy(
        update={
            "text": text,
            "redactions": reply.redactions + redactions,
            "usage": usage,
            "error": error,
        }
    )


def by_courier(session: Session, asked: JsonObject, key: str | None) -> None:
    """Sends the courier and waits for it.

    Ctrl-C asks it to end, and returns when it has: what is known then is on disk. SIGTERM leaves it
    at work, and the next command harvests: Stopped. Stopped too before anything was sent.
    """
    project, job = session.project, session.job
    if project.stopping():
        raise Stopped("stopped before anything was sent", exit_code=project.stopping())
    job.begin_exchange(1, asked)
    assert session.lock is not None
    private = {"api_key": key, "secrets": list(project.secrets)}
    process = courier.launch(job, session.lock, asked, private, project.environment.child())
    while not _has_ended(process, POLL_SECONDS):
        if project.stopping() == INTERRUPTED:
            _interrupt(project, process)
        elif project.stopping():
            LEFT_AT_WORK.append(process)
            raise _still_at_work(project)


def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _interrupt(project: Project, process: subprocess.Popen[bytes]) -> None:
    """Asks our courier to end; one that does not is killed."""
    project.say(
        "stopping: the agent is asked to end, and what is known is recorded; Ctrl-C again ends at once"
    )
    process.terminate()
    if not _has_ended(process, ending.LEAVE_SECONDS):
        process.kill()
        process.wait()


def _still_at_work(project: Project) -> Stopped:
    fix = "the next 'logist job step' records its answer"
    return Stopped("stopped waiting; the agent is still at work", exit_code=project.stopping(), fix=fix)


def settle(session: Session) -> list[Interaction]:
    """Concludes what an earlier command left in flight; empty if there was nothing to conclude.

    An answer on disk is concluded as if it had just come; nothing sent is as before; sent without an
    answer is in doubt.
    """
    _undo(session)
    got = _collected(session)
    if got is None or got.envelope is None:
        session.job.end_exchanges()
        return []
    asked = got.envelope
    spec = EffectiveSpec.model_validate(asked["spec"])
    if got.kind == "in_doubt":
        return [_in_doubt(session, spec, asked, got.reply)]
    return [conclude(session, Answered(spec, asked, got.reply))]


def _undo(session: Session) -> None:
    """Puts the workspace back where a restep or rerun was cut off before it was recorded."""
    kept = session.job.unfinished_restore(session.state.revision)
    if kept:
        workspace = session.project.workspace(session.job)
        workspace.checkpoint("before a cut-off restore is undone")
        workspace.restore(kept)
    session.job.end_restore()


def _collected(session: Session) -> courier.Collected | None:
    """What is in flight and not recorded yet; None if nothing is, or nothing was sent."""
    got = courier.collect(session.job.exchanges())
    if got.envelope is None or got.kind == "not_sent":
        return None
    return got if int(got.envelope["sequence"]) > session.state.revision else None


def unsettled(session: Session) -> bool:
    """Whether the next changing command concludes or undoes something before it does its own."""
    return _collected(session) is not None or bool(session.job.unfinished_restore(session.state.revision))


def is_unsent(session: Session) -> bool:
    """Whether a courier ended before it sent what it was to send: then nobody concluded anything either."""
    got = courier.collect(session.job.exchanges())
    return got.kind == "not_sent" and int((got.envelope or {})["sequence"]) > session.state.revision


def settle_first(session: Session, *, then_refuse: bool) -> list[Interaction]:
    """Settles, and says so. `then_refuse`: what a person decided did not take this answer into account.

    Without it nothing that is in flight, not even what can't be read, keeps a job from being ended.
    """
    try:
        entries = settle(session)
    except LogistError as error:
        if then_refuse:
            raise
        session.project.say(f"what was in flight could not be recorded: {error}")
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
    entries = settle(session)
    if session.project.stopping() == INTERRUPTED:
        raise _interrupted(session, entries)
    if not entries:
        raise ProviderError(
            "the courier ended and left no trace of an answer",
            where=str(session.job.logs / "courier.log"),
            fix=f"logist job history --job {session.job.id} shows whether another command recorded it",
        )
    return entries[0]


def _interrupted(session: Session, entries: list[Interaction]) -> Stopped:
    job_id, place = session.job.id, session.state.place()
    if not entries:
        return Stopped("stopped before anything was sent", fix=next_command(place, job_id))
    message = f"stopped; what is known is recorded: {job_id} is {place.status} now"
    reason = f" ({session.state.reason})" if session.state.reason else ""
    return Stopped(message + reason, fix=next_command(place, job_id))


def conclude(
    session: Session, answered: Answered, *, simulated: bool = False, command: JsonObject | None = None
) -> Interaction:
    """Judges an answer and records it; the one way in which any answer enters a history."""
    asked = answered.envelope
    workspace = session.project.workspace(session.job)
    kept = workspace.checkpoint(f"after interaction {session.state.revision + 1}")
    seen = observe(session.project, workspace, answered, asked["checkpoint_before"], kept)
    outcome = step.conclude(answered.spec, session.state, answered.reply, seen, session.project.schema)
    entry = _entry(
        session,
        Kind.ASK,
        answered,
        outcome,
        seen,
        (asked["checkpoint_before"], kept.commit),
        simulated=simulated,
        steward=asked.get("steward"),
        command=command or {},
    )
    recorded = session.record(entry)[0]
    session.job.end_exchanges()
    return recorded


def observe(
    project: Project, workspace: Workspace, answered: Answered, before: str | None, after: Checkpoint | None
) -> Observed:
    """Everything about the workspace and the limits that judging the answer depends on."""
    named = step.named_files(answered.reply, project.schema)
    changes: list[Change] = []
    omitted = 0
    if before and after:
        changes, omitted = workspace.changes(before, after.commit, CHANGES_RECORDED)
    return Observed(
        phase=Phase(answered.envelope["phase"]),
        role=answered.envelope["role"],
        evidence=[workspace.evidence(path) for path in named],
        changes=[change.model_copy(update={"path": project.redacted(change.path)}) for change in changes],
        changes_omitted=omitted,
        not_restorable=[project.redacted(name) for name in after.skipped] if after else [],
    )


def _in_doubt(session: Session, spec: EffectiveSpec, asked: JsonObject, reply: Reply) -> Interaction:
    """Books the worst case, puts the workspace back, and leaves the question to a steward."""
    before = asked["checkpoint_before"]
    workspace = session.project.workspace(session.job)
    found = workspace.checkpoint("found in doubt").commit
    workspace.restore(before)
    outcome = step.in_doubt(spec, session.state, asked["role"])
    seen = Observed(phase=Phase(asked["phase"]), role=asked["role"])
    answered = Answered(spec, asked, reply)
    booked = {"in_doubt_microcents": asked.get("reserved_microcents") or 0}
    checkpoints = (found, before)
    entry = _entry(
        session, Kind.RECOVER, answered, outcome, seen, checkpoints, actor=Actor.SYSTEM, command=booked
    )
    recorded = session.record(entry)[0]
    session.job.end_exchanges()
    return recorded


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
    asked = answered.envelope
    return session.entry(
        kind,
        outcome.place,
        actor=actor,
        step=asked["step"],
        attempt=asked["attempt"],
        reason=outcome.reason,
        request=asked["request"],
        response=outcome.response,
        usage=answered.reply.usage,
        observed=seen,
        checkpoint_before=checkpoints[0],
        checkpoint_after=checkpoints[1],
        **fields,
    )
