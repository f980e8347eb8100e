"""A Dask scheduler and worker processes on this machine, which end with the process that started them.

They run below one process, which ends when its standard input is closed: so they also end if their starter is killed.
All connections are encrypted with a key that only these processes have. Without it, anybody who can reach the port could run
code as this user: also an agent in a sandbox with network access.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING

import dask.config
import distributed
from distributed.security import Security

from logist.agents.own_process import add_package_path, has_ended
from logist.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST = "127.0.0.1"
CLOSE_SECONDS = 5.0
SETTINGS = {
    # Death of a worker: an error at once. By default, its task would wait for a worker with the same address.
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.comm.require-encryption": True,
    # Its web pages have no password: nothing is served at their ports.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # Agents work in other processes, which Dask can't measure; a pause would only stop their results.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


class LocalCluster:
    """The process that has the scheduler and the workers below it."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, certificate: str, key: str) -> None:
        self.address, self.pid = address, process.pid
        self._process, self._certificate, self._key = process, certificate, key

    def build_security(self) -> Security:
        """Return what a client needs to connect."""
        return _build_security(self._certificate, self._key)

    def close(self) -> None:
        """End all processes."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        if not has_ended(self._process, CLOSE_SECONDS):
            self._process.kill()  # the workers end with it
            self._process.wait()


def start_local_cluster(count: int, threads: int, environment: Mapping[str, str]) -> LocalCluster:
    """Start a cluster of worker processes with these threads and environment. Raises ProviderError."""
    command = [sys.executable, "-P", "-m", __name__, str(count), str(threads)]
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=add_package_path(dict(environment)),
            start_new_session=True,  # Ctrl-C is for the run, which ends its tasks first
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        if line:
            made = json.loads(line)
            return LocalCluster(process, made["address"], made["certificate"], made["key"])
        process.wait()
        raise ProviderError(f"can't start a local Dask cluster: {_read_last_line(complaints)}", where="--on")


def _read_last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it ended at once")


def _build_security(certificate: str, key: str) -> Security:
    names = {
        f"tls_{part}_{what}": each
        for part in ("client", "scheduler", "worker")
        for what, each in (("cert", certificate), ("key", key))
    }
    return Security(require_encryption=True, tls_ca_file=certificate, **names)


def main(arguments: Sequence[str]) -> None:
    """Run the cluster until standard input ends."""
    count, threads = map(int, arguments)
    dask.config.set(SETTINGS)
    security = Security.temporary()
    cluster = distributed.LocalCluster(
        n_workers=count,
        threads_per_worker=threads,
        processes=True,
        host=HOST,
        protocol="tls",
        security=security,
        dashboard_address=f"{HOST}:0",
        memory_limit=0,
        silence_logs=logging.CRITICAL,
    )
    made = {
        "address": cluster.scheduler_address,
        "certificate": security.tls_client_cert,
        "key": security.tls_client_key,
    }
    os.write(1, json.dumps(made).encode() + b"\n")
    while os.read(0, 1024):
        pass
    os._exit(0)  # the workers end when they notice it; closing them one by one would wait for their tasks


if __name__ == "__main__":
    main(sys.argv[1:])
