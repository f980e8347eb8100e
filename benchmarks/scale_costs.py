"""Measures what a step costs the dispatcher, for scale_simulation.py, and compares that with real runs of `logist run`.

What travels to a worker and back is measured with git itself: the pack of a workspace, and that of one change.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import CDLL
from pathlib import Path
from typing import NamedTuple

from measure import LOGIST, clean_environment, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import calls
import ledger
import listing
from scale_simulation import Costs, Scenario, Simulation

from logist.store.job_index import JobIndex
from logist.store.ledger import Ledger
from tests.jobs.bench import Bench, answer, command
from tests.support import make_repository

THREADS = 8
WORDS = [format(number, "x") for number in range(0, 1 << 20, 257)]
PARALLEL = (1, 4, 8)
SLEEP = 1.0
LONGER = 31.0
"""Seconds that agent programs sleep."""
SLEEPER = f"""
agents:
  sleeper:
    argv: [sh, -c, 'cat > /dev/null; sleep SECONDS; echo "$ANSWER"']
    prompt: stdin
    output: text
    metered: false
    environment: {{ANSWER: '{calls.ANSWER}'}}
models: {{benchmark: {{provider_model: openai/benchmark}}}}
agent: sleeper
gate: "off"
allow_unknown_price: true
"""


def measure(place: Path | None, files: int, runs: int) -> Costs:
    """Measure all costs in a directory, and print what one dispatcher carries."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=place) as folder:
        flush_seconds, at_once = measure_flushes(Path(folder), runs)
        step = measure_step(Path(folder) / "step", files, runs)
        transfer = measure_transfer(Path(folder) / "transfer", files, runs)
        reserve, settle = ledger.measure(Ledger(Path(folder) / "ledger"), 100)
        lookups = measure_lookups(Path(folder) / "index")
        waiting_ms = measure_waiting(Path(folder) / "waiting")
    bookings = (reserve.cpu_ms + settle.cpu_ms) / 2
    costs = Costs(
        python_ms=step.own_ms,
        waiting_ms=waiting_ms,
        other_ms=step.others_ms + transfer.task_ms,
        fsyncs=step.fsyncs,
        fsync_ms=flush_seconds * 1000,
        fsyncs_at_once=at_once,
        booking_ms=bookings,
        pack_ms=transfer.pack_ms,
        pack_mb=transfer.pack_mb,
        task_mb=transfer.task_mb + step.request_mb,
    )
    rows = [
        [
            "one dispatcher, with a workspace of",
            f"{files:,} files",
            f"load {load:.0f} to {os.getloadavg()[0]:.0f}",
        ],
        [
            "CPU of a step: its Python process",
            f"{step.own_ms:.1f} ms",
            f"{1000 / step.own_ms:.0f} steps/s at most",
        ],
        [
            "CPU of a step: git",
            f"{costs.other_ms:.1f} ms",
            f"{1000 / costs.other_ms:.0f} steps/s for each other core",
        ],
        [
            "CPU while a step waits for its agent",
            f"{waiting_ms:.2f} ms/s",
            f"{1000 / waiting_ms:,.0f} agents at work at most",
        ],
        ["fsyncs of a step, the ledger apart", f"{step.fsyncs:.0f}", ""],
        [
            "an fsync alone; with 8 threads",
            f"{flush_seconds * 1000:.2f} ms",
            f"{1 / flush_seconds:.0f}/s; {at_once / flush_seconds:.0f}/s",
        ],
        [
            "a reservation or settlement in the ledger",
            f"{bookings:.2f} ms CPU, 1 fsync",
            f"{1000 / bookings:.0f}/s by CPU, {2000 / (reserve.wall_ms + settle.wall_ms):.0f}/s with its fsync",
        ],
        ["a job in the index", f"{1e6 / lookups:.0f} µs", f"{lookups:,.0f} lookups/s"],
        ["a job on the disk; each step", f"{step.job_kb:,.0f} KB", f"{step.step_kb:.1f} KB"],
        [
            "a task: packing and unpacking one change",
            f"{transfer.task_ms:.1f} ms, {costs.task_mb * 1000:.0f} KB",
            f"{1000 / transfer.task_ms:.0f} tasks/s for each core",
        ],
        ["the pack of the workspace", f"{transfer.pack_ms:.0f} ms, {transfer.pack_mb:.1f} MB", ""],
    ]
    table(rows)
    print()
    return costs


def measure_flushes(place: Path, runs: int) -> tuple[float, float]:
    """Seconds of an fsync of 4 kB, and how many the disk serves in that time for 8 threads; both in turns, the median."""

    def flush(name: str) -> None:
        with open(place / name, "wb") as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())

    alone, crowded = [], []
    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(runs):
            alone.append(wall(lambda number=number: flush(f"alone-{number}")))
            names = [f"crowd-{number}-{each}" for each in range(THREADS * 4)]
            crowded.append(wall(lambda names=names: list(pool.map(flush, names))) / len(names))
    return statistics.median(alone), max(1.0, statistics.median(alone) / statistics.median(crowded))


class StepCosts(NamedTuple):
    """One step of the dispatcher, without the agent."""

    own_ms: float
    others_ms: float
    fsyncs: float
    request_mb: float
    job_kb: float
    step_kb: float


def measure_step(place: Path, files: int, runs: int) -> StepCosts:
    """Steps whose agent changes one file, and what a paid call writes besides: request, sent, response."""
    repository = make_repository(place / "repository")
    fill(repository, files)
    answers = [answer(command("RETRY"), files={"notes.txt": f"{number}\n"}) for number in range(runs + 2)]
    bench = Bench(place / "project", answers)
    bench.create(repo=str(repository), limits={"max_attempts": 10**6, "max_allowed_iterations": 10**6})
    job_kb = disk_kb(bench.folder())
    bench.step()
    bench.step()
    before = disk_kb(bench.folder())
    entry = bench.history()[-1].model_dump(mode="json")

    def work() -> None:
        bench.step()
        job = bench.project.open_job("j")
        job.begin_exchange(1, entry["request"])
        job.mark_sent(1)
        job.save_response(1, entry["response"])
        job.read_exchanges()
        job.end_exchanges()

    measured = []
    with ledger.count_fsyncs() as fsyncs:
        for _ in range(runs):
            own, others = time.process_time(), children_seconds()
            work()
            measured.append((time.process_time() - own, children_seconds() - others))
    request_mb = len(json.dumps(entry["request"])) / 1e6
    own, others = (statistics.median(each) * 1000 for each in zip(*measured, strict=True))
    step_kb = (disk_kb(bench.folder()) - before) / runs
    return StepCosts(own, others, fsyncs[0] / runs, request_mb, job_kb, step_kb)


class TransferCosts(NamedTuple):
    """What git does to send a workspace, and a change of one file."""

    pack_ms: float
    pack_mb: float
    task_ms: float
    task_mb: float


def measure_transfer(place: Path, files: int, runs: int) -> TransferCosts:
    """Pack a workspace; then pack a change of it, and unpack that in a copy, as at the other end."""
    repository = make_repository(place / "repository")
    fill(repository, files)
    other = place / "other"
    git(place, "clone", "--quiet", "--bare", str(repository), str(other))

    def pack(revisions: str, *options: str) -> bytes:
        return git(repository, "pack-objects", "--revs", "--stdout", "-q", *options, data=revisions.encode())

    whole, sizes, parts, part_sizes = [], [], [], []
    for number in range(max(3, runs // 3)):
        whole.append(children(lambda: sizes.append(len(pack("HEAD\n")))))
        (repository / "notes.txt").write_text(f"{number}\n")
        git(repository, "add", "notes.txt")
        git(repository, "commit", "--quiet", "-m", "change")

        def travel() -> None:
            change = pack("HEAD\n^HEAD~1\n", "--thin")
            part_sizes.append(len(change))
            git(other, "index-pack", "--stdin", "--fix-thin", data=change)

        parts.append(children(travel))
    middle = statistics.median
    return TransferCosts(
        middle(whole) * 1000, middle(sizes) / 1e6, middle(parts) * 1000, middle(part_sizes) / 1e6
    )


def fill(repository: Path, files: int) -> None:
    """Commit so many files of 4 kB, 50 in a directory."""
    source = random.Random(0)
    for number in range(files):
        folder = repository / f"part{number // 50}"
        folder.mkdir(exist_ok=True)
        (folder / f"file{number}.txt").write_text(" ".join(source.choices(WORDS, k=700)))
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "files")


def git(folder: Path, *words: str, data: bytes = b"") -> bytes:
    names = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost"]
    done = subprocess.run(
        ["git", *names, *words],
        cwd=folder,
        env=clean_environment(folder),
        input=data,
        check=True,
        stdout=subprocess.PIPE,
    )
    return done.stdout


def measure_lookups(place: Path) -> float:
    """How many jobs of 2,000 are looked up in the index in a second of CPU."""
    place.mkdir()
    listing.make_jobs(place, 2_000, ended=1_000)
    subprocess.run(
        [*LOGIST, "job", "list"],
        cwd=place,
        env=clean_environment(place),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    index = JobIndex.open(str(place / ".logist" / "jobs"))
    assert index is not None
    began = time.process_time()
    for number in range(2_000):
        assert index.read_brief(f"job-{number}") is not None
    return 2_000 / (time.process_time() - began)


def measure_waiting(place: Path, jobs: int = 16, runs: int = 2) -> float:
    """Milliseconds of CPU that `logist run` uses in each second for each of the agents at work."""
    place.mkdir()
    python = calls.watched_python(place / "python", place / "fsyncs.log")
    own = {}
    for seconds in (SLEEP, LONGER):
        spent = [
            run_sleepers(place / f"run-{seconds}-{number}", python, jobs, jobs, seconds)
            for number in range(runs)
        ]
        own[seconds] = min(each.command - each.starting for each in spent)
    return max(0.01, (own[LONGER] - own[SLEEP]) / jobs / (LONGER - SLEEP) * 1000)


def run_sleepers(place: Path, python: str, jobs: int, parallel: int, seconds: float) -> calls.Spent:
    """A `logist run` over jobs whose agent program sleeps; `python` is a watched one, with its log next to `place`."""
    config = SLEEPER.replace("SECONDS", str(seconds))
    return calls.Run(place, python, place.parent / "fsyncs.log", "", config).measure(jobs, parallel, "")


def wall(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def children(work: Callable[[], object]) -> float:
    """Seconds of CPU of the processes that are started."""
    before = children_seconds()
    work()
    return children_seconds() - before


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def disk_kb(folder: Path) -> float:
    """What a directory takes on the disk."""
    return sum(path.lstat().st_blocks for path in (folder, *folder.rglob("*"))) * 512 / 1000


def compare_with_reality(place: Path | None, seed: int) -> int:
    """Run jobs whose agent program sleeps a second, 1, 4 and 8 at a time, and compare the steps a second with the simulation.

    The costs, and what other programs use of the processor meanwhile, are those of the run with one job at a time.
    """
    if CDLL(None).prctl(calls.SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("prctl failed: the CPU of couriers would not be counted")
    rows: list[list[object]] = [
        ["parallel", "steps/s", "simulated", "Python ms", "other ms", "fsyncs", "ms each", "load"]
    ]
    with tempfile.TemporaryDirectory(dir=place) as folder:
        python = calls.watched_python(Path(folder) / "python", Path(folder) / "fsyncs.log")
        _, at_once = measure_flushes(Path(folder), 15)
        costs, background = Costs(), 0.0
        for parallel in PARALLEL:
            jobs = 20 * parallel
            spent = run_sleepers(Path(folder) / f"run-{parallel}", python, jobs, parallel, SLEEP)
            measured = describe_costs(jobs, spent)._replace(fsyncs_at_once=at_once)
            if parallel == min(PARALLEL):
                costs, background = measured, estimate_background(jobs, spent)
                print(f"other programs: {background:.1f} threads; {at_once:.1f} fsyncs at once")
            predicted = predict(costs, parallel, background, seed)
            counted = [measured.python_ms, measured.other_ms, measured.fsyncs, measured.fsync_ms]
            rows.append([str(parallel), jobs / spent.seconds, predicted, *counted, os.getloadavg()[0]])
    table(rows)
    return 0


def describe_costs(jobs: int, spent: calls.Spent) -> Costs:
    own = spent.command - spent.starting
    return Costs(
        python_ms=own / jobs * 1000,
        other_ms=(spent.cpu - spent.command) / jobs * 1000,
        waiting_ms=0.0,
        fsyncs=len(spent.fsyncs) / jobs,
        fsync_ms=statistics.mean(spent.fsyncs) * 1000,
        bookings=0.0,  # they are in the other figures
        pack_ms=0.0,
        pack_mb=0.0,
        task_mb=0.0,
    )


def estimate_background(jobs: int, spent: calls.Spent) -> float:
    """How many threads of other programs shared the cores, from how much longer than its CPU a step took."""
    waited = spent.seconds - jobs * SLEEP - sum(spent.fsyncs)
    stretch = max(1.0, waited / (spent.cpu - spent.starting))
    return max(0.0, stretch * (os.cpu_count() or 1) - 1)


def predict(costs: Costs, parallel: int, background: float, seed: int) -> float:
    scenario = Scenario(
        parallel,
        agent_seconds=SLEEP,
        spread=0.0,
        cores=os.cpu_count() or 1,
        background=background,
        latency_ms=0.0,
        days_between_failures=0.0,
    )
    return Simulation(costs, scenario, seed).run(5_000).steps_per_second
