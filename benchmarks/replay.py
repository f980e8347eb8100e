"""What replay and export cost for each interaction, and the memory of commands that read a long history.

Run: python benchmarks/replay.py [--interactions 2000] [--gigabytes 1] [--place DIRECTORY] [--quick]

The history is a recorded job that is run, approved and started over, again and again: its prompts are those
that Logist puts today. What a command costs before it reads anything is measured with a short history, and subtracted.
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

ROOT = Path(__file__).resolve().parent.parent
MEGABYTES = 200
"""The most memory for any number of interactions."""
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
    """A history of at least so many interactions and bytes, and of complete cycles; how many there are."""
    previous = None
    with file.open("wb") as out:
        written = out.write(format_header())
        entries: Iterator[Json] = (entry for turn in count() for entry in (cycle if turn else begin))
        for number in count(1):
            is_complete = (number - 1 - len(begin)) % len(cycle) == 0
            if number > least and written >= size and is_complete:
                break
            sealed, line = seal_entry(next(entries), number, previous)
            previous = sealed["checksum"]
            written += out.write(b"%b%b\n" % (b"," if number > 1 else b"", line))
        out.write(CLOSING)
    return number - 1


def make_history(project: Path, interactions: int, size: int = 0, prompt: str = "Write a.txt.") -> int:
    """A project with the job `j`, whose history has at least so many interactions and bytes.

    They are as Logist records them, and the job can go on. Returns how many there are.
    """
    begin, cycle = recorded(project, prompt)
    job = project / ".logist" / "jobs" / "j"
    count = write(job / "jobHistory.json", begin, cycle, least=interactions, size=size)
    (job / "state.json").unlink()
    cost([*LOGIST, "inbox", "note", "j", "The state is written again."], project)
    return count


def cost(argv: list[str], project: Path) -> Cost:
    """One command; it must end well."""
    began = time.perf_counter()
    process = subprocess.Popen(
        argv,
        cwd=project,
        env=clean_environment(project),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{argv} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024)


REPLAY = ["job", "replay", "j", "--prompts", "fail"]
HISTORY = ["job", "history", "j", "--json"]
COMMANDS: dict[str, tuple[list[str], float]] = {
    "replay": (REPLAY, 0.3),
    "replay without prompts": (["job", "replay", "j", "--prompts", "accept"], 0.3),
    "export": (["job", "export", "j", "--fixture", "{out}"], 1.5),
    "export --redact": (["job", "export", "j", "--redact", "--fixture", "{out}"], 1.5),
    "history --json": (HISTORY, 0.3),
}
"""Commands, and the most milliseconds of CPU for each interaction."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interactions", type=int, default=2000)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--place", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="A twentieth of the long history.")
    options = parser.parse_args()
    size = int(options.gigabytes * 1e9 / (20 if options.quick else 1))
    with tempfile.TemporaryDirectory(dir=options.place) as name:
        place = Path(name)
        short, many, long = (place / project for project in ("short", "many", "long"))
        added = make_history(many, options.interactions) - make_history(short, 5)
        rows: list[list[object]] = [["command", "ms for each interaction", "judged"]]
        for command, (words, limit) in COMMANDS.items():
            # One after the other, so that both have the same neighbours on the machine.
            pairs = [(run(words, short, place), run(words, many, place)) for _ in range(options.runs)]
            own = min(big.cpu for _, big in pairs) - min(small.cpu for small, _ in pairs)
            each = own / added * 1000
            rows.append([command, each, f"at most {limit:g} ms: {_judged(each <= limit)}"])
        table(rows)
        count = make_history(long, 5, size, "Say all of it once more. " * (LONG // 25))
        print(f"\n{count:,} interactions, {size / 1e6:,.0f} MB:\n")
        rows = [["command", "CPU s", "seconds", "memory MB", "judged"]]
        for command, words in (("replay", REPLAY), ("history --json", HISTORY)):
            used = run(words, long, place)
            rows.append([command, *used, f"at most {MEGABYTES} MB: {_judged(used.rss_mb <= MEGABYTES)}"])
        table(rows)


_names = count()


def run(words: list[str], project: Path, place: Path) -> Cost:
    """One command in a project; `{out}` is a name that no other run has."""
    out = str(place / f"exported-{next(_names)}")
    return cost([*LOGIST, *(word.replace("{out}", out) for word in words)], project)


def _judged(good: bool) -> str:
    return "yes" if good else "NO"


if __name__ == "__main__":
    main()
