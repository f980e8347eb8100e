"""What `logist stats` takes over a large archive: time, CPU and memory of the whole command.

Run: python benchmarks/stats.py [--histories 10000] [--asks 20] [--prompt 8000] [--place DIRECTORY] [--quick]

The histories are some different ones, each linked into many job directories, so that ten thousand need no
gigabytes of disk; every one of them is read, verified and counted.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import LOGIST, clean_environment, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.logs import write_history
from tests.core.builders import Recorder, command

LIMIT = 60.0
DIFFERENT = 40

Json = dict[str, Any]


def recorded(chance: random.Random, asks: int, characters: int) -> Iterator[Json]:
    """A job as the product records it, with prompts of about so many characters."""
    job = Recorder(max_attempts=10**6, max_allowed_iterations=10**6)
    for number in range(asks):
        action = chance.choice(["COMPLETED", "RETRY", "RETRY"])
        job.answer(command(action, summary=f"Attempt {number} of src/app.py. " * 8))
        if job.state.status == "APPROVAL_REQUIRED":
            job.decide("reject", note="Once more.")  # type: ignore[arg-type]
    words = [f"w{number:04}" for number in range(2000)]
    for entry in job.entries:
        value = entry.model_dump(mode="json", exclude_none=True)
        if value["kind"] == "ask":
            prompt = " ".join(chance.choices(words, k=characters // 6))
            metadata = {"role": value["observed"]["role"], "model": chance.choice(["small", "large"])}
            value["request"] = {"prompt": prompt, "files_context": [], "metadata": metadata, "parts": []}
        yield value


def archive(place: Path, histories: int, asks: int, characters: int) -> int:
    """Makes it below `place`; the bytes that are to be read."""
    chance = random.Random(7)
    made = []
    for number in range(min(DIFFERENT, histories)):
        made.append(place / f"history-{number}.json")
        write_history(made[-1], recorded(chance, asks, characters))
    total = 0
    for number in range(histories):
        folder = place / "jobs" / f"job-{number:05}"
        folder.mkdir(parents=True)
        source = made[number % len(made)]
        os.link(source, folder / "jobHistory.json")
        total += source.stat().st_size
    return total


def run(place: Path, *args: str) -> tuple[float, float, float]:
    """Seconds, CPU seconds and megabytes of one `logist stats`."""
    began = time.perf_counter()
    argv = [*LOGIST, "stats", *args]
    process = subprocess.Popen(argv, cwd=place, env=clean_environment(place), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{argv} ended with {process.returncode}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--asks", type=int, default=20, help="of each history")
    parser.add_argument("--prompt", type=int, default=8_000, help="characters of each prompt")
    parser.add_argument("--place", help="where the archive is made for a while")
    parser.add_argument("--quick", action="store_true", help="500 histories")
    options = parser.parse_args()
    count = 500 if options.quick else options.histories
    rows: list[list[object]] = [["stats", "histories", "GB", "s", "CPU s", "MB", f"at most {LIMIT:g} s"]]
    with tempfile.TemporaryDirectory(dir=options.place) as folder:
        place = Path(folder)
        size = archive(place, count, options.asks, options.prompt) / 1e9
        for args in (["--by", "role"], ["--by", "role", "--jobs", "2"], ["--by", "job", "--json"]):
            took, cpu, memory = run(place, "jobs", *args)
            judged = "yes" if took <= LIMIT else "NO"
            rows.append([" ".join(args), str(count), size, took, cpu, memory, judged])
    table(rows)


if __name__ == "__main__":
    main()
