"""The notification hooks: commands that run when a job needs a person, ends, or is merged.

A hook gets the event as JSON on standard input. It runs without the job's lock, and whatever it does, the job is not
affected. `store/due_notifications.py` explains how a notification survives a kill.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import IO, TYPE_CHECKING, Any

from logist import event_log
from logist.core.model import HALTED, TERMINAL, JsonObject, State, Status
from logist.core.secrets import redact
from logist.errors import InvalidFile, StorageError
from logist.event_log import events
from logist.formats import NOTIFICATION
from logist.quick_dataclass import dataclass
from logist.store import due_notifications
from logist.store.due_notifications import QUEUE_EMPTY, DueNotification

if TYPE_CHECKING:
    from logist.jobs.base.project import ProjectContext

JOB_EVENTS = ("stuck", "approval", "halted", "done", "merged")
LONGEST_MESSAGE = 400
LONGEST_VARIABLE = 30_000
"""Linux starts no program with a variable of 128 KiB; a character has up to 4 bytes."""
_LAST_BYTES = 2000
"""How much of a failed hook's standard error is read."""
_LONGEST_ERROR = 200


@dataclass(frozen=True)
class HeldNotification:
    """A notification that this command is about to send, with the state of its job after the event."""

    due: DueNotification
    state: State
    fd: int | None
    """The locked descriptor of its file; None if that could not be written."""


def find_event(before: State | None, after: State) -> str | None:
    """Return the event between two states of a job; None if no hook is for it.

    The end of a child is not an event: its parent gathers the results, and ends itself.
    """
    if before is not None and after.merge == "merged" and before.merge != "merged":
        return "merged"
    if before is not None and (before.status, before.step) == (after.status, after.step):
        return None
    if after.status is Status.STUCK:
        return "stuck"
    if after.status is Status.APPROVAL_REQUIRED:
        return "approval"
    if after.status in HALTED:
        return "halted"
    return "done" if after.status in TERMINAL and after.parent is None else None


def hold_notification(
    project: ProjectContext, job_id: str, state: State, event: str | None
) -> list[HeldNotification]:
    """Note that an event is about to be recorded; empty if it has no hook.

    If its file can't be written, the notification is sent all the same, but is lost with this command.
    """
    if event is None or not list_hooks(project, event):
        return []
    due = DueNotification(event, job_id, state.revision)
    try:
        fd = due_notifications.add_due(project.jobs_dir, due)
    except StorageError as error:
        project.say(f"warning: the {event} notification is lost if this command is killed: {error}")
        return [HeldNotification(due, state, None)]
    return [HeldNotification(due, state, fd)]


def release_notifications(held: Sequence[HeldNotification]) -> None:
    """Leave notifications to the next command."""
    for each in held:
        if each.fd is not None:
            os.close(each.fd)


def send_notifications(project: ProjectContext, held: Sequence[HeldNotification]) -> None:
    """Run the hooks of events that are recorded. A failure is reported, and is never an error."""
    for number, each in enumerate(held):
        try:
            run_hooks(project, each.due, build_job_notification(project, each.due, each.state))
        except BaseException:  # Ctrl-C, or a signal: like a kill, the next command sends them
            release_notifications(held[number:])
            raise
        if each.fd is not None:
            due_notifications.remove_due(project.jobs_dir, each.due, each.fd)


def has_hooks(project: ProjectContext) -> bool:
    """Whether there is a hook for any event of a job."""
    return any(list_hooks(project, event) for event in JOB_EVENTS)


def list_hooks(project: ProjectContext, event: str) -> dict[str, str | Sequence[str]]:
    """Return the commands for an event, each by the name of its setting."""
    settings = project.settings
    hooks = {"on_stuck": settings.on_stuck if event == "stuck" else None}
    if event in (*JOB_EVENTS, QUEUE_EMPTY):
        hooks[f"notify.{event}"] = getattr(settings.notify, event)
    return {name: command for name, command in hooks.items() if command}


def run_hooks(project: ProjectContext, due: DueNotification, notification: JsonObject) -> None:
    """Run the commands for an event, one after the other."""
    for name, command in list_hooks(project, due.event).items():
        if problem := _run_hook(project, command, due, notification):
            project.say(f"the {name} command {problem}")


def _run_hook(
    project: ProjectContext, command: str | Sequence[str], due: DueNotification, notification: JsonObject
) -> str | None:
    """Run one command; return what went wrong, or None."""
    try:
        project.trust.require_to_run()
    except InvalidFile as error:
        return f"did not run: {error}"
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    seconds = project.settings.notify.timeout_seconds
    if event_log.is_on():
        shown = command if isinstance(command, str) else " ".join(command)
        event_log.report(events.HookBegun(due.event, shown))
    import subprocess  # noqa: PLC0415 - few users have hooks
    import tempfile  # noqa: PLC0415

    try:
        # Files, not pipes: a program that the hook leaves behind could keep a pipe open for ever.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write(json.dumps(notification).encode("ascii") + b"\n")
            given.seek(0)
            code = _run_in_group(
                argv,
                _build_environment(project, due, notification),
                _find_directory(project, due),
                given,
                errors,
                seconds,
            )
            details = _read_last_line(project, errors) if code else ""
    except subprocess.TimeoutExpired:
        return f"was stopped after {seconds:g} seconds"
    except (OSError, ValueError) as error:
        return f"did not run: {error}"
    return f"failed with exit status {code}{': ' if details else ''}{details}" if code else None


def _run_in_group(
    argv: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    given: IO[bytes],
    errors: IO[bytes],
    seconds: float,
) -> int:
    """Run a program in a new process group, so that a time-out also ends the processes that it has started."""
    import subprocess  # noqa: PLC0415 - few users have hooks

    process = subprocess.Popen(
        argv,
        env=environment,
        cwd=directory,
        stdin=given,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _read_last_line(project: ProjectContext, errors: IO[bytes]) -> str:
    """Return the last line that a failed hook printed, without secrets: it may name an address with a token."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LAST_BYTES))
    lines = errors.read().decode("utf-8", "replace").split("\n")
    last = next((line for line in map(to_one_line, reversed(lines)) if line), "")
    names = {*project.key_names, *project.settings.notify.environment}
    return redact.redact(last, secrets=project.environment.list_secrets(*names))[0][:_LONGEST_ERROR]


def _find_directory(project: ProjectContext, due: DueNotification) -> Path:
    if project.home.is_dir():
        return project.home.parent
    return project.jobs_dir / due.job if due.job else project.jobs_dir


def _build_environment(
    project: ProjectContext, due: DueNotification, notification: JsonObject
) -> dict[str, str]:
    environment = {
        **project.environment.build_child_environment(),
        **project.environment.select_variables(project.settings.notify.environment),
        "LOGIST_EVENT": due.event,
    }
    if not due.job:
        return environment
    return {
        **environment,
        "LOGIST_JOB_ID": due.job,
        "LOGIST_JOB_DIR": str(project.jobs_dir / due.job),
        "LOGIST_STATUS": str(notification["status"]),
        # An agent's JSON may contain a NUL, an environment variable can't.
        "LOGIST_REASON": str(notification["reason"]).replace("\0", "")[:LONGEST_VARIABLE],
    }


def build_job_notification(project: ProjectContext, due: DueNotification, state: State) -> JsonObject:
    """Build what a hook reads about a job; the names are those of `job status --json` where that has the same."""
    stuck = state.place.stuck
    return {
        **_build_common_fields(project, due),
        "message": to_one_line(_describe_event(due, state))[:LONGEST_MESSAGE],
        "command": _build_command(project, f"logist job show --job {due.job}"),
        "job": due.job,
        "title": state.title,
        "status": state.status.value,
        "reason": state.reason,
        "stuck_kind": stuck.kind.value if stuck else None,
        "awaiting": state.place.awaiting,
        "step": state.place.step,
        "revision": state.revision,
        "cost_cents": state.usage.cumulative_cost,
        "cost_microcents": state.usage.cumulative_cost_microcents,
        "tags": list(state.tags),
        "parent": state.parent,
        "updated_at": state.updated_at,
        "path": str(project.jobs_dir / due.job),
    }


def build_queue_notification(project: ProjectContext, waiting: Mapping[str, int]) -> JsonObject:
    """Build what a hook reads when a run has nothing more to do; `waiting`: how many jobs wait for a person, by status."""
    count = sum(waiting.values())
    rest = (
        "no job waits for a person"
        if not count
        else f"waiting for a person: {', '.join(f'{n} {s}' for s, n in waiting.items())}"
    )
    return {
        **_build_common_fields(project, DueNotification(QUEUE_EMPTY)),
        "message": f"no job is ready to run; {rest}",
        "command": _build_command(project, "logist job list"),
        "waiting": dict(waiting),
    }


def _build_common_fields(project: ProjectContext, due: DueNotification) -> dict[str, Any]:
    return {
        "version": NOTIFICATION.version,
        "id": due.name,
        "event": due.event,
        "project": str(project.home.parent),
    }


def _build_command(project: ProjectContext, command: str) -> str:
    jobs_dir = project.environment.named_jobs_dir
    return f"{command} --jobs-dir {quote(str(project.jobs_dir))}" if jobs_dir else command


def _describe_event(due: DueNotification, state: State) -> str:
    if due.event == "approval":
        return f"{due.job} waits for approval: {state.title}"
    if due.event == "merged":
        return f"{due.job} was merged: {state.title}"
    reason = state.reason if due.event in ("stuck", "halted") else state.title
    return f"{due.job} is {state.status}: {reason}"


def to_one_line(text: str) -> str:
    """Return an agent's text without control characters and line breaks, for a chat or the subject of a mail."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())
