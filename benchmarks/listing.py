"""What very many jobs cost: listing them, finding some of them, choosing the next one to run, also of jobs that wait for
others, and creating them at once.

Run: python benchmarks/listing.py [--jobs 100000] [--ended 0 1000 10000 100000] [--batches 100 1000 10000] [--runs 3]

A project's jobs are copies of one state and history. `first list` makes the index.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from measure import LOGIST, clean_environment, measure_child, table

READ = """
import json, os, sys
for name in os.listdir(sys.argv[1]):
    if name.startswith("job-"):
        with open(os.path.join(sys.argv[1], name, "state.json"), "rb") as file:
            json.loads(file.read())
"""
CHOOSE = """
import sys, time
from logist import Project
from logist.jobs.job_queue import ReadyJobs
project = Project.open()._context
ready, begun = ReadyJobs(project, (), lambda job_id: True), set()
begun.add(ready.take(begun, is_idle=False))  # compares all jobs with their files, once in a run
began = time.process_time()
while len(begun) < 1000:
    begun.add(ready.take(begun, is_idle=False))
print((time.process_time() - began) / 999 * 1000)
"""
"""Chooses a thousand jobs as a run does, without running them."""
CHOOSE_SELECTED = """
import sys, time
from logist import Project
from logist.jobs.job_queue import ReadyJobs
from logist.jobs.run_selection import RunSelection
project = Project.open()._context
results = []
for tag, statuses in ((None, ["REVIEW_REQUIRED"]), ("none", []), ("none", ["PENDING"]), ("all", ["REVIEW_REQUIRED"])):
    selection = RunSelection(tag=tag, statuses=frozenset(statuses))
    ready = ReadyJobs(project, (), lambda job_id: True, selection=selection)
    assert ready.take(set(), is_idle=False) is None
    began = time.process_time()
    for _ in range(20):
        ready._valid_until = 0.0
        ready.take(set(), is_idle=False)
    results.append((time.process_time() - began) / 20 * 1000)
print(*results)
"""
"""Looks for a ready job of a selection that has none, while all others are ready or wait for others."""
SELECTIONS = ("--status", "--tag", "--tag --status", "--tag of all --status")
CHOOSE_NEXT = """
import sys, time
from logist import Project
from logist.jobs.job_queue import ReadyJobs
from logist.store import job_index
project = Project.open()._context
ready, begun, choosing, ending = ReadyJobs(project, (), lambda job_id: True), set(), [], []
jobs = str(project.jobs_dir)
while len(choosing) < 100:
    began = time.process_time()
    job_id = ready.take(begun, is_idle=False)
    choosing.append(time.process_time() - began)
    if job_id is None:
        break
    begun.add(job_id)
    state = project.jobs_dir / job_id / "state.json"
    began = time.process_time()
    job_index.mark_change(jobs, job_id)
    state.write_text(state.read_text().replace('"PENDING"', '"SUCCESS"'))
    job_index.record_change(jobs, job_id)
    ending.append(time.process_time() - began)
    ready._release(job_id)
    ready._listed.clear()
choosing = choosing[1:]  # the first one compares all jobs with their files, once in a run
print(sum(choosing) / len(choosing) * 1000, max(ending) * 1000)
"""
"""Chooses a hundred jobs, each of which succeeds before the next one is chosen, so that all are looked up again."""
COMMANDS = {
    "first list": (["job", "list"], None),
    "job list": (["job", "list"], 1_500),
    "job list --json": (["job", "list", "--json"], 1_500),
    "job list --stuck": (["job", "list", "--stuck"], 100),
    "job list --tag rare": (["job", "list", "--tag", "rare"], 100),
    "job list --since 1h (none)": (["job", "list", "--since", "9999-01-01"], 100),
    "job list --grep (none)": (["job", "list", "--grep", "no such text"], 100),
    "job list --grep --tag rare": (["job", "list", "--grep", "task", "--tag", "rare"], 100),
    "job list --sort -updated --limit 20": (["job", "list", "--sort", "-updated", "--limit", "20"], 100),
    "job list --sort -cost --limit 20": (["job", "list", "--sort", "-cost", "--limit", "20"], 100),
    "job list --limit 20": (["job", "list", "--limit", "20"], 100),
    "job list --stuck --refresh": (["job", "list", "--stuck", "--refresh"], 1_500),
    "run, nothing ready": (["run"], None),
}
"""What is measured, and how many milliseconds it may take for 100,000 jobs."""
COPIED = ("state.json", "jobHistory.json", "job.yaml")
MOST_MEGABYTES = 60
MOST_CHOOSING_MS = 5.0
MOST_BATCH_MS = 10.0
MOST_BATCH_KB = 20.0
"""For each job of a batch."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[100_000])
    parser.add_argument("--ended", type=int, nargs="+", default=[0, 1_000, 10_000, 100_000])
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    for count in options.jobs:
        with tempfile.TemporaryDirectory() as folder:
            measure_listing(Path(folder), count, options.runs)
    rows: list[list[object]] = [["ended jobs", "CPU ms to choose one of 2,000 ready jobs", "kept"]]
    for count in options.ended:
        with tempfile.TemporaryDirectory() as folder:
            chosen = measure_choosing(Path(folder), count)
            rows.append([str(count), chosen, judge(chosen, MOST_CHOOSING_MS)])
    table(rows)
    rows = [["jobs with `after`", "CPU ms to choose the next job", "most ms to record an end", "kept"]]
    for count in options.jobs:
        for name, after in ORDERS.items():
            with tempfile.TemporaryDirectory() as folder:
                chosen, recorded = measure_following(Path(folder), count, after)
                rows.append([f"{count}, {name}", chosen, recorded, judge(chosen, MOST_CHOOSING_MS)])
    table(rows)
    rows = [["CPU ms to find that no job is ready", *SELECTIONS, "kept"]]
    for count in options.jobs:
        for name in ("none waits", "all but 200 wait for one that was canceled"):
            with tempfile.TemporaryDirectory() as folder:
                times = measure_selecting(Path(folder), count, ORDERS[name])
                rows.append([f"{count}, {name}", *times, judge(max(times), MOST_CHOOSING_MS)])
    table(rows)
    rows = [["jobs of a batch", "CPU ms for each", "MB", "kept"]]
    for count in options.batches:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure_batch(Path(folder), count))
    table(rows)


def measure_batch(place: Path, count: int) -> list[object]:
    """What `job create --batch` costs, without a repository."""
    lines = (json.dumps({"id": f"job-{number}", "prompt": f"Task {number}"}) for number in range(count))
    (place / "batch.jsonl").write_text("\n".join(lines))
    words = ["job", "create", "--batch", "batch.jsonl", "--no-repo"]
    least = measure_child([*LOGIST, "--version"], place, 1)[1]
    cpu, megabytes = measure_child([*LOGIST, *words], place, 1)
    kept = judge(cpu / count, MOST_BATCH_MS) and judge((megabytes - least) * 1000 / count, MOST_BATCH_KB)
    return [str(count), cpu / count, megabytes, kept if count > 100 else ""]


def measure_listing(place: Path, count: int, runs: int) -> None:
    """Print what the commands cost in a project with `count` jobs that have ended."""
    make_jobs(place, count, ended=count)
    jobs = str(place / ".logist" / "jobs")
    rows: list[list[object]] = [[f"{count} jobs", "CPU ms", "MB", "most ms", "most MB", "kept"]]
    read_ms, read_mb = measure_child([sys.executable, "-c", READ, jobs], place, runs)
    rows.append(["reading all states in Python", read_ms, read_mb, "", "", ""])
    for name, (words, most) in COMMANDS.items():
        cpu, megabytes = measure_child([*LOGIST, *words], place, 1 if name == "first list" else runs)
        kept = "" if most is None else judge(cpu, most) and judge(megabytes, MOST_MEGABYTES)
        limits = ["", ""] if most is None else [str(most), str(MOST_MEGABYTES)]
        rows.append([name, cpu, megabytes, *limits, kept])
    table(rows)


def measure_choosing(place: Path, ended: int) -> float:
    """Milliseconds of CPU to choose a job, beside so many jobs that have ended."""
    make_jobs(place, ended + 2_000, ended=ended)
    done = subprocess.run(
        [sys.executable, "-c", CHOOSE],
        cwd=place,
        env=clean_environment(place),
        check=True,
        stdout=subprocess.PIPE,
    )
    return float(done.stdout)


ORDERS: dict[str, Callable[[int], int | None]] = {
    "none waits": lambda number: None,
    "each waits for the one before": lambda number: number - 1 if number else None,
    "all wait for the same": lambda number: 0 if number else None,
    "all but 200 wait for one that was canceled": lambda number: -1 if number >= 200 else None,
}
"""Which job each one waits for, by number; -1: the canceled one."""


def measure_following(place: Path, count: int, after: Callable[[int], int | None]) -> tuple[float, float]:
    """Milliseconds of CPU to choose a job of so many that wait for others, and at most to record the end of one."""
    make_following_jobs(place, count, after)
    chosen, recorded = run_python(place, CHOOSE_NEXT)
    return chosen, recorded


def measure_selecting(place: Path, count: int, after: Callable[[int], int | None]) -> list[float]:
    """Milliseconds of CPU to look for a ready job with each of SELECTIONS, which no job has."""
    make_following_jobs(place, count, after)
    return run_python(place, CHOOSE_SELECTED)


def make_following_jobs(place: Path, count: int, after: Callable[[int], int | None]) -> None:
    """A project with so many jobs that wait for others, as in ORDERS; all have the tag `all`."""
    make_jobs(place, count + 1, ended=1)
    jobs = place / ".logist" / "jobs"
    (jobs / "job-0").rename(jobs / "canceled")
    for number in range(count):
        state = jobs / f"job-{number + 1}" / "state.json"
        text, above = state.read_text().replace('"tags": []', '"tags": ["all"]'), after(number)
        if above is not None:
            name = "canceled" if above < 0 else f"job-{above + 1}"
            text = text.replace('"after": null', f'"after": ["{name}"]')
        state.write_text(text)


def run_python(place: Path, program: str) -> list[float]:
    """Run a program in a project, and return the numbers that it prints."""
    command = [sys.executable, "-c", program]
    environment = clean_environment(place)
    done = subprocess.run(command, cwd=place, env=environment, check=True, stdout=subprocess.PIPE)
    return [float(each) for each in done.stdout.split()]


def judge(value: float, most: float) -> str:
    return "yes" if value <= most else "NO"


def make_jobs(place: Path, count: int, ended: int) -> None:
    """A project with copies of the states and histories of two jobs under other ids; the first `ended` are canceled."""
    environment = clean_environment(place)

    def run(*words: str) -> None:
        subprocess.run([*LOGIST, *words], cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)

    run("init")
    jobs = place / ".logist" / "jobs"
    copied: dict[str, bytes] = {}
    for number in range(count):
        folder = jobs / f"job-{number}"
        if number in (0, ended):
            run("job", "create", "--id", folder.name, "--prompt", "A task", "--no-repo")
            if number < ended:
                run("job", "cancel", folder.name, "--yes")
            copied = {name: (folder / name).read_bytes() for name in COPIED}
            continue
        folder.mkdir()
        for name, data in copied.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
