"""The courier: a separate process that makes paid calls and writes each answer to disk itself.

`python -m logist.agents.courier JOBDIR LOCK_FD`, with private values as one JSON object on stdin. It holds
the job's lock through the inherited descriptor, so the process that started it may end.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, Protocol, TextIO

from logist import systems
from logist.agents.courier import booking, fork_server
from logist.agents.courier.ask_files import RecordedAsk
from logist.agents.courier.fork_server import ForkServer
from logist.agents.own_process import COURIER, add_package_path
from logist.agents.own_process import has_ended as has_child_ended
from logist.agents.protocol import MODEL_AGENTS, Ask
from logist.config.environment import Environment, replace_process_environment
from logist.core.model import JsonObject
from logist.core.secrets.redact import redact
from logist.errors import StorageError
from logist.store import JobDir, Lock, files
from logist.store.call_rates import CallRates

LOG = "courier.log"


class CourierProcess:
    """A running courier, of this process or of a fork server.

    A system without pidfds has no fork servers. Then each courier is a child of this process, so its pid belongs to it until this
    process has waited for it, and no signal can reach another process.
    """

    def __init__(self, pid: int, started: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self._started = started  # kept, because Python warns when a Popen with a running child is deleted
        self._handle: int | None = None
        if systems.HAS_PIDFD:
            with suppress(ProcessLookupError):  # it has ended already
                self._handle = os.pidfd_open(pid)

    def has_ended(self, seconds: float) -> bool:
        """Whether the courier ends within this number of seconds."""
        if self._handle is not None:
            waiting = select.poll()
            waiting.register(self._handle, select.POLLIN)
            if not waiting.poll(seconds * 1000):
                return False
            os.close(self._handle)
            self._handle = None
        if self._started is not None:
            if not systems.HAS_PIDFD:
                return has_child_ended(self._started, seconds)
            self._started.wait()
        return True

    @property
    def exit_status(self) -> int | None:
        """The exit status of a courier that has ended; None for one of a fork server."""
        return self._started.returncode if self._started is not None else None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the courier has ended."""
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)
        elif self._started is not None and not systems.HAS_PIDFD:
            self._started.send_signal(number)


def launch_courier(
    job: JobDir,
    lock: Lock,
    private: JsonObject,
    environment: dict[str, str],
    server: ForkServer | None = None,
) -> CourierProcess:
    """Start the courier for the envelope that `begin_exchange(1, ...)` made durable, and note its pid.

    `private`: {"api_key": str|null, "secrets": [str], "ledger": what `ExchangeLedger` writes,
    "rates": what `CallRates` writes}; passed through a pipe, so it is never in an argv,
    environment or file. `environment` is complete: only the path of this package is added. `server`: forks the
    courier, if it can; otherwise it is a new process of Python.
    """
    log = _open_log(job)
    # Secrets are sent through a pipe after the start: other users can read command lines and environments in
    # /proc, and a file would have to be removed again.
    reading, writing = os.pipe()
    try:
        environment = add_package_path(environment)
        pid = server.fork(job.path.absolute(), (lock.fd, log, reading)) if server is not None else None
        if pid is not None:
            courier = CourierProcess(pid)
        else:
            started = _start_process(job, lock, environment, reading, log)
            courier = CourierProcess(started.pid, started)
    except OSError:
        os.close(writing)
        raise
    finally:
        os.close(log)
        os.close(reading)
    _hand_over(writing, {**private, "environment": environment})
    with suppress(
        StorageError
    ):  # it has started, and signs too: a failure here must not look as if nothing was sent
        lock.sign_for_courier(courier.pid)
    return courier


def _start_process(
    job: JobDir, lock: Lock, environment: dict[str, str], reading: int, log: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-X", "utf8", "-m", COURIER, str(job.path.absolute()), str(lock.fd)],
        stdin=reading,
        stdout=log,
        stderr=log,
        # The courier may outlive the directory in which the command was started.
        cwd="/",
        env=environment,
        pass_fds=(lock.fd,),
        # The signals of the terminal don't reach it: a closed terminal must not end the paid call, and after
        # Ctrl-C the command that waits for it asks it to end and to write its results first.
        start_new_session=True,
    )


def _open_log(job: JobDir) -> int:
    # O_NONBLOCK: opening a pipe in its place would block forever.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with files.convert_os_errors(job.logs / LOG):
        job.logs.mkdir(mode=0o700, exist_ok=True)
        return os.open(job.logs / LOG, flags, 0o600)


def _hand_over(pipe: int, private: JsonObject) -> None:
    try:
        with open(pipe, "wb") as writing:
            writing.write(json.dumps(private).encode())
    except BrokenPipeError:
        return  # it ended at once: the files on disk have the reason


def main(arguments: list[str]) -> NoReturn:
    """Run the courier of a job, or a fork server."""
    if arguments[0] == fork_server.SERVE:
        fork_server.serve(int(arguments[1]), "litellm" if arguments[2] == "litellm" else "direct")
    run_courier(Path(arguments[0]), int(arguments[1]))


def run_courier(directory: Path, descriptor: int) -> NoReturn:
    """Run the courier of a job; end the process without waiting for the threads of clients."""
    # Before anything that may fail: from here on the lock is held for as long as this process lives.
    Lock.from_inherited_fd(descriptor)
    handed_over = sys.stdin.buffer.read()
    if not handed_over:  # the command ended, or has started another courier
        os._exit(0)
    private = json.loads(handed_over)
    replace_process_environment(private["environment"])
    log = _silence_output()
    status = _run_errand(_open_job(directory, descriptor), private, log)
    log.flush()
    # Release the lock first: while the threads of a client end, the process looks dead but still has its descriptors.
    os.close(descriptor)
    os._exit(status)


def _open_job(directory: Path, descriptor: int) -> JobDir:
    """Open the job by its open directory, which stays valid if the job is moved while the agent works."""
    held = Path(f"/proc/self/fd/{descriptor}")
    if not held.is_dir():  # another system, or /proc is not there; the current directory stays valid too
        os.fchdir(descriptor)
        held = Path()
    return JobDir(held, directory.name)


class Errands(Protocol):
    """The courier's work: it asks a model, or runs a program."""

    def run(self) -> None:
        """Run until the outcome is on disk, or until `stop`."""
        ...

    def stop(self, *_: object) -> None:
        """End it; safe in a signal handler."""
        ...

    def record_failure(self, error: Exception) -> None:
        """Record that the courier itself failed, unless the call is in doubt."""
        ...


def _create_errand(job: JobDir, ask: Ask, private: JsonObject) -> Errands:
    from logist.agents.courier.reservations import ExchangeLedger
    from logist.agents.workplace import (
        Workplace,  # imported here because it is slow, and the process that starts the courier doesn't need it
    )

    runs_programs = bool(ask.work.tools) or ask.agent not in MODEL_AGENTS
    environment = Environment.from_process().build_child_environment()
    place = Workplace.for_job(job, environment, is_private=runs_programs)
    known = private.get("ledger")
    ledger = None if known is None else ExchangeLedger.from_json(known)
    limits = private.get("rates")
    rates = None if limits is None else CallRates.from_json(limits)
    arguments = (job, ask, private["api_key"], private["secrets"], place, ledger, rates)
    if ask.agent in MODEL_AGENTS:
        from logist.agents.courier.exchange import Errand

        return Errand(*arguments)
    from logist.agents.courier.errand import ProgramErrand

    return ProgramErrand(*arguments)


def _run_errand(job: JobDir, private: JsonObject, log: TextIO) -> int:
    errand: Errands | None = None
    try:
        ask = RecordedAsk.read(job.read_exchanges()[0].request or {})
        errand = _create_errand(job, ask, private)
        signal.signal(signal.SIGTERM, errand.stop)
        errand.run()
    except Exception as error:  # noqa: BLE001  no other process can report it, and money may have been spent
        secrets = [secret for secret in (*private["secrets"], private["api_key"]) if secret]
        log.write(redact(booking.repair_surrogates(traceback.format_exc()), secrets)[0])
        log.flush()
        if errand is not None and not isinstance(
            error, StorageError
        ):  # after a failed fsync, writing again is useless
            errand.record_failure(error)
        return 1
    return 0


def _silence_output() -> TextIO:
    """Redirect stdin, stdout and stderr to nowhere, and return the log: what libraries print may hold prompts
    and keys.
    """
    log = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    return log
