"""Run a program under bubblewrap: start, watch, count and end it as one process namespace."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from logist.agents.sandbox import bubblewrap, ending, inner_listener, landlock, launcher, processes, started
from logist.agents.sandbox.confinement import MARKER, Confinement, GateAccess, Kind
from logist.agents.sandbox.processes import Table
from logist.agents.sandbox.started import build_limits, reap_process, start_process
from logist.agents.sandbox.streams import Streams, read_pipe, wait_readable
from logist.errors import Refused
from logist.quick_dataclass import dataclass

if TYPE_CHECKING:
    import socket

_FIRST_INSIDE = 2
"""The pid of the program in its namespace: pid 1 is the process that reaps orphans there."""
_SHORT_PIPE = 4096
_LONGEST = 10.0
PATIENCE = 5.0
"""Seconds that bubblewrap has to report the end of the program before stronger measures are taken."""
_SHELL_SIGNALS = frozenset(
    128 + number
    for number in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGKILL,
        signal.SIGSEGV,
        signal.SIGPIPE,
        signal.SIGTERM,
        signal.SIGXFSZ,
    )
)
"""Exit statuses with which bubblewrap, like a shell, reports that a signal ended the program."""


def start_boxed(
    bwrap: str, argv: Sequence[str], executable: str, confinement: Confinement, marker: str, streams: Streams
) -> Boxed:
    """Start `argv` in bubblewrap. Error messages of bubblewrap arrive as the program's standard error."""
    status, telling = os.pipe()
    waiting, releasing = os.pipe()
    # The pipe is filled below (`prepare_sandbox`) so that bubblewrap blocks when it reports the exit status. A small
    # pipe is quick to fill; the default of 64 KiB would have to be written each time.
    fcntl.fcntl(telling, fcntl.F_SETPIPE_SZ, _SHORT_PIPE)
    flags = bubblewrap.build_flags(confinement, executable, bubblewrap.read_optional_flags(bwrap))
    # --block-fd delays the program until its resource limits are set from outside. If they were set later, a fork
    # bomb could be faster.
    extra = ["--json-status-fd", str(telling), "--block-fd", str(waiting)]
    command, passed = bubblewrap.build_bubblewrap_command(bwrap, flags, extra)
    command, more = _limit_scopes([*command, executable, *argv[1:]], confinement, marker)
    boxed = None
    try:
        process = start_process(command, marker, (*passed, *more, telling, waiting), streams)
        boxed = Boxed(process, status)
        ready = boxed.prepare_sandbox(build_limits(confinement, 0))
        if ready and confinement.gate is not None and not confinement.network:
            boxed.open_gate(confinement.gate, marker)
    except BaseException:
        if boxed is None:
            os.close(status)
        else:  # ended before it is released below, so nothing of the program ever runs
            boxed.kill()
            boxed.close()
        raise
    finally:
        os.close(releasing)  # closing the file releases the program too
    return boxed


def _limit_scopes(command: list[str], confinement: Confinement, marker: str) -> tuple[list[str], list[int]]:
    """Put the launcher in front of `command` where the network is shared, so that Landlock keeps the program
    from abstract sockets.

    A shared network shares those sockets too. Returns the argv and the descriptors to pass on.
    """
    version = launcher.read_landlock_version()
    if not confinement.network or version < launcher.SCOPES_SINCE:
        return command, []
    content = landlock.build_scope_plan(command, marker=marker, parent=os.getpid(), version=version)
    reading, report = os.pipe()
    os.close(reading)
    return landlock.build_launcher_command(content, report)


@dataclass
class Boxed:
    """A program in its own process namespace, with one bubblewrap process inside as its first process, and
    one outside.

    The one outside reports the exit status in a pipe and ends; with it the namespace ends. That pipe is kept
    full until `collect_exit_status`, so that the processes the program left can be counted.
    """

    process: subprocess.Popen[bytes]
    status: int | None
    init: int = 0
    kind: Kind = "bubblewrap"
    _init_end: int | None = None
    _main: int | None = None
    _main_end: int | None = None
    _group: int | None = None
    _over: bool = False

    def prepare_sandbox(self, wanted: Mapping[str, int]) -> bool:
        """Wait for the sandbox and set its limits before anything of the program runs.

        Returns False if the sandbox failed.
        """
        assert self.status is not None
        report, complete = read_pipe(self.status, started.SETUP_SECONDS, line=True)
        if not complete:
            started.abort_setup(self.process)
        if not report.endswith(b"\n"):
            return False
        self.init = int(json.loads(report)["child-pid"])
        self._init_end = processes.open_descriptor(self.init)
        with suppress(OSError):  # otherwise it has ended already
            launcher.set_limits(wanted, self.init)
            launcher.lower_priority(self.init)
        # We only hold the reading end. Opening it again through /proc gives a writing end of the same pipe,
        # with which it can be filled; nothing but bubblewrap and this function ever writes to it.
        filling = os.open(f"/proc/self/fd/{self.status}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(BlockingIOError):
            os.write(filling, b" " * fcntl.fcntl(filling, fcntl.F_GETPIPE_SZ))
        os.close(filling)
        return True

    def open_gate(self, gate: GateAccess, marker: str) -> None:
        """Let the gate listen inside, before anything of the program runs: so no program can take the port first.

        Raises Refused if the sandbox's network can't be joined.
        """
        try:
            listener = _open_inner_listener(self.init, gate.port, marker)
        except OSError as error:
            if not _is_running(self.init, self.process.pid):
                return  # bubblewrap failed, and says why
            raise Refused(
                f"the sandbox can't connect a program without network to its model: {error}",
                fix="set `network: true` in the role; for details, run: logist doctor",
            ) from None
        gate.listen_on(listener)

    def has_ended(self) -> bool:
        self._over = self._over or self._detect_end()
        return self._over

    def _detect_end(self) -> bool:
        # Three processes: bubblewrap outside (`process`), the first process of the new pid namespace
        # (`init`), and the program, which has number 2 inside. The program has ended when it is no longer a
        # living child of init; the outer bubblewrap can't say so, because its report is held back by the full
        # pipe.
        """Whether the program is gone: bubblewrap ended, its inner process ended, or process 2 of the
        namespace (the program) did.
        """
        if self.process.poll() is not None or not _is_running(self.init, self.process.pid):
            return True
        if self._main is not None:
            return not _is_running(self._main, self.init)
        # The program's pid out here is not known beforehand: it is the child of init that is number 2 inside.
        numbers = {processes.read_inner_pid(pid): pid for pid in processes.list_children(self.init)}
        self._main = numbers.get(_FIRST_INSIDE)
        if self._main is not None:
            self.find_group()
            self._main_end = processes.open_descriptor(self._main)
        # init has children, but number 2 is not among them: the program ended before the first check, and left
        # other processes. If init has no child, the program may not have started yet.
        return self._main is None and any(numbers)

    def list_end_descriptors(self) -> tuple[int, ...]:
        return tuple(number for number in (self._init_end, self._main_end) if number is not None)

    def find_members(self, table: Table) -> set[int]:
        return processes.find_descendants(table, [self.init]) - {self.init}

    def find_group(self) -> int | None:
        main = processes.read_process(self._main) if self._main is not None else None
        # A pid can be used again. It is still the program only while its parent is init.
        if main and main.parent == self.init:
            self._group = main.group
        return self._group

    def send_signal(self, number: int) -> None:
        if self.has_ended():
            return
        if group := self.find_group():
            processes.signal_group(group, number)
        elif number == signal.SIGTERM:  # the program has not started, so no process can handle SIGTERM
            self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            if self._init_end is not None:
                # A pidfd can't hit another process that got the same pid. Killing init ends its whole
                # namespace: the kernel kills every process in it, so nothing can fork away.
                signal.pidfd_send_signal(self._init_end, signal.SIGKILL)
            elif _is_running(self.init, self.process.pid):
                os.kill(self.init, signal.SIGKILL)

    def collect_exit_status(self) -> tuple[int | None, int | None]:
        report, killed = self._read_report()
        self.close()
        if b"exit-code" not in report:
            return None, signal.SIGKILL if killed else None
        # The first report is the child's pid, then come the blanks that filled the pipe, then the status.
        status = int(json.loads(report.strip().splitlines()[-1])["exit-code"])
        return (None, status - 128) if status in _SHELL_SIGNALS else (status, None)

    def _read_report(self) -> tuple[bytes, bool]:
        """Return bubblewrap's report, and whether bubblewrap had to be killed to get it.

        The program may have stopped the first process of its namespace (ptrace), or keep a tracer on it: that
        process then never sees the program's end. The stronger a measure is, the less of the report is
        left after it.
        """
        assert self.status is not None
        report = b""
        for measure in (self._wake_init, self._end_strays, self.kill, self.process.kill):
            measure()
            more, complete = read_pipe(self.status, PATIENCE)
            report += more
            if complete:
                break
        return report, measure in (self.kill, self.process.kill)

    def _wake_init(self) -> None:
        with suppress(ProcessLookupError):
            if self._init_end is not None:
                signal.pidfd_send_signal(self._init_end, signal.SIGCONT)

    def _end_strays(self) -> None:
        ending.end_all(self.find_members)
        self._wake_init()

    def get_start_error(self) -> OSError | None:
        return None

    def close(self) -> None:
        if self.status is not None:
            os.close(self.status)
        reap_process(self.process)
        if self._init_end is not None:  # killing the first process of a namespace ends all its processes
            wait_readable(self._init_end, _LONGEST)
            os.close(self._init_end)
        if self._main_end is not None:
            os.close(self._main_end)
        if self.init:  # the outer process ended before it, so it is our child now
            processes.reap_children([self.init])
        self.status = self._init_end = self._main_end = None


def _open_inner_listener(pid: int, port: int, marker: str) -> socket.socket:
    """Return a socket that listens on 127.0.0.1 in the network of process `pid`. Raises OSError."""
    import socket  # noqa: PLC0415 - slow import: only programs with a gate need it

    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = [sys.executable, "-I", "-S", inner_listener.__file__, *map(str, (pid, port, theirs.fileno()))]
        try:
            done = subprocess.run(
                argv,
                env={MARKER: marker},
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for Logist
                timeout=_LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"not ready within {_LONGEST:g} seconds") from None
        if done.returncode:
            raise OSError(done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}")
        _, numbers, _, _ = socket.recv_fds(ours, 1, 1, socket.MSG_CMSG_CLOEXEC)
        if not numbers:  # this process has as many open files as it may have
            raise OSError("no room for another open file")
        return socket.socket(fileno=numbers[0])


def _is_running(pid: int, parent: int) -> bool:
    """Whether this process is alive and still a child of `parent`: a process id can be reused."""
    process = processes.read_process(pid)
    return process is not None and process.parent == parent and process.is_alive
