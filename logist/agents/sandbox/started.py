"""The interface of a started program, whichever sandbox confines it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, Protocol

from logist.agents.sandbox import processes
from logist.agents.sandbox.confinement import MARKER, Confinement, Kind
from logist.agents.sandbox.processes import Table
from logist.agents.sandbox.streams import Streams
from logist.errors import Refused

SETUP_SECONDS = 30.0
"""Seconds until the program must have started: a mount of an unreachable server can block."""
_OPEN_FILES = 16_384
_LONGEST = 10.0
_THREADS = 8
"""Threads per process that the kernel limit allows, which counts threads; the watch counts processes."""


class Started(Protocol):
    """A started program, as `running` uses it."""

    kind: Kind

    def has_ended(self) -> bool:
        """Whether the program itself has ended; leftover processes may still run."""
        ...

    def list_end_descriptors(self) -> tuple[int, ...]:
        """Return the descriptors that become readable when it ends, if they exist already."""
        ...

    def find_members(self, table: Table) -> set[int]:
        """Return all processes that belong to the run, including the program."""
        ...

    def find_group(self) -> int | None:
        """Return the program's process group; None if it is not known yet."""
        ...

    def send_signal(self, number: int) -> None:
        """Send a signal to the program's group."""
        ...

    def kill(self) -> None:
        """Kill everything that can be killed at once."""
        ...

    def collect_exit_status(self) -> tuple[int | None, int | None]:
        """Return the exit status, or the signal that ended it; both None if it never started.

        Call this when the program has ended and its leftover processes are counted.
        """
        ...

    def get_start_error(self) -> OSError | None:
        """Return why the program could not start, if this is known from more than its output."""
        ...

    def close(self) -> None:
        """Close its descriptors; nothing is left to close after `collect_exit_status`."""
        ...


def build_limits(confinement: Confinement, threads: int) -> Mapping[str, int]:
    """Return the resource limits by name. `threads`: the user's current threads, if the limit counts them."""
    return {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": confinement.file_bytes,
        "RLIMIT_NOFILE": _OPEN_FILES,
        "RLIMIT_NPROC": threads + confinement.processes * _THREADS,
    }


def start_process(
    argv: Sequence[str], marker: str, passed: Sequence[int], streams: Streams
) -> subprocess.Popen[bytes]:
    try:
        process = subprocess.Popen(
            argv,
            bufsize=0,
            env={MARKER: marker},  # the child reads the program's own environment from a file
            cwd="/",
            stdin=streams.choose_stdin(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(passed),
            # In its own session, so that Ctrl-C in the terminal goes only to Logist, which then ends the program,
            # and signals to the program's group don't go to Logist.
            start_new_session=True,
        )
    finally:
        for number in passed:
            os.close(number)
    streams.attach_pipes(process)
    return process


def abort_setup(process: subprocess.Popen[bytes]) -> NoReturn:
    """Kill a process that did not become a sandbox in time. Raises Refused."""
    processes.signal_group(process.pid, signal.SIGKILL)
    reap_process(process)
    raise Refused(
        f"can't set up the sandbox: not ready within {SETUP_SECONDS:g} seconds", fix="logist doctor"
    )


def reap_process(process: subprocess.Popen[bytes]) -> None:
    """Wait for a killed process, but not forever: the kernel may block it."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LONGEST)
