"""The machine's processes as /proc lists them: descent, memory and run marker."""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from logist.agents.sandbox.confinement import MARKER
from logist.quick_tuple import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
_SET_CHILD_SUBREAPER = 36
_GONE = ("Z", "X", "x")


class RunningProcess(NamedTuple):
    """One row of the process table."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    memory: int
    """Resident, in bytes."""

    @property
    def is_alive(self) -> bool:
        """Whether it is running, and not a zombie."""
        return self.state not in _GONE


Table = Mapping[int, RunningProcess]


def become_subreaper() -> None:
    """Make Logist adopt orphans of its children, instead of the first process of the machine."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def list_pids() -> list[int]:
    """Return the ids of all visible processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read_table() -> Table:
    """Return all processes with their current state."""
    return {process.pid: process for process in map(read_process, list_pids()) if process}


def read_process(pid: int) -> RunningProcess | None:
    """Return one process; None if it has ended."""
    fields = _read_stat(f"/proc/{pid}/stat")
    if fields is None:
        return None
    parent, group, session = map(int, fields[1:4])
    # A program may end only its first thread: the kernel then shows a zombie without memory while others run.
    if fields[0].decode() in _GONE and int(fields[17]) > 1:
        fields = _read_living_thread(pid) or fields
    return RunningProcess(pid, parent, group, session, fields[0].decode(), int(fields[21]) * PAGE)


def _read_stat(path: str) -> list[bytes] | None:
    """Return the fields after the name, which can contain any character."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name is in brackets and may contain brackets and blanks: only the last bracket ends it.
    return text[text.rindex(b")") + 2 :].split()


def _read_living_thread(pid: int) -> list[bytes] | None:
    for thread in _list_threads(pid):
        fields = _read_stat(f"/proc/{pid}/task/{thread}/stat")
        if fields is not None and fields[0].decode() not in _GONE:
            return fields
    return None


def _list_threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def find_descendants(processes: Table, roots: Iterable[int]) -> set[int]:
    """Return the roots that are in the table, and all their descendants."""
    children = defaultdict(list)
    for process in processes.values():
        children[process.parent].append(process.pid)
    reached: set[int] = set()
    waiting = [pid for pid in roots if pid in processes]
    while waiting:
        pid = waiting.pop()
        if pid not in reached:
            reached.add(pid)
            waiting += children[pid]
    return reached


def find_marked(marker: str, among: Collection[int]) -> set[int]:
    """Return the processes that were started with the marker in their environment."""
    wanted = os.fsencode(f"{MARKER}={marker}")
    return {pid for pid in among if wanted in _read_environment(pid)}


def has_marker(pid: int) -> bool:
    """Whether the process belongs to any run at all."""
    prefix = os.fsencode(f"{MARKER}=")
    return any(entry.startswith(prefix) for entry in _read_environment(pid))


def _read_environment(pid: int) -> list[bytes]:
    for thread in (str(pid), *_list_threads(pid)):  # an ended first thread has an empty environment
        with suppress(OSError), open(f"/proc/{pid}/task/{thread}/environ", "rb") as file:
            if text := file.read():
                return text.split(b"\0")
    return []


def list_children(pid: int) -> list[int]:
    """Return its children, including zombies."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(number) for number in file.read().split()]
    except OSError:  # the process has ended, or the kernel has no such list
        return [process.pid for process in read_table().values() if process.parent == pid]


def open_descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None if it has ended, or the kernel is
    too old.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def has_exited(child: int) -> bool:
    """Whether this child of ours has ended; its exit status can still be collected.

    A child that calls PTRACE_TRACEME makes us its tracer: `wait` then also reports that it has stopped, which
    `Popen.poll` mistakes for its end.
    """
    try:
        # WNOWAIT leaves the exit status for `Popen.wait`, which would otherwise report 0.
        change = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return change is not None and change.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)


def read_inner_pid(pid: int) -> int | None:
    """Return its process id in its innermost namespace; None if it has ended."""
    with suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"NSpid:"):
                return int(line.split()[-1])
    return None


def signal_all(found: Iterable[int], number: int) -> None:
    """Send a signal to each process that still exists."""
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def signal_group(group: int, number: int) -> None:
    """Send a signal to all processes of a group at once."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def reap_children(found: Iterable[int]) -> None:
    """Collect the exit status of processes that have become our children, so that they disappear."""
    for pid in found:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def count_threads() -> int:
    """Return the number of threads on the machine, which is fast; 0 if unknown."""
    with suppress(OSError, ValueError, IndexError), open("/proc/loadavg", "rb") as file:
        return int(file.read().split()[3].split(b"/")[1])
    return 0


def read_available_memory() -> int:
    """Return the available memory in bytes; 0 if unknown."""
    with suppress(OSError, ValueError), open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def count_user_threads(user: int) -> int:
    """Return the number of a user's threads: the limit on processes counts threads."""
    total = 0
    for pid in list_pids():
        with suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == user:
                total += len(_list_threads(pid))
    return total
