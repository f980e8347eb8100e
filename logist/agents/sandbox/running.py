"""Runs one program to its end: confined, with its input and output,
within its limits, and without leftover processes.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from logist.agents.sandbox import bare, boxed, ending, processes, view
from logist.agents.sandbox.confinement import (
    MARKER,
    Confinement,
    GateAccess,
    Kind,
    Means,
    Mode,
    ProgramEnd,
)
from logist.agents.sandbox.probing import detect_sandbox, require_linux
from logist.agents.sandbox.started import Started
from logist.agents.sandbox.streams import Dialogue, Streams, create_output_file
from logist.agents.sandbox.watching import Watch
from logist.errors import InvalidFile, LogistError, Refused
from logist.quick_dataclass import dataclass

GRACE = 3.0
"""Seconds between the first and the second SIGTERM."""
LAST_GRACE = 1.0
"""Seconds between the second SIGTERM and SIGKILL."""
_KILLED = 15.0
"""Seconds to wait for a killed program; after that, the kernel is blocking it, and waiting stops."""
_FIRST_TURN, _LONGEST_TURN = 0.001, 0.02
_A_MOMENT = 0.1
_TRIAL_SECONDS = 10.0
_TRIAL_PORT = 8000
"""Any port: the sandbox has its own."""
_SHOWN = 2000
_SHELL = 128
"""A shell's exit status is this plus the number of the signal that ended its last command."""

_WITHOUT_SETTINGS_OF_GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
"""git fails if /etc/gitconfig exists and can't be read. The sandbox hides that file because it may contain tokens."""

How = Literal["exited", "killed", "stopped", "timeout", "idle", "limit"]


def run_program(
    argv: Sequence[str],
    confinement: Confinement,
    *,
    stdin: bytes,
    stdout: Path,
    stderr: Path,
    deadline_seconds: float,
    idle_seconds: float | None = None,
    marker: str,
    stop: Callable[[], bool],
    dialogue: Dialogue | None = None,
) -> ProgramEnd:
    """Run `argv` in the workspace until it ends, or is ended; return when none of its processes is left.

    Its output is written to two new files that only their owner can read. It gets SIGTERM twice and then SIGKILL
    at the deadline, after `idle_seconds` without output, if `stop()` returns True (checked many times a second),
    or if it exceeds a limit. `marker` is added to its environment. `dialogue`: writes to its standard input, after `stdin`. Only one thread at a time may call this.
    Raises InvalidFile if the program does not exist or can't be started, Refused if a sandbox is required and
    none works.
    """
    sandbox = choose_sandbox(confinement.mode)
    confinement = _complete_confinement(confinement, sandbox.kind, marker)
    executable = view.find_program(argv[0], confinement)
    processes.become_subreaper()
    files, room, tail = (
        (create_output_file(stdout), create_output_file(stderr)),
        confinement.output_bytes,
        confinement.tail_bytes,
    )
    with Streams(stdin, files, room, tail=tail, dialogue=dialogue) as streams:
        started = _start_program(sandbox, argv, executable, confinement, marker, streams)
        running = _ProgramRun(started, streams, confinement, deadline_seconds, idle_seconds, stop)
        try:
            return running.wait_until_end(argv[0], stderr)
        finally:
            running.clean_up()


def choose_sandbox(mode: Mode) -> Means:
    """Return the sandbox for a program in this mode, on this machine.

    Raises Refused if agents' programs can't run on this machine.
    """
    require_linux()
    if mode == "off":
        return Means("none", ("turned off",))
    sandbox = detect_sandbox()
    if mode == "required" and sandbox.kind == "none":
        raise Refused(
            "a sandbox is required, but none works on this machine: " + "; ".join(sandbox.details),
            fix="apt install bubblewrap, or set `sandbox: {mode: auto}`",
        )
    return sandbox


def find_gate_problem() -> str | None:
    """Return why a program without network can't reach a gate in this machine's bubblewrap; None if it can.

    Runs a program that does nothing. The gaps of Landlock are among the details of `detect_sandbox`.
    """
    if detect_sandbox().kind != "bubblewrap":
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="logist-trial-") as name:
            place = Path(name)
            workspace, home = place / "workspace", place / "home"
            workspace.mkdir()
            home.mkdir()
            gate = GateAccess(_TRIAL_PORT, lambda listener: listener.close())
            confinement = Confinement(workspace, True, home, {"PATH": os.defpath}, gate=gate)
            run_program(
                ["true"],
                confinement,
                stdin=b"",
                stdout=place / "stdout",
                stderr=place / "stderr",
                deadline_seconds=_TRIAL_SECONDS,
                marker=f"trial-{os.urandom(8).hex()}",
                stop=lambda: False,
            )
    except (LogistError, OSError) as error:
        return error.message if isinstance(error, LogistError) else str(error)
    return None


def _complete_confinement(confinement: Confinement, kind: Kind, marker: str) -> Confinement:
    """Add absolute paths, the marker, a temporary directory, and settings that replace files that can't
    be hidden.
    """
    workspace, home = view.make_absolute(confinement)
    if workspace == Path("/"):
        raise InvalidFile(
            "the root of the file system can't be a workspace", where="/", fix="choose another directory"
        )
    temporary = Path("/tmp") if kind == "bubblewrap" else home / "tmp"  # noqa: S108  inside the sandbox
    if kind != "bubblewrap":
        temporary.mkdir(mode=0o700, exist_ok=True)
    own = {"TMPDIR": str(temporary), **(_WITHOUT_SETTINGS_OF_GIT if kind == "landlock" else {})}
    environment = {**own, **confinement.environment, MARKER: marker}
    return replace(confinement, workspace=workspace, home=home, environment=environment)


def _start_program(
    found: Means,
    argv: Sequence[str],
    executable: str,
    confinement: Confinement,
    marker: str,
    streams: Streams,
) -> Started:
    if found.kind == "bubblewrap":
        return boxed.start_boxed(found.program, argv, executable, confinement, marker, streams)
    return bare.start_bare(found.kind, argv, executable, confinement, marker, streams)


@dataclass
class _ProgramRun:
    """One run of a program, from its start to its end."""

    started: Started
    streams: Streams
    confinement: Confinement
    deadline_seconds: float
    idle_seconds: float | None
    stop: Callable[[], bool]
    how: How | None = None
    reason: str = ""

    began: float = field(default_factory=time.monotonic)
    heard: int = 0
    heard_at: float = 0.0
    asking: list[tuple[float, int]] = field(default_factory=list)
    """The signals to send, each with its time; the next one is last."""
    killed_at: float | None = None
    outside: set[int] = field(default_factory=set)
    """Processes that had left the program's group when the group was killed."""
    woken_by: set[int] = field(default_factory=set)
    over: bool = False

    def __post_init__(self) -> None:
        self.heard_at = self.began
        started, most = self.started, self.confinement
        self.watch = Watch(started.find_members, started.send_signal, most.memory_bytes, most.processes)

    def wait_until_end(self, program: str, stderr: Path) -> ProgramEnd:
        """Wait for the program, end the processes it left, and return how it ended."""
        turn = _FIRST_TURN
        while not self.started.has_ended() and not self._is_given_up():
            self._pump_streams(turn)
            turn = min(turn * 2, _LONGEST_TURN)
            self._enforce_limits()
        strays = self._end_strays()
        # The order matters: leftover processes keep the pipes open. So the pipes are drained, without waiting,
        # only when all of them have ended. Reading until the end of the file could wait forever.
        status, number = self._collect_exit_status()
        self.streams.drain_pipes()
        self.over = True
        if status is None and number is None:
            raise self._explain_failed_start(program, stderr)
        self._classify_end(status, number)
        return ProgramEnd(
            status,
            number,
            self.how or "exited",
            self.reason,
            round(time.monotonic() - self.began, 3),
            self.streams.cut,
            strays,
            self.started.kind,
        )

    def clean_up(self) -> None:
        """End everything that is still running, because an exception was raised."""
        if not self.over:
            self.started.kill()
            ending.end_all(self.started.find_members)
            self.started.close()

    def _pump_streams(self, seconds: float) -> None:
        self._wake_at_end()
        self.streams.pump_pipes(seconds)
        if self.streams.heard != self.heard:
            self.heard, self.heard_at = self.streams.heard, time.monotonic()

    def _wake_at_end(self) -> None:
        for number in self.started.list_end_descriptors():
            if number not in self.woken_by:
                self.streams.wake_for(number)
                self.woken_by.add(number)

    def _enforce_limits(self) -> None:
        if self.how is None:
            self._decide_end(time.monotonic())
        while self.asking and time.monotonic() >= self.asking[-1][0]:
            number = self.asking.pop()[1]
            if number == signal.SIGKILL:
                self.watch.check_limits()
            self._signal_program(number)

    def _decide_end(self, now: float) -> None:
        if self.stop():
            self.how = "stopped"
        elif now > self.began + self.deadline_seconds:
            self.how = "timeout"
        elif self.idle_seconds is not None and now > self.heard_at + self.idle_seconds:
            self.how = "idle"
        elif self.streams.cut:
            self.how, self.reason = "limit", self._describe_output_limit()
        elif breach := self.watch.find_breach():
            self.how, self.reason = "limit", breach
            self._signal_program(signal.SIGKILL)
        if self.how is not None and self.killed_at is None:
            # SIGTERM twice: a program may finish its turn after the first, and end after the second. The list is
            # popped from its end, so the earliest signal is last.
            second, last = now + GRACE, now + GRACE + LAST_GRACE
            self.asking = [(last, signal.SIGKILL), (second, signal.SIGTERM), (now, signal.SIGTERM)]

    def _signal_program(self, number: int) -> None:
        if number != signal.SIGKILL:
            self.started.send_signal(number)
            return
        # Checking all processes first could take long during a fork bomb.
        group = self.started.find_group()
        self.outside = {each.pid for each in self.watch.seen if each.group != group}
        self.killed_at = time.monotonic()
        self.started.kill()

    def _is_given_up(self) -> bool:
        return self.killed_at is not None and time.monotonic() > self.killed_at + _KILLED

    def _end_strays(self) -> int:
        if self.killed_at is not None:
            return len(
                self.outside | ending.end_all(self.started.find_members, but=self.started.find_group())
            )
        if self.how is not None:
            self._wait_for_group()
        strays = ending.find_living(self.started.find_members)
        # Under bubblewrap, they all end with the namespace in `finish`.
        if self.started.kind != "bubblewrap":
            strays |= ending.end_all(self.started.find_members)
        return len(strays)

    def _wait_for_group(self) -> None:
        """Wait a moment for processes that got SIGTERM together with the program."""
        until = time.monotonic() + _A_MOMENT
        while ending.find_living(self.started.find_members) and time.monotonic() < until:
            time.sleep(_FIRST_TURN)

    def _collect_exit_status(self) -> tuple[int | None, int | None]:
        if self._is_given_up():
            self.started.close()
            return None, signal.SIGKILL
        status, number = self.started.collect_exit_status()
        # We ended it before bubblewrap could report a status: it was our kill.
        if status is None and number is None and self.how is not None:
            return None, signal.SIGKILL
        return status, number

    def _describe_output_limit(self) -> str:
        return f"more than {self.confinement.output_bytes:,} bytes of output"

    def _classify_end(self, status: int | None, number: int | None) -> None:
        if self.how is None and self.streams.cut:
            self.how, self.reason = "limit", self._describe_output_limit()
        elif self.how is None and (number == signal.SIGXFSZ or status == _SHELL + signal.SIGXFSZ):
            self.how, self.reason = "limit", f"a file of more than {self.confinement.file_bytes:,} bytes"
        elif self.how is None and number is not None:
            self.how = "killed"

    def _explain_failed_start(self, program: str, stderr: Path) -> Exception:
        problem = self.started.get_start_error()
        text = str(problem.strerror) if problem else stderr.read_text("utf-8", "replace")[:_SHOWN].strip()
        if problem or "execvp" in text:
            fix = "check that it and its interpreter are installed where the sandbox can read them (`sandbox.readable`)"
            if "Exec format error" in text:
                fix = "if it is a script, its first line must name its interpreter, such as #!/bin/sh"
            return InvalidFile(f"can't start the program: {text}", where=program, fix=fix)
        return Refused(f"can't set up the sandbox: {text}", fix="logist doctor")
