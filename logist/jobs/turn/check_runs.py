"""Runs the commands of review checks, in the workspace as the agent left it; the workspace is restored afterwards.

Until their results are recorded, a crash reverts what they have changed, and they run again. The agent's
answer is on disk, so it is not paid for twice. What they leave in caches stays, because no checkpoint
contains caches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.core import review
from logist.core.answer.findings import NOT_RUN
from logist.core.model import Check, CheckResult
from logist.core.step import step
from logist.errors import SetupFailed
from logist.jobs.base import linux_only, specs
from logist.jobs.base.session import Session
from logist.jobs.setup import check_commands, commands, remote_commands
from logist.jobs.setup.check_commands import SHOWN, CheckCommand, CheckEnd
from logist.jobs.setup.command_host import JobHost

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import RecordedAsk
    from logist.agents.sandbox import ProgramEnd
    from logist.core.step.step import JudgedAnswer

SECONDS_OF_MINUTE = 60
SCRIPTED = "scripted"
STOPPING = "the job was being stopped"


def run_due_checks(
    session: Session,
    ask: RecordedAsk,
    answer: JudgedAnswer,
    found: str,
    *,
    unchecked: bool = False,
    touched: bool = False,
) -> list[CheckResult]:
    """Run the checks that are due after this answer and return the results; none if the answer completes
    nothing.

    `found` is the checkpoint of the workspace as the agent left it. It stays recorded as the restore point
    (`end_restore`) until the results are recorded. `unchecked`: the job is being ended or set aside and does
    not wait for checks, so they fail as not run. `touched`: see `observation.is_workspace_touched`. Raises
    Stopped when a person asks for that: nothing is recorded then.
    """
    due = step.list_due_checks(ask.spec, session.state, ask.phase, answer, touched=touched)
    if unchecked:
        return [build_not_run_result(name, check, STOPPING) for name, check in due.items()]
    if not due:
        return []
    if session.project.workers is None:
        linux_only.require_linux(linux_only.list_check_needs(session.project.settings, ask.spec))
    session.project.trust.require_to_run()  # the answer is on disk, and is judged when the user has allowed the commands
    # An agent in place leaves no request on disk: after a crash, its changes are reverted too.
    in_place = ask.agent == SCRIPTED and not session.job.read_exchanges()
    restore_point = ask.checkpoint_before if in_place else found
    session.job.begin_restore(session.state.revision + 1, restore_point)
    today = specs.list_configured_checks(session.project.settings)
    runnable = [
        CheckCommand(name, configured.command, _find_seconds(session, configured))
        for name in due
        if (configured := today.get(name)) is not None
        and review.is_run_by_logist(configured)
        and configured.command
    ]
    try:
        ends = _run_checks(session, runnable, found, network=ask.work.network)
    except SetupFailed as error:
        if not error.by_agent:
            raise
        first, *others = [build_not_run_result(name, check, error.message) for name, check in due.items()]
        return [first.model_copy(update={"output": error.output[-SHOWN:] or None}), *others]
    ended = {run.name: (run, end) for run, end in zip(runnable, ends, strict=True)}
    return [
        _build_result(session, check, *ended[name])
        if name in ended
        else build_not_run_result(name, check, "the config no longer has a command for it")
        for name, check in due.items()
    ]


def _find_seconds(session: Session, configured: Check) -> float:
    minutes = configured.timeout_minutes or session.project.settings.review.check_timeout_minutes
    return minutes * SECONDS_OF_MINUTE


def _run_checks(
    session: Session, runnable: list[CheckCommand], found: str, *, network: bool
) -> list[CheckEnd]:
    if session.project.workers is not None:
        return remote_commands.run_checks(session, runnable, found, network=network)
    return check_commands.run_checks(JobHost(session), runnable, found, network=network)


def build_not_run_result(name: str, check: Check, reason: str) -> CheckResult:
    """The result of a check that did not run, and therefore does not pass."""
    return CheckResult(check=name, severity=check.severity, outcome=NOT_RUN, reason=reason)


def _build_result(session: Session, check: Check, run: CheckCommand, end: CheckEnd) -> CheckResult:
    if end.is_refused:
        return build_not_run_result(run.name, check, end.reason)
    command = session.project.redact_text(commands.format_command(run.command))
    result = CheckResult(check=run.name, severity=check.severity, command=command)
    if end.ended is None:
        return result.model_copy(update={"outcome": NOT_RUN, "reason": end.reason})
    return result.model_copy(
        update={
            "outcome": _outcome(end.ended),
            "exit_code": end.ended.status,
            "reason": end.reason or None,
            "seconds": end.ended.seconds,
            "output": end.output or None,
        }
    )


def _outcome(ended: ProgramEnd) -> str:
    if ended.how == "timeout":
        return "timeout"
    return "passed" if ended.how == "exited" and ended.status == 0 else "failed"
