"""What a step costs, and how much memory the process has, in a run of ten thousand jobs; and what each filter of
`job list` costs among a hundred thousand.

Run: python benchmarks/many_jobs.py [--only run list] [--run 10 1000 10000] [--list 100000] [--parallel 8]
    [--runs 3] [--place DIRECTORY]

A run's CPU time is that of the process and of all that it started, without that of a run in which nothing is ready.
Jobs have scripted agents, no repository and no review: each is one step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from growth import begin_project, run_logist
from listing import COPIED
from measure import LOGIST, clean_environment, cpu_ms, table

from logist.timestamps import format_utc

MOST_RATIO = 1.1
"""A step beside one of the smallest run."""
MOST_LIST_MS = 100.0
MARKS = (0.1, 0.5, 1.0)
"""The parts of the largest run after which its memory is measured."""
SMALLEST_IS_REPEATED = 10
"""The start of a run costs as much as thirty steps, so the smallest run is measured several times, and the least counts."""
TICKS = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """What a run needed."""

    cpu_ms: float
    marks: list[tuple[int, float, float]]
    """At some moments: how many jobs were done, the CPU milliseconds until then, and the memory in MB."""
    most_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=("run", "list"), default=["run", "list"])
    parser.add_argument("--run", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--list", type=int, default=100_000)
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3, help="of which the cheapest counts")
    parser.add_argument("--place", type=Path, default=None, help="where projects are made for a while")
    options = parser.parse_args()
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}, in {options.place or tempfile.gettempdir()}\n"
    )
    if "run" in options.only:
        measure_runs(sorted(options.run), options.parallel, options.place)
    if "list" in options.only:
        with tempfile.TemporaryDirectory(dir=options.place) as folder:
            measure_filters(Path(folder), options.list, options.runs)


# A run


def measure_runs(sizes: list[int], parallel: int, place: Path | None) -> None:
    """Print what a step costs in runs of so many jobs, and the memory of the largest."""
    rows: list[list[object]] = [["jobs", "CPU ms of the run", "a step", "ratio", f"at most {MOST_RATIO}"]]
    least = 0.0
    for size in sizes:
        is_smallest = size == sizes[0]
        measured = [
            measure_one_run(size, parallel, place) for _ in range(SMALLEST_IS_REPEATED if is_smallest else 1)
        ]
        spent, idle = min(each for each, _ in measured), min(each for _, each in measured)
        step = (spent.cpu_ms - idle) / size
        least = least or step
        judged = "yes" if step <= MOST_RATIO * least else "NO"
        rows.append([f"{size:,}", spent.cpu_ms, step, step / least, judged])
    table(rows)
    print(f"\nmemory of the run of {sizes[-1]:,}: at most {spent.most_mb:.1f} MB")
    rows, last = [["jobs done", "MB", "CPU ms a step since the row above"]], (0, 0.0)
    for done, cpu, megabytes in spent.marks:
        rows.append([f"{done:,}", megabytes, (cpu - last[1]) / (done - last[0])])
        last = done, cpu
    table(rows)
    print()


def measure_one_run(size: int, parallel: int, place: Path | None) -> tuple[Spent, float]:
    """What a run of so many jobs needs, and the CPU milliseconds of one after it, in which nothing is ready."""
    command = [*LOGIST, "run", "--parallel", str(parallel), "--agent", "scripted:answers.json"]
    with tempfile.TemporaryDirectory(dir=place) as folder:
        project = Path(folder)
        begin_project(project)
        lines = (json.dumps({"id": f"job-{number}", "prompt": f"Task {number}"}) for number in range(size))
        (project / "batch.jsonl").write_text("\n".join(lines))
        run_logist(project, "job", "create", "--batch", "batch.jsonl", "--no-repo")
        spent = watch_run(command, project, [max(1, int(size * part)) for part in MARKS])
        return spent, cpu_ms(command, project, 1)


def watch_run(command: list[str], project: Path, marks: list[int]) -> Spent:
    """Run a command to its end; measure it each time that so many jobs are done, from the lines that it prints."""
    process = subprocess.Popen(
        command,
        cwd=project,
        env=clean_environment(project),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    done, measured = 0, []
    for line in process.stdout:
        done += line.rstrip().endswith(b"-> SUCCESS")
        if marks and done >= marks[0]:
            if (megabytes := read_megabytes(process.pid)) is not None:
                measured.append((done, read_cpu_ms(process.pid), megabytes))
            marks = marks[1:]
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return Spent((usage.ru_utime + usage.ru_stime) * 1000, measured, usage.ru_maxrss / 1024)


def read_cpu_ms(pid: int) -> float:
    """The CPU milliseconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS * 1000


def read_megabytes(pid: int) -> float | None:
    """The resident memory of a process; None if it has ended."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), None)


# Listings


FILTERS = {
    "--status, few": ["--status", "STUCK"],
    "--status, half of all": ["--status", "PENDING", "--limit", "20"],
    "--stuck": ["--stuck"],
    "two --status": ["--status", "PENDING", "--status", "CANCELED", "--limit", "20"],
    "--tag, few": ["--tag", "rare"],
    "--tag, nine of ten": ["--tag", "common", "--limit", "20"],
    "--tag, none": ["--tag", "unknown"],
    "--assignee": ["--assignee", "ann"],
    "--since, few": ["--since", "2022-12-01"],
    "--since, all": ["--since", "2022-01-01", "--limit", "20"],
    "--since, a third": ["--since", "2022-02-15", "--limit", "20"],
    "--grep, few": ["--grep", "needle"],
    "--grep, all": ["--grep", "task", "--limit", "20"],
    "--grep, none": ["--grep", "no such text"],
    "--status and --tag": ["--status", "PENDING", "--tag", "rare"],
    "all filters": [
        *(
            "--status",
            "PENDING",
            "--tag",
            "common",
            "--since",
            "2022-01-01",
            "--grep",
            "task",
            "--limit",
            "20",
        ),
    ],
    **{
        f"--sort {key}": ["--sort", key, "--limit", "20"]
        for key in ("rank", "-rank", "created", "-updated", "-cost", "id", "-id")
    },
    "--tag --sort -updated": ["--tag", "common", "--sort", "-updated", "--limit", "20"],
    "--status --sort -cost": ["--status", "PENDING", "--sort", "-cost", "--limit", "20"],
    "--grep --sort created": ["--grep", "task", "--sort", "created", "--limit", "20"],
}
"""Every filter, with few and with many jobs that pass it. Of many, 20 are shown."""
CREATED, YEAR = 1_640_995_200.0, 31_536_000.0
"""When the first job was created, one each minute, and how much later some have changed."""
FEW = 20
"""How many jobs pass a filter for few."""


def measure_filters(place: Path, count: int, runs: int) -> None:
    """Print what each filter of `job list` costs in a project with `count` jobs."""
    make_mixed_jobs(place, count)
    cpu_ms([*LOGIST, "job", "list"], place, 1)  # makes the index
    rows: list[list[object]] = [
        [f"{count:,} jobs", "rows", "CPU ms", "--json", f"at most {MOST_LIST_MS:.0f}"]
    ]
    for name, words in {"job list": [], **FILTERS}.items():
        command = [*LOGIST, "job", "list", *words]
        shown = subprocess.run(
            command, cwd=place, env=clean_environment(place), check=True, capture_output=True
        ).stdout.splitlines()
        costs = [cpu_ms(command, place, runs), cpu_ms([*command, "--json"], place, runs)]
        judged = "yes" if max(costs) <= MOST_LIST_MS else "NO"
        rows.append([name, f"{len(shown):,}", *costs, judged if words else ""])
    table(rows)


def make_mixed_jobs(place: Path, count: int) -> None:
    """A project with copies of a job under other ids, in different states: only what listings read is right."""
    run_logist(place, "init")
    run_logist(place, "job", "create", "--id", "job-0", "--prompt", "A task", "--no-repo")
    jobs = place / ".logist" / "jobs"
    copied = {name: (jobs / "job-0" / name).read_bytes() for name in COPIED}
    state = json.loads(copied["state.json"])
    for number, changes in zip(range(count), iter_states(count), strict=False):
        folder = jobs / f"job-{number}"
        folder.mkdir(exist_ok=True)
        for name, data in copied.items():
            (folder / name).write_bytes(data)
        (folder / "state.json").write_text(json.dumps({**state, **changes}))


def iter_states(count: int) -> Iterator[dict[str, object]]:
    """Yield what is different in the state of each job. Three of ten are child jobs."""
    step = max(1, count // FEW)
    for number in range(count):
        is_chosen = number % step == step // 2
        yield {
            "status": "PENDING" if number > count // 2 else "CANCELED",
            "title": "A needle" if is_chosen else "A task",
            "tags": ["rare"] if is_chosen else [] if number % 10 == 0 else ["common"],
            "parent": f"job-{number // 10 * 10}" if number % 10 >= 7 else None,
            "rank": number // 10 % 7,
            "created_at": format_utc(CREATED + 60.0 * number),
            "updated_at": format_utc(CREATED + 60.0 * number + (YEAR if is_chosen else 30.0)),
            **(STUCK if number % step == 1 else MANUAL if number % step == 3 else {}),
        }


STUCK = {
    "status": "STUCK",
    "stuck": {
        "kind": "question",
        "step": "task",
        "role": "Worker",
        "phase": "doer",
        "reason": "Which database?",
    },
}
MANUAL = {
    "status": "APPROVAL_REQUIRED",
    "awaiting": "manual",
    "step": "sign",
    "doers": {"sign": {"role": "ann"}},
}


if __name__ == "__main__":
    main()
