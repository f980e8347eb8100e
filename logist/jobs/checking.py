"""The checks that are commands: run in the workspace as the agent left it, which is then as it was before.

Until their results are recorded, a crash takes back what they have changed, and they are run again: what an agent has
answered is on disk, so nothing is paid twice. What they leave in caches stays, as no checkpoint holds it.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from logist.agents import checks, sandbox
from logist.agents.place import RUN, Place
from logist.agents.protocol import Work
from logist.agents.sandbox import Ended
from logist.core import exit_command, review, step
from logist.core.model import Check, JsonObject
from logist.errors import Stopped
from logist.jobs import asking, specs
from logist.jobs.observing import Answered
from logist.jobs.project import Project
from logist.jobs.session import Session
from logist.workspace import Workspace, removal

SHELL = "/bin/sh"
TAIL_BYTES = 32_768
"""Of each output of a command that are looked at; it may write as much as it likes."""
SHOWN = 4000
"""Characters of the end of its output that are recorded."""
SECONDS_OF_MINUTE = 60
SCRATCH = "check"
"""In the private directory of an ask."""
SCRIPTED = "scripted"
STOPPING = "the job was being ended"

_ESCAPE = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


def run(
    session: Session,
    workspace: Workspace,
    answered: Answered,
    found: str,
    *,
    unchecked: bool = False,
    touched: bool = False,
) -> list[JsonObject]:
    """The results of the checks that are due after this answer; none for an answer that completes nothing.

    `found` is the checkpoint of the workspace as the agent left it. The way back to it stays noted (`end_restore`)
    until the results are recorded. `unchecked`: the job is being ended or set aside, and nobody waits for checks; so
    they do not hold. `touched`: see `observing.touched`. Raises Stopped when a person asks for that: nothing is recorded then.
    """
    asked = answered.envelope
    schema = session.project.schema
    due = step.checks_due(
        answered.spec, session.state, asked["phase"], answered.reply, schema, touched=touched
    )
    if unchecked:
        return [not_run(name, check, STOPPING) for name, check in due.items()]
    if not due:
        return []
    # Of an agent in place a crash leaves no trace of the ask: its changes go with it.
    in_place = asked.get("agent") == SCRIPTED and not session.job.exchanges()
    back = asked["checkpoint_before"] if in_place else found
    session.job.begin_restore(session.state.revision + 1, back)
    today = specs.checks(session.project.settings)
    results = []
    for name, check in due.items():
        now = today.get(name)
        if now is None or not review.runs_command(now):
            results.append(not_run(name, check, "the config has no command for it any more"))
            continue
        session.project.say(f"running the check {name}")
        results.append(_result(session, name, check.model_copy(update={"command": now.command}), now))
        workspace.restore(found, clearing=True)
    return results


def not_run(name: str, check: Check, reason: str) -> JsonObject:
    """A check that says nothing, and so does not hold."""
    return {"check": name, "severity": check.severity, "outcome": "not_run", "reason": reason}


def sweep(session: Session) -> None:
    """Ends what a Logist that was killed has left at work, and removes what it left beside the workspace."""
    sandbox.sweep(asking.marker(session))
    removal.remove(session.job.inflight / RUN / SCRATCH)


def _result(session: Session, name: str, check: Check, now: Check) -> JsonObject:
    project = session.project
    assert check.command
    argv = (SHELL, "-c", check.command) if isinstance(check.command, str) else check.command
    minutes = now.timeout_minutes or project.settings.review.check_timeout_minutes
    seconds = minutes * SECONDS_OF_MINUTE
    with _scratch(session) as place:
        work = Work(sandbox=project.settings.sandbox, marker=asking.marker(session))
        done = checks.run(
            argv,
            replace(place.confinement(work), tail_bytes=TAIL_BYTES),
            place.scratch,
            seconds=seconds,
            marker=work.marker,
            environment=project.environment.child(),
            stop=lambda: bool(project.stopping()),
        )
        output = _output(project, place)
    if project.stopping() or (done.ended and done.ended.how == "stopped"):
        fix = f"'logist job step --job {session.job.id}' runs it again; what was answered is not asked again"
        raise Stopped(f"stopped while the check {name} was run", exit_code=project.stopping() or 130, fix=fix)
    shown = check.command if isinstance(check.command, str) else shlex.join(check.command)
    told: JsonObject = {"check": name, "severity": check.severity, "command": project.redacted(shown)}
    if done.ended is None:
        return {**told, "outcome": "not_run", "reason": project.redacted(done.error)}
    return {**told, **_ended(done.ended, seconds), **({"output": output} if output else {})}


def _ended(ended: Ended, seconds: float) -> JsonObject:
    outcome = "passed" if ended.how == "exited" and ended.status == 0 else "failed"
    reason = ended.reason
    if ended.how == "timeout":
        outcome, reason = "timeout", f"it was ended after {seconds:g} seconds"
    elif ended.signal is not None and not reason:
        reason = f"it was ended by {_signal(ended.signal)}"
    return {
        "outcome": outcome,
        **({"exit_code": ended.status} if ended.status is not None else {}),
        **({"reason": reason} if reason else {}),
        "seconds": ended.seconds,
    }


def _signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


@contextmanager
def _scratch(session: Session) -> Iterator[Place]:
    """A private directory for one command, its HOME in it; it goes with all that is left in it."""
    inflight = session.job.inflight
    was_there = inflight.exists()
    scratch = inflight / RUN / SCRATCH
    inflight.mkdir(mode=0o700, exist_ok=True)
    removal.remove(scratch)
    (scratch / "home").mkdir(mode=0o700, parents=True)
    try:
        yield Place(session.job.workspace.absolute(), scratch.absolute(), session.project.environment.child())
    finally:
        removal.remove(scratch if was_there else inflight)


def _output(project: Project, place: Place) -> str:
    """The ends of what it wrote: what one of the two does not need, the other gets."""
    out, error = (_text(project, place, place.scratch / name) for name in (checks.STDOUT, checks.STDERR))
    room = max(SHOWN // 2, SHOWN - len(out))
    error = error[-room:]
    out = out[-(SHOWN - len(error)) :] if len(error) < SHOWN else ""
    return f"{out}\n--- standard error ---\n{error}" if out and error else out or error


def _text(project: Project, place: Place, path: Path) -> str:
    """Without secrets, which are looked for in more than is shown, without colours, and with paths as in the workspace."""
    try:
        data = path.read_bytes()[-TAIL_BYTES:]
    except OSError:
        return ""
    text = exit_command.clean(_ESCAPE.sub("", data.decode("utf-8", "surrogateescape")))[0]
    return project.redacted(_relative(text, place)).strip()


def _relative(text: str, place: Place) -> str:
    """No prompt names a place on this machine, and to an agent its workspace is where it is."""
    for spelled in _spellings(place.workspace):
        text = text.replace(f"{spelled}/", "").replace(spelled, ".")
    for spelled in _spellings(place.scratch):
        text = text.replace(spelled, "~")
    return text


def _spellings(path: Path) -> list[str]:
    """A path as it is given and as programs find it, the longer first: it may end with the other."""
    return sorted({str(path), os.path.realpath(path)}, key=len, reverse=True)
