"""Runs a program and traces each system call that changes something, in all its threads and children.

The calls are numbered in the order in which they happen. Before any of them the caller or the whole
tree can be killed, and any of them can be made to fail or to write less than it should. Everything
else runs at full speed. Needs no privilege and no compiler. Raises Skip if ptrace is forbidden.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.support import ROOT
from tests.torture.suite import Skip

Whom = Literal["process", "first", "all"]
"""The process that makes the call, the one that was started, or every process of the tree."""

_STARTUP = "import sys; sys.path.insert(0, sys.argv[1]); from tests.torture.tracing.main import main; main()"
_GRACE = 30
"""Seconds that the tracer has in addition to the program's time limit."""


@dataclass(frozen=True)
class Call:
    """One system call that changes something, seen before it happens."""

    index: int
    """From 0, over all threads and processes, in order."""
    process: int
    """0 for the program itself; 1, 2, ... for its children, in order of appearance."""
    name: str
    paths: tuple[str, ...]
    """Absolute; for a descriptor, what it refers to: a path, "pipe:[..]", "socket:[..]", "memfd:stdout"."""
    detail: dict[str, int]
    """Its numeric arguments by name, if it has them: flags, mode, offset, size, count, operation, signal."""
    data: bytes | None
    """What it writes, if requested; for a new symbolic link always its target."""
    result: int | None
    """Its result, an error as a negative number; None if it never returned."""

    def __str__(self) -> str:
        return f"call {self.index}: {self.name} {' '.join(self.paths)} of process {self.process}"


class Trace(NamedTuple):
    """The result of a program after it and all its children have ended."""

    calls: list[Call]
    code: int
    """Exit code of the program itself; a signal as a negative number."""
    out: bytes
    err: bytes


@dataclass(frozen=True)
class Action:
    """The action at call `n`; at most one in a trace. The functions below create it."""

    kind: Literal["none", "kill", "fail", "short"] = "none"
    n: int = -1
    whom: Whom = "process"
    errno: int = 0
    forever: bool = False
    kept: int = 0
    then_kill: bool = False


def kill_before(n: int, whom: Whom = "process") -> Action:
    """SIGKILL instead of call `n`."""
    return Action("kill", n, whom)


def fail(n: int, errno: int, forever: bool = False) -> Action:
    """Call `n` does nothing and returns the error; `forever`: so do all later calls that a disk can refuse."""
    return Action("fail", n, errno=errno, forever=forever)


def short(n: int, bytes_kept: int, then_kill: bool = False, then_errno: int = 0) -> Action:
    """Call `n`, which has a byte count, writes at most this many bytes.

    `then_kill`: after it, its process dies; `then_errno`: later calls fail as with `fail` and `forever`.
    """
    return Action("short", n, errno=then_errno, forever=then_errno != 0, kept=bytes_kept, then_kill=then_kill)


def trace(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    act: Action | None = None,
    data: bool = False,
    stdin: bytes = b"",
    timeout: float = 120,
) -> Trace:
    """Run `argv` with this environment until it and all its children have ended.

    `data`: include what each call writes. Raises Skip if tracing is impossible, AssertionError if the program hangs.
    """
    order = {
        "argv": list(argv),
        "cwd": str(cwd),
        "env": dict(env),
        "act": asdict(act or Action()),
        "data": data,
        "stdin": base64.b64encode(stdin).decode(),
        "timeout": timeout,
    }
    report = _report(order)
    if "skip" in report:
        raise Skip(report["skip"])
    assert "hung" not in report, f"{' '.join(argv)} did not end in {timeout} s: {report['hung']}"
    calls = [_call(each) for each in report["calls"]]
    return Trace(calls, report["code"], base64.b64decode(report["out"]), base64.b64decode(report["err"]))


def _report(order: dict[str, Any]) -> dict[str, Any]:
    # A separate process: its wait for every child must not reap the children of the tests.
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", _STARTUP, str(ROOT)],
        input=json.dumps(order).encode(),
        stdout=subprocess.PIPE,
        timeout=order["timeout"] + _GRACE,
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _call(fields: dict[str, Any]) -> Call:
    data = fields["data"]
    decoded = None if data is None else base64.b64decode(data)
    return Call(**fields | {"paths": tuple(fields["paths"]), "data": decoded})
