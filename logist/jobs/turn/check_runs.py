"""Runs the commands of review checks, in the workspace as the agent left it; the workspace is restored afterwards.

Until their results are recorded, a crash reverts what they have changed, and they run again. The agent's
answer is on disk, so it is not paid for twice. What they leave in caches stays, because no checkpoint
contains caches.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from logist.agents.protocol import AgentWork
from logist.core import review
from logist.core.answer.findings import NOT_RUN
from logist.core.model import Check, CheckResult
from logist.core.step import step
from logist.errors import SetupFailed, Stopped
from logist.jobs.base import specs
from logist.jobs.base.session import Session, make_process_marker
from logist.jobs.setup import commands, workspace_code, workspace_setup
from logist.lazy_patterns import compile_on_use

if TYPE_CHECKING:
    from logist.agents.courier.ask_files import RecordedAsk
    from logist.agents.outside_code import OutsideCode
    from logist.agents.sandbox import ProgramEnd
    from logist.core.step.step import JudgedAnswer
    from logist.jobs.setup.workspace_setup import PreparedWorkspace
    from logist.workspace import Workspace

TAIL_BYTES = 32_768
"""The last bytes of each output of a command that are read. A command may write more."""
SHOWN = 4000
"""The last characters of its output that are recorded."""
SECONDS_OF_MINUTE = 60
SCRIPTED = "scripted"
STOPPING = "the job was being stopped"
OUTSIDE = "packages installed from outside the workspace"
NOT_THE_WORKSPACE = "it would run your checkout of the repository, not the workspace"
_ISOLATED = compile_on_use(r"-[bBdiOPqRsSuvx]*[IE][a-zA-Z]*")


def run_due_checks(
    session: Session,
    workspace: Workspace,
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
    session.project.trust.require_to_run()  # the answer is on disk, and is judged when the user has allowed the commands
    # An agent in place leaves no request on disk: after a crash, its changes are reverted too.
    in_place = ask.agent == SCRIPTED and not session.job.read_exchanges()
    restore_point = ask.checkpoint_before if in_place else found
    session.job.begin_restore(session.state.revision + 1, restore_point)
    network = ask.work.network
    try:
        prepared = workspace_setup.prepare_for_checks(session, found, network=network)
    except SetupFailed as error:
        if not error.by_agent:
            raise
        first, *others = [build_not_run_result(name, check, error.message) for name, check in due.items()]
        return [first.model_copy(update={"output": error.output[-SHOWN:] or None}), *others]
    workspace = session.project.open_workspace(
        session.job
    )  # read again: what the setup made is not the agent's work
    today = specs.list_configured_checks(session.project.settings)
    results = []
    for name, check in due.items():
        configured = today.get(name)
        if configured is None or not review.is_run_by_logist(configured):
            results.append(build_not_run_result(name, check, "the config no longer has a command for it"))
            continue
        if results:  # the check before may have run code of the agent, which can change the environment
            prepared = workspace_setup.prepare_again(session, prepared, found, network=network)
        session.project.report_progress(f"running the check {name}")
        check = check.model_copy(update={"command": configured.command})
        results.append(_run_check(session, name, check, configured, prepared))
        workspace.restore(found, clearing=True)
    return results


def build_not_run_result(name: str, check: Check, reason: str) -> CheckResult:
    """The result of a check that did not run, and therefore does not pass."""
    return CheckResult(check=name, severity=check.severity, outcome=NOT_RUN, reason=reason)


def _run_check(
    session: Session, name: str, check: Check, configured: Check, prepared: PreparedWorkspace
) -> CheckResult:
    project = session.project
    assert check.command
    minutes = configured.timeout_minutes or project.settings.review.check_timeout_minutes
    seconds = minutes * SECONDS_OF_MINUTE
    words = _split_words(check.command)
    code = workspace_code.find_code(
        project, session.job, session.state, prepared.code, words, isolated=_ignores_path(words)
    )
    with commands.make_private_place(session) as place:
        work = AgentWork(
            sandbox=project.settings.sandbox, marker=make_process_marker(session), code=code.paths
        )
        confinement = place.confine_command(work)
        if instead := workspace_code.filter_reachable(code.instead, confinement):
            for each in instead:
                project.say(f"check {name}: {_explain_outside_code(each)}")
            return build_not_run_result(
                name, check, f"{NOT_THE_WORKSPACE}: {workspace_code.format_names(instead)}"
            )
        command_run = commands.run_command(
            session, check.command, place, confinement, seconds=seconds, tail=TAIL_BYTES
        )
    if project.stopping() or (command_run.ended and command_run.ended.how == "stopped"):
        fix = f"to run it again: logist job step --job {session.job.id}; the agent is not called again"
        raise Stopped(
            f"stopped while the check {name} was running", exit_code=project.stopping() or 130, fix=fix
        )
    redacted_command = project.redact_text(commands.format_command(check.command))
    result = CheckResult(check=name, severity=check.severity, command=redacted_command)
    if command_run.ended is None:
        return result.model_copy(update={"outcome": NOT_RUN, "reason": command_run.error})
    outside = f"{OUTSIDE}: {workspace_code.format_names(code.outside)}" if code.outside else ""
    reasons = (commands.describe_end(command_run.ended, seconds), outside, prepared.note)
    return result.model_copy(
        update={
            "outcome": _outcome(command_run.ended),
            "exit_code": command_run.ended.status,
            "reason": "; ".join(filter(None, reasons)) or None,
            "seconds": command_run.ended.seconds,
            "output": command_run.join_output(SHOWN) or None,
        }
    )


def _explain_outside_code(code: OutsideCode) -> str:
    if code.missing:
        return f"the workspace has no {code.missing}, so tools use the one in {code.place}"
    return f"{code} is installed from {code.place}"


def _split_words(command: str | tuple[str, ...]) -> list[str]:
    """Split a command into words, including the lines that it passes to a shell: each may be a program."""
    words: list[str] = []
    for part in [command] if isinstance(command, str) else command:
        lexer = shlex.shlex(part, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        try:
            words += lexer
        except ValueError:
            words += part.split()
    return words


def _ignores_path(words: Sequence[str]) -> bool:
    """True if a Python in the command ignores PYTHONPATH, because of the option -I or -E."""
    started = False
    for word in words:
        if os.path.basename(word).startswith("python"):
            started = True
        elif started and _ISOLATED.fullmatch(word):
            return True
        else:
            started = started and word.startswith("-") and word not in ("-c", "-m")
    return False


def _outcome(ended: ProgramEnd) -> str:
    if ended.how == "timeout":
        return "timeout"
    return "passed" if ended.how == "exited" and ended.status == 0 else "failed"
