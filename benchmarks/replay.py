"""What a replay costs: CPU time for a thousand interactions, prompts included, and memory for a long history.

Run: python -m benchmarks.replay [--interactions 1000] [--gigabytes 1] [--place DIRECTORY] [--quick]

The history is a recorded job that is run, approved and started over, again and again: its prompts are those
that Logist puts today. What a command costs before it replays anything is measured with a short history.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from measure import LOGIST, clean_environment, table

from logist.core.model import Kind
from logist.jobs.base.stored_records import dump_interaction
from logist.jobs.steward import steward_decisions
from logist.store.entries import CLOSING, format_header, seal_entry
from tests.jobs.bench import Bench, answer, command

SECONDS, MEGABYTES = 1.0, 200
"""How much the two may cost: CPU for a thousand interactions, and memory for any number."""
LONG = 100_000
"""Characters of the task in the long history."""

Json = dict[str, Any]


class Cost(NamedTuple):
    """What a process used."""

    cpu: float
    wall: float
    rss_mb: float


def recorded(place: Path, prompt: str) -> tuple[list[Json], list[Json]]:
    """A job as the product records it: how it begins, and what it does between one start and the next."""
    done = [answer(command("RETRY", summary="Again. " * 10)), answer(files={"a.txt": "a"}), answer()]
    bench = Bench(place, done)
    bench.create(prompt=prompt, acceptance_criteria=["It is there.", "It is right."])
    for _ in done:
        bench.step()
    steward_decisions.record_decision(bench.project, "j", Kind.APPROVE)
    steward_decisions.rerun_job(bench.project, "j")
    entries = [dump_interaction(entry) for entry in bench.history()]
    return entries[:1], entries[1:]


def write(file: Path, begin: list[Json], cycle: list[Json], *, least: int = 0, size: int = 0) -> int:
    """A history of at least so many interactions and bytes; how many there are."""
    previous = None
    with file.open("wb") as out:
        written = out.write(format_header())
        entries: Iterator[Json] = (entry for turn in count() for entry in (cycle if turn else begin))
        for number in count(1):
            if number > least and written >= size:
                break
            sealed, line = seal_entry(next(entries), number, previous)
            previous = sealed["checksum"]
            written += out.write(b"%b%b\n" % (b"," if number > 1 else b"", line))
        out.write(CLOSING)
    return number - 1


def cost(folder: Path, home: Path) -> Cost:
    """One `logist replay` of the history in a directory; it must go the same way."""
    began = time.perf_counter()
    argv = [*LOGIST, "replay", str(folder), "--prompts", "fail"]
    process = subprocess.Popen(argv, cwd=home, env=clean_environment(home), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{argv} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interactions", type=int, default=1000)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--place", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="A twentieth of the long history.")
    options = parser.parse_args()
    size = int(options.gigabytes * 1e9 / (20 if options.quick else 1))
    rows: list[list[object]] = [["history", "interactions", "MB", "CPU s", "seconds", "memory MB", "judged"]]
    with tempfile.TemporaryDirectory(dir=options.place) as name:
        place = Path(name)
        begin, cycle = recorded(place / "short", "Write a.txt, which says a.")
        start = measured(place, "start", write_in(place / "start", begin, cycle, least=2), 1, options.runs)
        rows.append(start.row("start", ""))
        thousand = write_in(place / "thousand", begin, cycle, least=options.interactions)
        found = measured(place, "thousand", thousand, options.interactions, options.runs)
        own = (found.cost.cpu - start.cost.cpu) * 1000 / thousand
        rows.append(found.row("thousand", f"{own:.2f} s for 1,000: {_judged(own <= SECONDS)}"))
        begin, cycle = recorded(place / "long-job", "Say all of it once more. " * (LONG // 25))
        found = measured(place, "long", write_in(place / "long", begin, cycle, size=size), 1, 1)
        rows.append(found.row("long", f"at most {MEGABYTES} MB: {_judged(found.cost.rss_mb <= MEGABYTES)}"))
    table(rows)


class Measured(NamedTuple):
    interactions: int
    megabytes: float
    cost: Cost

    def row(self, name: str, judged: str) -> list[object]:
        return [name, str(self.interactions), self.megabytes, *self.cost, judged]


def write_in(folder: Path, begin: list[Json], cycle: list[Json], **least: int) -> int:
    folder.mkdir()
    return write(folder / "jobHistory.json", begin, cycle, **least)


def measured(place: Path, name: str, interactions: int, least: int, runs: int) -> Measured:
    """The cheapest of some runs."""
    assert interactions >= least
    file = place / name / "jobHistory.json"
    cheapest = min((cost(file.parent, place) for _ in range(runs)), key=lambda one: one.cpu)
    return Measured(interactions, file.stat().st_size / 1e6, cheapest)


def _judged(good: bool) -> str:
    return "yes" if good else "NO"


if __name__ == "__main__":
    main()
