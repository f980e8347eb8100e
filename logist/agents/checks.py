"""Runs one command of a check in the sandbox, in a separate process that ends the command when Logist
no longer waits for it.

`python -m logist.agents.checks`, one line of JSON on stdin: what to run, and how it is confined. It writes
one line of JSON: how the command ended. Each check has its own process because one process may run several jobs
in threads, while `sandbox.run_program` manages all children of its process. Logist keeps stdin open while it waits
for the result.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from logist.agents import sandbox
from logist.agents.own_process import add_package_path, has_ended
from logist.agents.sandbox import MARKER, Confinement, ProgramEnd
from logist.errors import LogistError
from logist.quick_dataclass import dataclass

MODULE = "logist.agents.checks"
STDOUT, STDERR = "stdout", "stderr"
_POLL = 0.05
_LEAVE = 30.0
"""Seconds that the process has to end its command when Logist stops waiting."""
OVERTIME = 120.0
"""Seconds that the process may take in addition to the command's: it sets up the sandbox before and removes it after.
The limit is needed because a program that can send it signals (no sandbox, or an old Landlock) can stop it forever."""


@dataclass(frozen=True)
class CheckRun:
    """How a command ended, or why it was not run."""

    ended: ProgramEnd | None = None
    error: str = ""


def run_check(
    argv: Sequence[str],
    confinement: Confinement,
    scratch: Path,
    *,
    seconds: float,
    marker: str,
    environment: dict[str, str],
    stop: Callable[[], bool],
) -> CheckRun:
    """Run `argv`; afterwards the ends of its two outputs are in `scratch`, as `stdout` and `stderr`.

    When `stop()` returns True, the command and all its processes are ended, and `how` is `stopped`. If Logist is
    killed, the check process ends the command; `sandbox.end_leftover_processes(marker)` does so at once.
    """
    work = {
        "argv": list(argv),
        "confinement": dataclasses.asdict(confinement),
        "scratch": str(scratch),
        "seconds": seconds,
        "marker": marker,
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-X", "utf8", "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={**add_package_path(environment), MARKER: marker},
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it ended at once: its output has the reason
        process.stdin.write(json.dumps(work, default=str).encode() + b"\n")
        process.stdin.flush()
    until = time.monotonic() + seconds + OVERTIME
    while not has_ended(process, _POLL):
        if stop():
            break
        if time.monotonic() > until:
            process.kill()
            break
    return _collect_result(process, marker)


def _collect_result(process: subprocess.Popen[bytes], marker: str) -> CheckRun:
    """Close its stdin and read its result."""
    try:
        output, error_output = process.communicate(timeout=_LEAVE)
    except subprocess.TimeoutExpired:
        process.kill()
        output, error_output = process.communicate()
        sandbox.end_leftover_processes(marker)
    try:
        result = json.loads(output)
    except ValueError:
        sandbox.end_leftover_processes(marker)
        error_lines = error_output.decode("utf-8", "replace").strip().splitlines()
        return CheckRun(
            error=error_lines[-1]
            if error_lines
            else f"the process that ran the command ended: {_describe_exit(process)}"
        )
    return CheckRun(error=result["error"]) if "error" in result else CheckRun(ProgramEnd(**result))


def _describe_exit(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


def main() -> None:
    """Run the command that stdin describes."""
    work = json.loads(sys.stdin.buffer.readline())
    with open(1, "w", encoding="ascii", closefd=False) as answer:
        answer.write(json.dumps(_run_in_sandbox(work)) + "\n")


def _run_in_sandbox(told: dict[str, Any]) -> dict[str, Any]:
    scratch = Path(told["scratch"])
    try:
        ended = sandbox.run_program(
            told["argv"],
            _parse_confinement(told["confinement"]),
            stdin=b"",
            stdout=scratch / STDOUT,
            stderr=scratch / STDERR,
            deadline_seconds=told["seconds"],
            marker=told["marker"],
            stop=_is_abandoned,
        )
    except LogistError as error:
        return {"error": error.message if not error.where else f"{error.where}: {error.message}"}
    except OSError as error:
        return {"error": error.strerror or "could not start"}
    return dataclasses.asdict(ended)


def _parse_confinement(told: dict[str, Any]) -> Confinement:
    paths = {name: Path(told[name]) for name in ("workspace", "home")}
    lists = {name: tuple(map(Path, told[name])) for name in ("readable", "shared")}
    return Confinement(**{**told, **paths, **lists})


def _is_abandoned() -> bool:
    """Whether the other end of stdin is closed; nothing else arrives there."""
    readable, _, _ = select.select([0], [], [], 0)
    return bool(readable) and not os.read(0, 1)


if __name__ == "__main__":
    main()
