"""What booking costs: CPU and fsyncs of a reservation and a settlement, by the age of the ledger, and with many processes.

Run: python benchmarks/ledger.py [--runs 500] [--calls 0 1000 20000] [--processes 1 8 64] [--place DIRECTORY]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from measure import table

from logist.core.money.budgets import Account, BookedCall, Cap, Cost
from logist.store.ledger import Ledger, LedgerEntry

AT = "2026-11-26T10:00:00Z"
CAPS = (
    Cap("all", Account("project"), microcents=10**15),
    Cap("daily", Account("project", "2026-11-26"), microcents=10**15),
)
COST = Cost(7, 10, 1)


class Measured(NamedTuple):
    """What one kind of operation costs."""

    cpu_ms: float
    wall_ms: float
    fsyncs: float


def build_call(number: int) -> BookedCall:
    return BookedCall(
        f"job-{number % 50}/{number}/1", f"job-{number % 50}", "2026-11-26", "p", "p/m", "", ("t",)
    )


@contextmanager
def count_fsyncs() -> Iterator[list[int]]:
    """Count the calls of os.fsync inside the block."""
    counted, real = [0], os.fsync

    def fsync(fd: int) -> None:
        counted[0] += 1
        real(fd)

    os.fsync = fsync
    try:
        yield counted
    finally:
        os.fsync = real


def fill(ledger: Ledger, calls: int) -> None:
    """Book this many calls of earlier days."""
    entries = []
    for number in range(calls):
        call = build_call(-number - 1)._replace(day=f"2026-{1 + number % 9:02}-{1 + number % 28:02}")
        entries.append(LedgerEntry(0, "book", AT, call.id, COST, call))
    ledger.replace(entries)


def measure(ledger: Ledger, runs: int) -> tuple[Measured, Measured]:
    """Return what a reservation and a settlement cost, without other processes."""
    cpu: list[list[float]] = [[], []]
    wall: list[list[float]] = [[], []]
    with count_fsyncs() as counted:
        for number in range(runs):
            call = build_call(number)
            for place, act in enumerate(
                (
                    lambda call=call: ledger.reserve(call, COST, CAPS, AT),
                    lambda call=call: ledger.settle({call.id: COST}, AT),
                )
            ):
                began, began_cpu = time.perf_counter(), time.process_time()
                act()
                cpu[place].append(time.process_time() - began_cpu)
                wall[place].append(time.perf_counter() - began)
    each = counted[0] / runs / 2
    return tuple(  # type: ignore[return-value]
        Measured(statistics.median(cpu[place]) * 1000, statistics.median(wall[place]) * 1000, each)
        for place in range(2)
    )


def crowd(folder: Path, processes: int, runs: int) -> tuple[float, float, float]:
    """Return the seconds, the CPU ms of an operation, and the longest wait for a reservation, with many processes at once."""
    ledger = Ledger(folder)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    reading, writing = os.pipe()
    for number in range(processes):
        if os.fork() == 0:
            longest = 0.0
            for each in range(runs):
                one = time.perf_counter()
                call = build_call(number * runs + each)
                ledger.reserve(call, COST, CAPS, AT)
                longest = max(longest, time.perf_counter() - one)
                ledger.settle({call.id: COST}, AT)
            os.write(writing, f"{longest}\n".encode())
            os._exit(0)
    for _ in range(processes):
        os.wait()
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    os.close(writing)
    with open(reading) as longest_waits:
        longest = max(map(float, longest_waits))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu / processes / runs / 2 * 1000, longest


def main() -> int:
    parser = argparse.ArgumentParser(description="What booking in the ledger costs.")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--calls", type=int, nargs="*", default=[0, 1000, 20_000])
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 8, 64])
    parser.add_argument("--place", type=Path, default=None)
    options = parser.parse_args()
    rows = []
    for calls in options.calls:
        with tempfile.TemporaryDirectory(dir=options.place) as place:
            ledger = Ledger(Path(place) / "ledger")
            fill(ledger, calls)
            ledger.reserve(build_call(10**9), COST, (), AT)
            for name, each in zip(("reserve", "settle"), measure(ledger, options.runs), strict=True):
                rows.append(
                    [f"{calls:,}", name, f"{each.cpu_ms:.2f}", f"{each.wall_ms:.2f}", f"{each.fsyncs:.1f}"]
                )
    table([["calls before", "", "CPU ms", "ms", "fsyncs"], *rows])
    crowds = []
    for processes in options.processes:
        with tempfile.TemporaryDirectory(dir=options.place) as place:
            seconds, cpu, longest = crowd(Path(place) / "ledger", processes, max(1, 640 // processes))
            crowds.append([str(processes), f"{seconds:.2f}", f"{cpu:.2f}", f"{longest * 1000:.0f}"])
    print()
    table([["processes", "s for 640 calls", "CPU ms of each operation", "longest ms"], *crowds])
    return 0


if __name__ == "__main__":
    sys.exit(main())
