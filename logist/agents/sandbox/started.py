"""What a started program is to those who wait for it, whatever confines it."""

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
"""How long it may take until the program can begin: a mount of a server that is away does not answer."""
_OPEN_FILES = 16_384
_LONGEST = 10.0
_THREADS = 8
"""How many threads a process may have, in the limit that counts threads; the watch counts processes."""


class Started(Protocol):
    """What running needs to know of it."""

    kind: Kind

    def has_ended(self) -> bool:
        """Whether the program itself has ended; what it left may still run."""
        ...

    def list_end_descriptors(self) -> tuple[int, ...]:
        """Descriptors that become readable at its end, those there are so far."""
        ...

    def find_members(self, table: Table) -> set[int]:
        """All processes that belong to the run, the program among them."""
        ...

    def find_group(self) -> int | None:
        """The program's process group, once it is known."""
        ...

    def send_signal(self, number: int) -> None:
        """Sends a signal to the program's group."""
        ...

    def kill(self) -> None:
        """Ends everything that can be ended at once."""
        ...

    def collect_exit_status(self) -> tuple[int | None, int | None]:
        """Exit status, or the signal that ended it; to be called once it has ended, and its strays are counted.

        Both are None if it never started.
        """
        ...

    def get_start_error(self) -> OSError | None:
        """Why the program could not be started, where that is told apart from its own output."""
        ...

    def close(self) -> None:
        """Gives descriptors back; after `finish` there is nothing left to give."""
        ...


def build_limits(confinement: Confinement, threads: int) -> Mapping[str, int]:
    """Resource limits by name; `threads`: those that the user has already, where they count."""
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
            env={MARKER: marker},  # the program's own environment is told in a file that only the child reads
            cwd="/",
            stdin=streams.choose_stdin(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(passed),
            # A session of its own: a Ctrl-C at the terminal reaches Logist only, which then ends the program
            # in order, and signals to the program's group never reach us.
            start_new_session=True,
        )
    finally:
        for number in passed:
            os.close(number)
    streams.attach_pipes(process)
    return process


def abort_setup(process: subprocess.Popen[bytes]) -> NoReturn:
    """Ends what is to become a sandbox, and does not."""
    processes.signal_group(process.pid, signal.SIGKILL)
    reap_process(process)
    raise Refused(
        f"the sandbox can't be set up: it was not ready within {SETUP_SECONDS:g} seconds", fix="logist doctor"
    )


def reap_process(process: subprocess.Popen[bytes]) -> None:
    """Waits for one that was killed; not for ever, as the kernel may hold it."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LONGEST)
