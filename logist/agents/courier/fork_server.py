"""Forks couriers from a process that has loaded the client once, so that a call doesn't pay for the imports.

`python -m logist.agents.courier --serve SOCKET_FD KIND`. The command sends a job and three descriptors over
the socket: the job's lock, its log, and a pipe. The server forks and answers with the pid of the child, which starts its
own session and reads its environment, key and secrets from the pipe. These never pass through the server, so no other
courier has them in its memory. The command writes them only after the answer: a child whose command knows nothing of it
reads an empty pipe, and ends before anything is sent.

The server has one thread and makes no call: a fork copies only one thread, and a client that has been used has more.
It ends when the command does; its couriers don't.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Literal, NoReturn

from logist.agents.own_process import COURIER, add_package_path
from logist.lazy_modules import load_all

SERVE = "--serve"
Kind = Literal["direct", "litellm"]
ANSWER_SECONDS = 120.0
"""How long the server may take to load litellm and fork; then the courier is started without it."""
_LONGEST = 65_536
"""Bytes of a message."""
_LATE_IMPORTS = (
    "h11",
    "httpcore._sync.http11",
    "httpcore._sync.connection_pool",
    "encodings.idna",
    "netrc",
    "email.utils",
)
"""Modules that the first call of the built-in client would import."""


class ForkServer:
    """The command's end of a fork server; can be used from any thread."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self._process = process
        self._connection = connection
        self._one_at_a_time = threading.Lock()
        self.is_closed = False

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    @classmethod
    def start(cls, kind: Kind, environment: dict[str, str]) -> ForkServer:
        """Start a server; it loads while the caller continues. Raises OSError if it can't be started.

        `environment`: complete; only the path of this package is added.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-X", "utf8", "-m", COURIER, SERVE, str(theirs.fileno()), kind],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=add_package_path(environment),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for the command, which decides about the couriers
            )
        ours.settimeout(ANSWER_SECONDS)
        return cls(process, ours)

    def fork(self, job: Path, descriptors: Sequence[int]) -> int | None:
        """Fork a courier; return its pid. None if there is no courier, and none will begin to work.

        `descriptors`: the lock, the log, and the end of the pipe that the courier reads.
        """
        with self._one_at_a_time, suppress(OSError, ValueError):
            socket.send_fds(self._connection, [json.dumps(str(job)).encode()], list(descriptors))
            answer = self._connection.recv(_LONGEST)
            return int(answer) or None if answer else None
        self.close()  # an answer that came too late must not be taken for the next one
        return None

    def close(self) -> None:
        """End the server; its couriers go on."""
        self.is_closed = True
        self._connection.close()
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def serve(descriptor: int, kind: Kind) -> NoReturn:
    """Fork a courier for each message, until the command closes the socket."""
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes ended couriers
    _load(kind)
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, _LONGEST, 3, socket.MSG_CMSG_CLOEXEC)
        if not message:
            os._exit(0)
        pid = 0
        if len(os.listdir("/proc/self/task")) == 1:
            pid = os.fork()
            if pid == 0:
                _become_courier(connection, json.loads(message), *descriptors)
        connection.send(str(pid).encode())
        for each in descriptors:
            os.close(each)


def _load(kind: Kind) -> None:
    """Import what couriers need, and keep the garbage collector from touching it: that would copy the memory."""
    # httpx without its command line, which imports rich and click: a tenth of the time to load. httpx allows for that.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    from logist.agents.clients import direct, loading
    from logist.agents.courier import exchange, process
    from logist.config.working import SandboxRules, ToolRules
    from logist.core.model import EffectiveSpec, Model, Provider, Reply, Request
    from logist.core.secrets import secrets_table
    from logist.quick_model import build_checks

    assert exchange is not None
    assert process is not None
    secrets_table.compile_patterns()
    build_checks(EffectiveSpec, Model, Provider, Reply, Request, SandboxRules, ToolRules)
    if kind == "litellm":
        with suppress(ImportError):  # the courier reports it
            loading.preload_litellm()
    else:
        for name in _LATE_IMPORTS:
            with suppress(ImportError):
                import_module(name)
        direct.preload()
    load_all()
    gc.collect()
    gc.freeze()


def _become_courier(
    connection: socket.socket, job: str, lock: int, log: int, private: int
) -> NoReturn:  # pragma: no cover - a forked process
    from logist.agents.courier import process

    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, descriptor in enumerate((private, log, log)):
            os.dup2(descriptor, number)
        os.close(private)
        os.close(log)
        connection.close()
        process.run_courier(Path(job), lock)
    except BaseException:  # noqa: BLE001  nothing of the server may run in the child
        with suppress(BaseException):
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        os._exit(status)
