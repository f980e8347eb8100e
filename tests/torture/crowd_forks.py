"""Processes forked from a prepared one: each command has a separate process, without half a second of imports.

`Forks` is the side of the suite. The prepared process reads one request as a line of JSON, runs it, and replies with
one line. Only this process kills and reaps its children, so a pid is never reused for another process.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import support
from tests.torture.lab import World

Json = dict[str, Any]


class Forks:
    """A prepared process, as a context manager, for one thread. `python`: its interpreter, and that of its
    couriers.
    """

    def __init__(self, log: Path, python: str = sys.executable) -> None:
        self.log = log
        """The standard error of the children."""
        self.python = python

    def __enter__(self) -> Forks:
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.python, "-m", "tests.torture.crowd_forks"],
                cwd=support.ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # at the end of its input, it kills all its remaining children

    def call(self, function: str, *args: Any) -> int:
        """Run `module:function` of this package in a child; return its pid. The function returns the exit
        code.
        """
        return int(self._ask({"do": "fork", "function": function, "args": args}))

    def logist(self, world: World, *args: str) -> int:
        """Run `logist ARGS` in a child; return its pid."""
        return self.call("crowd_forks:command", str(world.place), world.env, args)

    def wait(self, pid: int, seconds: float | None = None) -> int | None:
        """Return the exit code, or the signal as a negative number; None if the child still runs after
        `seconds`.
        """
        code = self._ask({"do": "wait", "pid": pid, "seconds": seconds})
        return None if code is None else int(code)

    def kill(self, pid: int) -> int:
        """Send SIGKILL; return the exit code, or the signal as a negative number. If the child had ended
        before: its result.
        """
        return int(self._ask({"do": "kill", "pid": pid}))

    def _ask(self, request: Json) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        assert reply, f"the prepared process ended: {self.log.read_text('utf-8')[-2000:]}"
        return json.loads(reply)


def command(place: str, environment: dict[str, str], args: list[str]) -> int:
    """Run `logist ARGS` in a directory, in this process."""
    from logist.cli import main

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(place)
    try:
        main(args)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)


def main() -> None:
    """Run the prepared process until its input ends."""
    _import_everything()
    codes: dict[int, int | None] = {}
    for line in sys.stdin:
        request = json.loads(line)
        reply: int | None
        if request["do"] == "fork":
            reply = pid = _forked(request)
            codes[pid] = None
        else:
            pid = request["pid"]
            reply = codes[pid] = _ended(request) if codes[pid] is None else codes[pid]
        print(json.dumps(reply), flush=True)  # noqa: T201  this is how it replies
    for pid in (pid for pid, code in codes.items() if code is None):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _import_everything() -> None:
    import logist

    for module in pkgutil.walk_packages(logist.__path__, "logist."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.freeze()


def _forked(request: Json) -> int:
    module, _, name = request["function"].partition(":")
    function = getattr(importlib.import_module(f"tests.torture.{module}"), name)
    pid = os.fork()
    if pid == 0:
        _be_child(function, request["args"])
    return pid


def _be_child(function: Callable[..., int], args: list[Any]) -> None:
    code = 120  # an exit code that no command uses
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        code = function(*args)
    except BaseException:  # noqa: BLE001  a child must not become a second prepared process
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _ended(request: Json) -> int | None:
    pid = request["pid"]
    if request["do"] == "kill":
        os.kill(pid, signal.SIGKILL)  # not reaped yet, so it is still ours
    elif request["seconds"] is not None and not _over(pid, request["seconds"]):
        return None
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _over(pid: int, seconds: float) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main()
