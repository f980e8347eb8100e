"""Run a program under Landlock or unconfined: its process group, and the processes that left that group."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import field

from logist.agents.sandbox import landlock, launcher, processes, started
from logist.agents.sandbox.confinement import Confinement, Kind
from logist.agents.sandbox.processes import Table
from logist.agents.sandbox.started import build_limits, reap_process, start_process
from logist.agents.sandbox.streams import Streams, read_pipe
from logist.quick_dataclass import dataclass


def start_bare(
    kind: Kind, argv: Sequence[str], executable: str, confinement: Confinement, marker: str, streams: Streams
) -> Bare:
    """Start `argv` through the launcher, which gives up its own rights and then becomes the program."""
    user = os.getuid()
    content = landlock.build_plan(
        kind,
        confinement,
        argv,
        executable,
        limits=build_limits(confinement, processes.count_user_threads(user) if user else 0),
        parent=os.getpid(),
        version=launcher.read_landlock_version(),
    )
    # We are a subreaper: orphans of the program become our children, like those that we started ourselves.
    # Children that exist before the start don't belong to the program.
    others = frozenset(processes.list_children(os.getpid()))
    # The writing end closes at exec, so if the report ends empty, the program runs.
    report, writing = os.pipe()
    command, passed = landlock.build_launcher_command(content, writing)
    try:
        process = start_process(command, marker, passed, streams)
    except BaseException:
        os.close(report)
        raise
    try:
        problem = _read_launch_error(process, report)
    finally:
        os.close(report)
    return Bare(process, kind, marker, others, problem, processes.open_descriptor(process.pid))


def _read_launch_error(process: subprocess.Popen[bytes], report: int) -> OSError | None:
    """Return the error that kept the launcher from becoming the program; None if it started (its report pipe
    then ends empty).
    """
    text, complete = read_pipe(report, started.SETUP_SECONDS)
    if not complete:
        started.abort_setup(process)
    if not text:
        return None
    number, _, words = text.decode("utf-8", "replace").partition(" ")
    return OSError(int(number), words)


@dataclass
class Bare:
    """A process, its group, and its descendants. Descendants that lose their parent become our children."""

    process: subprocess.Popen[bytes]
    kind: Kind
    marker: str
    others: frozenset[int]
    """Children that we had before."""
    problem: OSError | None = None
    _end: int | None = None
    _known: set[int] = field(default_factory=set)

    def has_ended(self) -> bool:
        if self.process.returncode is None and not processes.has_exited(self.process.pid):
            return False
        return self.process.poll() is not None

    def list_end_descriptors(self) -> tuple[int, ...]:
        return () if self._end is None else (self._end,)

    def find_members(self, table: Table) -> set[int]:
        ours = os.getpid()
        adopted = {
            each.pid for each in table.values() if each.parent == ours and self._is_adopted(each, table)
        }
        # When its exit status is collected, another process may get the pid.
        roots = {self.process.pid, *adopted} if self.process.returncode is None else adopted
        self._known = processes.find_descendants(table, roots)
        return set(self._known)

    def _is_adopted(self, process: processes.RunningProcess, table: Table) -> bool:
        """Whether the program left this child of ours: the children that we start ourselves stay in our
        session.
        """
        if process.pid == self.process.pid or process.pid in self.others:
            return False
        # Known from an earlier check as its descendant, or still in the session of the program: it belongs to
        # the run.
        if process.pid in self._known or process.session == self.process.pid:
            return True
        if process.session == os.getsid(0):
            return False
        # It created its own session (setsid). The marker in its environment shows that it belongs to the run. A
        # process without a readable environment hasn't called exec since, or hides it: it is ended too. A marker
        # of another run means that it belongs to another call that runs at the same time.
        return bool(processes.find_marked(self.marker, [process.pid])) or not processes.has_marker(
            process.pid
        )

    def send_signal(self, number: int) -> None:
        if self.process.returncode is None:
            processes.signal_group(self.process.pid, number)

    def find_group(self) -> int | None:
        return self.process.pid

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def collect_exit_status(self) -> tuple[int | None, int | None]:
        status = self.process.wait()
        self.close()
        if self.problem is not None:
            return None, None
        return (None, -status) if status < 0 else (status, None)

    def get_start_error(self) -> OSError | None:
        return self.problem

    def close(self) -> None:
        if self._end is not None:
            os.close(self._end)
        self._end = None
        reap_process(self.process)
