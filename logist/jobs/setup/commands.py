"""Runs commands of the config in a workspace, in the sandbox and with a private directory, and reads their output."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from logist import event_log
from logist.agents import checks, sandbox
from logist.agents.sandbox import Confinement, ProgramEnd
from logist.agents.workplace import RUN, Workplace
from logist.core.text import surrogates
from logist.event_log import events
from logist.quick_dataclass import dataclass
from logist.workspace.files import removal

if TYPE_CHECKING:
    from logist.jobs.setup.command_host import CommandHost

SHELL = "/bin/sh"
SCRATCH = "check"
"""The name of a subdirectory in the private directory of an ask."""

_ESCAPE = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")

Command = str | Sequence[str]


@dataclass(frozen=True)
class ShellResult:
    """How a command ended, or why it did not run, and the end of its output."""

    ended: ProgramEnd | None
    error: str
    stdout: str
    stderr: str

    def join_output(self, most: int) -> str:
        """Both outputs, at most `most` characters together: one stream gets what the other does not need."""
        room = max(most // 2, most - len(self.stdout))
        error = self.stderr[-room:]
        out = self.stdout[-(most - len(error)) :] if len(error) < most else ""
        return f"{out}\n--- standard error ---\n{error}" if out and error else out or error


def format_command(command: Command) -> str:
    """A command on one line."""
    return command if isinstance(command, str) else shlex.join(command)


def run_command(
    host: CommandHost,
    command: Command,
    place: Workplace,
    confinement: Confinement,
    *,
    seconds: float,
    tail: int,
) -> ShellResult:
    """Run a command to its end; the last `tail` bytes of each output are kept, without secrets."""
    if event_log.is_on():
        event_log.report(events.ProgramBegun(format_command(command)))
    with host.pause():
        check_run = checks.run_check(
            (SHELL, "-c", command) if isinstance(command, str) else command,
            replace(confinement, tail_bytes=tail),
            place.scratch,
            seconds=seconds,
            marker=host.marker,
            environment=host.environment.build_child_environment(),
            stop=lambda: bool(host.stopping()),
        )
    out, error = (
        _read_output(host, place, place.scratch / name, tail) for name in (checks.STDOUT, checks.STDERR)
    )
    return ShellResult(check_run.ended, host.redact_text(check_run.error), out, error)


def describe_end(ended: ProgramEnd, seconds: float) -> str:
    """Why the command did not end by itself; empty if it did."""
    if ended.how == "timeout":
        return f"stopped after {seconds:g} seconds"
    if ended.signal is not None and not ended.reason:
        return f"killed by {_describe_signal(ended.signal)}"
    return ended.reason


def _describe_signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


@contextmanager
def make_private_place(host: CommandHost) -> Iterator[Workplace]:
    """A private directory for one command, with its HOME; it is removed afterwards with everything in it.

    The command sees the workspace, but not the rest of the job.
    """
    host.open_workspace().complete_git()
    inflight = host.job.inflight
    existed = inflight.exists()
    scratch = inflight / RUN / SCRATCH
    inflight.mkdir(mode=0o700, exist_ok=True)
    removal.remove_directory(scratch)
    (scratch / "home").mkdir(mode=0o700, parents=True)
    try:
        yield Workplace(
            host.job.workspace.absolute(),
            scratch.absolute(),
            host.environment.build_child_environment(),
        )
    finally:
        removal.remove_directory(scratch if existed else inflight)


def end_leftover_commands(host: CommandHost) -> None:
    """End processes that a killed Logist left running, and remove their private directory."""
    sandbox.end_leftover_processes(host.marker)
    removal.remove_directory(host.job.inflight / RUN / SCRATCH)


def _read_output(host: CommandHost, place: Workplace, path: Path, tail: int) -> str:
    """The output without secrets, without colors, and with paths relative to the workspace."""
    try:
        data = path.read_bytes()[-tail:]
    except OSError:
        return ""
    text = surrogates.replace_surrogates(_ESCAPE.sub("", data.decode("utf-8", "surrogateescape")))[0]
    return host.redact_text(_replace_paths(text, place)).strip()


def _replace_paths(text: str, place: Workplace) -> str:
    """Replace paths of this machine: no prompt contains any, and to an agent
    its workspace is the current directory.
    """
    for spelled in _list_spellings(place.workspace):
        text = text.replace(f"{spelled}/", "").replace(spelled, ".")
    for spelled in _list_spellings(place.scratch):
        text = text.replace(spelled, "~")
    return text


def _list_spellings(path: Path) -> list[str]:
    """A path as written and as programs resolve it, the longer first: it may end with the other."""
    return sorted({str(path), os.path.realpath(path)}, key=len, reverse=True)
