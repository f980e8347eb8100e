"""What the benchmarks share: CPU time of child processes, and a table."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

LOGIST = [sys.executable, "-m", "logist"]


def clean_environment(home: Path) -> dict[str, str]:
    """What a child gets: a path, and a home of its own."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8"}


def cpu_ms(argv: Sequence[str], cwd: Path, runs: int) -> float:
    """User plus system milliseconds of a command, the least of `runs`."""
    return measure_child(argv, cwd, runs)[0]


def measure_child(argv: Sequence[str], cwd: Path, runs: int) -> tuple[float, float]:
    """User plus system milliseconds of a command, and its peak memory in MB; the least of `runs`."""
    measured = [_once(argv, cwd) for _ in range(runs)]
    return min(cpu for cpu, _ in measured), min(megabytes for _, megabytes in measured)


def _once(argv: Sequence[str], cwd: Path) -> tuple[float, float]:
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=clean_environment(cwd),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 5, 11):  # 5: no API key here; 11: a job waits for approval
        raise SystemExit(f"{argv} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000, usage.ru_maxrss / 1024


def table(rows: Sequence[Sequence[object]]) -> None:
    """Prints rows in columns; the first row is the head."""
    texts = [[cell if isinstance(cell, str) else f"{cell:.2f}" for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    for row in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def cpu() -> float:
    """Seconds of this process and its ended children, user and system; `os.times` counts only in steps of 10 ms."""
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def took(runs: int, work: Callable[[], object]) -> float:
    """The CPU seconds of the cheapest of some runs."""
    spent = []
    for _ in range(runs):
        began = cpu()
        work()
        spent.append(cpu() - began)
    return min(spent)
