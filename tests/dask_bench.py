"""Real Dask processes on 127.0.0.1: a scheduler, and workers that are machines of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
CRASHED = 120.0
RESULT = TypeVar("RESULT")
TTL = 3
"""Seconds after which the scheduler takes a silent worker for lost."""


class DaskProcesses:
    """A scheduler and its workers, each a process that ends with the block."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.without_logist = folder / "without-logist"
        """For the PYTHONPATH of a process that is to have no Logist, such as the scheduler."""
        self.without_logist.mkdir()
        source = "raise ModuleNotFoundError(\"No module named 'logist'\", name='logist')"
        (self.without_logist / "logist.py").write_text(source, "utf-8")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "PYTHONPATH": str(ROOT),
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{TTL}s",
            **environment,
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.start_scheduler()

    def __enter__(self) -> DaskProcesses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.kill()  # the worker of a nanny ends with it
            process.wait()

    def start_scheduler(self) -> None:
        """Start a scheduler, at a new address."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.scheduler = self._start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--no-show",
            PYTHONPATH=str(self.without_logist),
        )

    def start_worker(
        self, name: str, *, threads: int = 1, nanny: bool = False, **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a worker, or with `nanny` one that is started again when it dies; `name` is also its machine."""
        machine = {"LOGIST_WORKER_DIR": str(self.folder / name), **environment}
        options = ["--host", "127.0.0.1", "--nthreads", str(threads), "--name", name]
        options.append("--nanny" if nanny else "--no-nanny")
        return self._start("worker", self.address, *options, "--no-dashboard", **machine)

    def read_log(self, part: str) -> str:
        """Return what the scheduler or the workers have written."""
        return (self.folder / f"{part}.log").read_text("utf-8", "replace")

    def _start(self, part: str, *options: str, **more: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{part}.log").open("ab") as log:
            command = [sys.executable, "-m", f"distributed.cli.dask_{part}", *options]
            process = subprocess.Popen(command, env=self.environment | more, stdout=log, stderr=log)
        self.processes.append(process)
        return process


def wait_until(find: Callable[[], RESULT | None]) -> RESULT:
    """Wait for a true value, and return it."""
    until = time.monotonic() + CRASHED
    while not (value := find()):
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.05)
    return value


def is_running(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def list_below(pid: int) -> list[int]:
    """Return the ids of a process and of all below it."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def list_listening(pids: list[int]) -> list[str]:
    """Return the addresses at which processes listen, as in /proc/net/tcp: host bytes reversed, port."""
    sockets = {
        os.readlink(link)
        for pid in pids
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.is_symlink() and os.path.lexists(link)
    }
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path("/proc/net", name).read_text().splitlines()[1:]
    ]
    return [words[1] for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in sockets]


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process, as a machine that hangs."""
    process.send_signal(signal.SIGSTOP)
