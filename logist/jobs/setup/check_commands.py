"""Runs the commands of checks one after the other, and restores the workspace after each."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from logist.agents.protocol import AgentWork
from logist.errors import Stopped
from logist.jobs.setup import commands, workspace_code, workspace_setup
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    from logist.agents.outside_code import OutsideCode
    from logist.agents.sandbox import ProgramEnd
    from logist.jobs.setup.command_host import CommandHost
    from logist.jobs.setup.workspace_setup import PreparedWorkspace

TAIL_BYTES = 32_768
"""The last bytes of each output of a command that are read. A command may write more."""
SHOWN = 4000
"""The last characters of its output that are recorded."""
OUTSIDE = "packages installed from outside the workspace"
NOT_THE_WORKSPACE = "it would run your checkout of the repository, not the workspace"
_ISOLATED = compile_on_use(r"-[bBdiOPqRsSuvx]*[IE][a-zA-Z]*")


@dataclass(frozen=True)
class CheckCommand:
    """The command of a check."""

    name: str
    command: str | tuple[str, ...]
    seconds: float
    """How long it may take."""


@dataclass(frozen=True)
class CheckEnd:
    """How the command of a check ended."""

    ended: ProgramEnd | None
    """None: it did not run."""
    reason: str = ""
    """Why it did not run or not end by itself, and what else a reader should know."""
    output: str = ""
    is_refused: bool = False
    """It was not even tried."""


def run_checks(
    host: CommandHost, checks: Sequence[CheckCommand], found: str, *, network: bool
) -> list[CheckEnd]:
    """Run the checks and return how each ended; `found` is the checkpoint of the workspace as the agent left it.

    `network`: the agent might use the network. Raises SetupFailed before the first check, and Stopped.
    """
    prepared = workspace_setup.prepare_for_checks(host, found, network=network)
    workspace = host.open_workspace()  # read again: what the setup made is not the agent's work
    ends: list[CheckEnd] = []
    for check in checks:
        if ends:  # the check before may have run code of the agent, which can change the environment
            prepared = workspace_setup.prepare_again(host, prepared, found, network=network)
        host.report_progress(f"running the check {check.name}")
        ends.append(_run_check(host, check, prepared))
        workspace.restore(found, clearing=True)
    return ends


def _run_check(host: CommandHost, check: CheckCommand, prepared: PreparedWorkspace) -> CheckEnd:
    words = _split_words(check.command)
    code = workspace_code.find_code(host, prepared.code, words, isolated=_ignores_path(words))
    with commands.make_private_place(host) as place:
        work = AgentWork(sandbox=host.sandbox, marker=host.marker, code=code.paths)
        confinement = place.confine_command(work)
        if instead := workspace_code.filter_reachable(code.instead, confinement):
            for each in instead:
                host.say(f"check {check.name}: {_explain_outside_code(each)}")
            reason = f"{NOT_THE_WORKSPACE}: {workspace_code.format_names(instead)}"
            return CheckEnd(None, reason, is_refused=True)
        done = commands.run_command(
            host, check.command, place, confinement, seconds=check.seconds, tail=TAIL_BYTES
        )
    if host.stopping() or (done.ended and done.ended.how == "stopped"):
        fix = f"to run it again: logist job step --job {host.job_id}; the agent is not called again"
        raise Stopped(
            f"stopped while the check {check.name} was running", exit_code=host.stopping() or 130, fix=fix
        )
    if done.ended is None:
        return CheckEnd(None, done.error)
    outside = f"{OUTSIDE}: {workspace_code.format_names(code.outside)}" if code.outside else ""
    reasons = (commands.describe_end(done.ended, check.seconds), outside, prepared.note)
    return CheckEnd(done.ended, "; ".join(filter(None, reasons)), done.join_output(SHOWN))


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
