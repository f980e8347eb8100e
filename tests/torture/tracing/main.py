"""The tracing process: an order on stdin, a report on stdout, both JSON."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

from tests.torture.tracing import ptrace, seccomp
from tests.torture.tracing.follow import Follower, Hung

_PARENT_DEATH_SIGNAL, _SUBREAPER = 1, 36


def main() -> None:
    """Traces one program.

    The order: {"argv", "cwd", "env", "stdin", "act", "data", "timeout"}. The report: {"calls", "code",
    "out", "err"} or {"hung": ...} or {"skip": ...}. Bytes are base64.
    """
    order = json.load(sys.stdin.buffer)
    report = _report(order)
    sys.stdout.write(json.dumps(report, default=_encoded))
    sys.stdout.flush()
    os._exit(0)


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _report(order: dict[str, Any]) -> dict[str, Any]:
    if ptrace.MACHINE not in ("x86_64", "aarch64"):
        return {"skip": f"the tracer does not know the system calls of {ptrace.MACHINE}"}
    # If any of these processes dies, the tracer dies, and so does everything that it traces.
    ptrace.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    ptrace.prctl(_SUBREAPER, 1)
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    os.pwrite(files[0], base64.b64decode(order["stdin"]), 0)
    try:
        follower = Follower(_started(order, files), order["act"], order["data"])
    except OSError as error:
        return {"skip": f"this machine lets no program be traced: {error}"}
    try:
        _follow(follower, order["timeout"])
    except Hung:
        follower.kill_all()
        follower.run()
        where = [f"{call['name']} {' '.join(call['paths'])}" for call in follower.calls[-3:]]
        return {"hung": f"{len(follower.calls)} calls, the last: {'; '.join(where)}"}
    if not follower.begun:
        return {"skip": f"this machine lets no program be traced: {_content(files[2]).decode()}"}
    out, err = _content(files[1]), _content(files[2])
    return {"calls": follower.calls, "code": follower.code, "out": out, "err": err}


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _follow(follower: Follower, timeout: float) -> None:
    signal.signal(signal.SIGALRM, _hung)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    follower.run()
    signal.setitimer(signal.ITIMER_REAL, 0)


def _hung(number: int, frame: FrameType | None) -> None:
    raise Hung


def _started(order: dict[str, Any], files: list[int]) -> int:
    """Start the program, traced from its first instruction. Raises OSError if tracing is forbidden."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        _become(order, files, reading)
    try:
        ptrace.request(ptrace.SEIZE, child, ptrace.OPTIONS)
        os.write(writing, b"!")
    finally:
        os.close(writing)
    return child


def _become(order: dict[str, Any], files: list[int], ready: int) -> NoReturn:
    """In the child: execute the program when it is traced."""
    try:
        if os.read(ready, 1) != b"!":
            os._exit(0)
        for descriptor, file in enumerate(files):
            os.dup2(file, descriptor)
        os.chdir(order["cwd"])
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, not by those who start programs
            signal.signal(ignored, signal.SIG_DFL)
        seccomp.install(ptrace.MACHINE)
        os.execvpe(order["argv"][0], order["argv"], order["env"])
    except BaseException as error:  # noqa: BLE001  this process must never return
        os.write(2, repr(error).encode())
    finally:
        os._exit(126)
