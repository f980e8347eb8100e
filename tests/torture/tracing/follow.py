"""Follows a program and all its children, call by call, and acts at the requested call."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress
from typing import Any

from tests.torture.tracing import calls, ptrace, reading

_WALL = 0x40000000


class Hung(Exception):
    """The program did not end in time; it was killed."""


class Follower:
    """One traced tree of processes.

    `act`: {"kind": "none"|"kill"|"fail"|"short", "n", "whom", "errno", "forever", "kept", "then_kill"}.
    """

    def __init__(self, first: int, act: dict[str, Any], with_data: bool) -> None:
        self.first, self.act, self.with_data = first, act, with_data
        self.kinds = calls.numbered(ptrace.MACHINE)
        self.calls: list[dict[str, Any]] = []
        self.processes: dict[int, int] = {}
        """Live processes, and their numbers in order of appearance."""
        self.owners: dict[int, int] = {}
        """Live threads, and the process of each."""
        self.inside: dict[int, int] = {}
        """Threads inside a call that is waited for, and its index."""
        self.appeared = 0
        self.begun = self.doomed = False
        self.code = 0
        self._adopt(first)

    def run(self) -> None:
        """Follow until all its processes have ended."""
        while True:
            try:
                thread, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                return
            if os.WIFSTOPPED(status):
                # A thread that was killed meanwhile can't be read: the event of its death comes next.
                with suppress(ProcessLookupError):
                    self._stopped(thread, os.WSTOPSIG(status), status >> 16)
            else:
                self._ended(thread, status)

    def kill_all(self) -> None:
        """Kill every process, including those that are being created."""
        self.doomed = True
        for process in list(self.processes):
            _kill(process)

    def _adopt(self, thread: int) -> None:
        if thread in self.owners:
            return
        process = reading.process_of(thread)
        self.owners[thread] = process
        if process not in self.processes:
            self.processes[process] = self.appeared
            self.appeared += 1
        if self.doomed:
            _kill(process)

    def _ended(self, thread: int, status: int) -> None:
        if thread == self.first and self.processes.get(thread) == 0:
            self.code = os.waitstatus_to_exitcode(status)
        self.owners.pop(thread, None)
        self.inside.pop(thread, None)
        self.processes.pop(thread, None)

    def _stopped(self, thread: int, sig: int, event: int) -> None:
        self._adopt(thread)
        if event == ptrace.SECCOMP:
            self._before_call(thread)
        elif event in (ptrace.FORKED, ptrace.VFORKED, ptrace.CLONED):
            self._adopt(ptrace.event_message(thread))
        elif event == ptrace.EXECUTED:
            self._executed(thread)
        elif event == ptrace.STOPPED and sig != signal.SIGTRAP:
            ptrace.request(ptrace.LISTEN, thread)  # it stays stopped, as requested
            return
        elif event == 0 and sig == signal.SIGTRAP | 0x80:
            self._after_call(thread)
        delivered = sig if event == 0 and sig & ~0x80 != signal.SIGTRAP else 0
        ptrace.request(ptrace.SYSCALL if thread in self.inside else ptrace.CONT, thread, delivered)

    def _executed(self, thread: int) -> None:
        """A process has executed another program: its other threads have ended, and the calling thread has
        its number.
        """
        former = ptrace.event_message(thread)
        if former != thread:
            self.owners.pop(former, None)
            if former in self.inside:
                self.inside[thread] = self.inside.pop(former)
        self.begun = True

    def _before_call(self, thread: int) -> None:
        if not self.begun:
            return
        number, arguments = ptrace.entered(thread)
        kind = self.kinds[number]
        seen = reading.read(thread, kind, arguments, self.with_data)
        if seen is None:
            return
        index = len(self.calls)
        process = self.owners[thread]
        call = seen._asdict() | {"index": index, "process": self.processes[process], "result": None}
        self.calls.append(call)
        self.inside[thread] = index
        self._strike(thread, kind, call)

    def _strike(self, thread: int, kind: calls.Kind, call: dict[str, Any]) -> None:
        act, n, index = self.act["kind"], self.act["n"], call["index"]
        if act == "kill" and index == n:
            self._kill_from(thread)
        elif act == "short" and index == n and "count" in kind.words:
            ptrace.set_argument(thread, kind.words.index("count"), self.act["kept"])
        elif (act == "fail" and index == n) or (index > n and self._fails_on(kind, call["paths"])):
            ptrace.refuse(thread, self.act["errno"])

    def _fails_on(self, kind: calls.Kind, paths: tuple[str, ...]) -> bool:
        return self.act["forever"] and _can_fail(kind, paths, self.act["errno"])

    def _after_call(self, thread: int) -> None:
        index = self.inside.pop(thread)
        self.calls[index]["result"] = ptrace.returned(thread)
        if self.act["kind"] == "short" and self.act["then_kill"] and index == self.act["n"]:
            self._kill_from(thread)

    def _kill_from(self, thread: int) -> None:
        if self.act["whom"] == "all":
            self.kill_all()
        else:
            _kill(self.owners[thread] if self.act["whom"] == "process" else self.first)


def _can_fail(kind: calls.Kind, paths: tuple[str, ...], error: int) -> bool:
    """Whether a disk that is full, broken or read-only refuses the call."""
    refused = ("space", "disk") if error == errno.EROFS else ("space",)
    return kind.needs in refused and all(path.startswith("/") for path in paths)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
