"""Asking an agent: in place when it costs nothing, else through the courier."""

from __future__ import annotations

import subprocess

from logist.agents import courier, ending
from logist.core.model import (
    EffectiveSpec,
    JsonObject,
    Reply,
)
from logist.core.step import StepPlan
from logist.errors import Stopped
from logist.jobs.project import Project
from logist.jobs.session import Session

POLL_SECONDS = 0.5
INTERRUPTED = 130
"""What `project.stopping()` says after Ctrl-C."""
LEFT_AT_WORK: list[subprocess.Popen[bytes]] = []
"""Couriers nobody waits for any more; kept, for a Popen that is dropped complains of its child."""


def envelope(session: Session, spec: EffectiveSpec, plan: StepPlan, checkpoint: str) -> JsonObject:
    """What goes to disk before anything is spent: enough to conclude without planning again."""
    settings = session.project.settings
    return {
        "sequence": session.state.revision + 1,
        "after": session.position.hash,
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
