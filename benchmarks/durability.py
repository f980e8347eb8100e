"""What it costs that nothing is lost: appends beside other ways to keep a log, opening, steps, verify, new jobs.

Run: python benchmarks/durability.py [--runs 30] [--counts 10 1000 10000 100000] [--place DIRECTORY]
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from logs import ENTRY, OTHERS, Logist, Rewrite, lines, write_history
from measure import LOGIST, clean_environment, table

from logist.core.history import fold
from logist.core.model import Interaction, JobSpec, Request
from logist.jobs.base.create import create_job
from logist.jobs.base.stored_records import (
    build_current_state,
    dump_interaction,
    dump_state,
    parse_interaction,
)
from logist.store import REPLACE_BELOW, filesystem_type
from logist.workspace.git import Git
from tests.jobs.bench import Bench, answer, command
from tests.support import ROOT, make_repository
from tests.torture import mutants
from tests.torture.lab import World, paid_server
from tests.torture.suite import Skip
from tests.torture.tracer import Call, trace

AGAIN = command("RETRY", summary="Again. " * 20)

FSYNCS = ("fsync", "fdatasync", "sync", "syncfs")
WRITES = ("write", "writev", "pwrite64", "pwritev", "copy_file_range")
LAUNCHER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
"""A small process between: what a large one starts is booked with the memory of the large one."""
SLOW = 3
"""Times that what takes seconds is measured."""


class Times(NamedTuple):
    """Milliseconds of one thing done several times."""

    median: float
    least: float


def times(done: Sequence[float]) -> Times:
    return Times(statistics.median(done) * 1000, min(done) * 1000)


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def flush(place: Path, runs: int) -> Times:
    """What the disk itself takes here and now."""
    with open(place / "flush", "wb", buffering=0) as file:

        def once() -> None:
            file.write(bytes(4096))
            os.fsync(file.fileno())

        return times([timed(once) for _ in range(runs)])


def judged(name: str, value: float, most: float, unit: str = "", least: float | None = None) -> None:
    """One goal, and whether it was met in this run; on a busy machine at least the least may be."""
    verdict = "met" if value <= most else "MISSED"
    if value > most and least is not None:
        verdict += f", the least, {least:.2f}{unit}, {'met' if least <= most else 'too'}"
    print(f"goal: {name}: {value:.2f}{unit} of at most {most:g}{unit}: {verdict}")


def per_threshold() -> int:
    """How many entries a history just below the threshold has."""
    *_, (line, _) = lines([ENTRY] * 100)
    return REPLACE_BELOW // len(line)


def appends(place: Path, counts: Sequence[int], runs: int) -> None:
    """(i) One durable append of about 1 kB, at several lengths; all lengths in turn, so that drift hits all."""
    threshold = per_threshold()
    below, above = threshold - runs - 10, threshold + 10
    sizes = sorted({*counts, below, above})
    rows: list[list[object]] = [["append of 1 kB", *(f"at {size:,}" for size in sizes)]]
    ours = measured(place, Logist, sizes, runs)
    rows.append(["logist", *map(shown, ours.values())])
    for name, kind in OTHERS.items():
        rows.append([name, *map(shown, measured(place, kind, sizes, runs).values())])
    table([[str(cell) for cell in row] for row in rows])
    print(
        f"milliseconds, median (least) of {runs}; logist by rename below {REPLACE_BELOW:,} bytes, in place above"
    )
    most = max(counts)
    if most > above:
        ratio = ours[most].median / ours[above].median
        judged(f"an append at {most:,} over one at the threshold ({above:,})", ratio, 1.5)
    slowest = max(time for size, time in ours.items() if size <= below)
    judged("an append below the threshold", slowest.median, 20, " ms", slowest.least)


def measured(
    place: Path, kind: Callable[[Path, int], Any], sizes: Sequence[int], runs: int
) -> dict[int, Times]:
    logs, done = {}, {size: [] for size in sizes}
    for size in sizes:
        folder = place / f"append-{size}"
        folder.mkdir()
        logs[size] = kind(folder, size)
        logs[size].append()  # the first one pays for what is not yet in memory
    for turn in range(runs):
        for size in sizes:
            if kind is not Rewrite or size < 10_000 or turn < SLOW:
                done[size].append(timed(logs[size].append))
    logs.clear()
    for size in sizes:
        shutil.rmtree(place / f"append-{size}")
    return {size: times(each) for size, each in done.items()}


def shown(time: Times) -> str:
    return f"{time.median:.2f} ({time.least:.2f})"


def grown(place: Path, count: int) -> Bench:
    """A job with so many interactions of about 1 kB, and the state that they give."""
    bench = Bench(place, [answer(AGAIN)])
    bench.create(limits={"max_attempts": 10**9, "max_allowed_iterations": 10**9})
    bench.step()
    job = bench.project.open_job("j")
    first, asked = map(parse_interaction, job.read_entries())
    small = asked.model_copy(update={"request": Request()})
    entries = [first, *(repeated(small, sequence) for sequence in range(2, count + 1))]
    position = write_history(job.history_file, map(dump_interaction, entries))
    state = fold.apply_interaction(None, first)
    for entry in entries[1:]:
        state = fold.apply_interaction(state, entry)
    job.write_state(dump_state(state, position))
    return bench


def repeated(entry: Interaction, sequence: int) -> Interaction:
    after = entry.after.model_copy(update={"attempts": sequence - 1})
    return entry.model_copy(update={"sequence": sequence, "attempt": sequence - 1, "after": after})


def opening(place: Path, counts: Sequence[int], runs: int) -> Bench:
    """(ii) Opening a job: its state, and what the history has after it."""
    rows: list[list[object]] = [["opening a job with", "history MB", "ms median", "ms least", "memory kB"]]
    last = Times(0, 0)
    for count in counts:
        bench = grown(place / f"job-{count}", count)
        job = bench.project.open_job("j")
        last = times([timed(lambda job=job: build_current_state(job, job.load())) for _ in range(runs)])
        size = job.history_file.stat().st_size / 1e6
        rows.append(
            [
                f"{count:,} interactions",
                size,
                *last,
                peak(lambda job=job: build_current_state(job, job.load())),
            ]
        )
    table(rows)
    judged(f"opening a job with {counts[-1]:,} interactions", last.median, 5, " ms")
    return bench


def peak(work: Callable[[], object]) -> float:
    """The most memory that Python's own values take meanwhile, in kB."""
    gc.collect()
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 1000


def verifying(bench: Bench, place: Path, count: int) -> None:
    """(iv) `job verify`, as a process: every checksum, the chain, the fold, the checkpoints."""
    size = (bench.folder() / "jobHistory.json").stat().st_size / 1e6
    argv = [sys.executable, "-c", LAUNCHER, *LOGIST, "job", "verify", "j"]
    began = time.perf_counter()
    done = subprocess.run(argv, cwd=place, env=clean_environment(place), check=True, stdout=subprocess.PIPE)
    took = time.perf_counter() - began
    cpu, memory = map(float, done.stdout.split())
    print(
        f"verify of {count:,} interactions, {size:.0f} MB: {took:.1f} s, of it CPU {cpu:.1f} s ({size / cpu:.0f} MB/s)"
    )
    print(f"the most memory it took: {memory / 1000:.0f} MB")


def steps(place: Path, runs: int) -> None:
    """(iii) What a step costs beside the agent: Logist's own files, git, the courier."""
    scripted = World.made(place / "scripted", [AGAIN] * 100)
    rows = [step_costs("scripted", scripted, runs, paid=False)]
    with paid_server({"text": AGAIN, "usage": {"input": 10, "output": 10}}) as server:
        paid = World.made(place / "paid").paid_by(server.url)
        rows.append(step_costs("paid", paid, runs, paid=True))
    head = ["a step", "own fsyncs", "own kB", "own ms", "least", "git's fsyncs", "gits", "whole ms"]
    table([head, *rows])
    print(f"of it in git: {git_time(scripted, runs):.0f} ms")
    whole = [float(row[-1]) for row in rows]
    print(f"the courier's start and the exchange, with the built-in client: {whole[1] - whole[0]:.0f} ms")
    print("whole: the process from its start to its end; the server answers at once")
    for name, flushed, _, own, least, *_ in rows:
        judged(f"fsyncs of a {name} step on Logist's own files", int(flushed), 10)
        judged(f"time of a {name} step in Logist's own files", own, 20, " ms", least)


def step_costs(name: str, world: World, runs: int, *, paid: bool) -> list[Any]:
    """A row of the table: counted by the tracer, timed without it."""
    most = "1000000"
    world.create("--max-attempts", most, "--max-allowed-iterations", most)
    calls = traced_step(world)
    own = [call for call in calls if is_under(call, world.folder) and not is_under(call, world.job.git_dir)]
    git = [call for call in calls if is_under(call, world.job.git_dir)]
    written = sum(max(0, call.result or 0) for call in own if call.name in WRITES) / 1000
    files = times([timed(protocol(world, paid=paid)) for _ in range(runs)])
    whole = times([step_time(world, number) for number in range(SLOW)])
    flushed = str(fsyncs(own)), str(fsyncs(git))
    return [name, flushed[0], written, files.median, files.least, flushed[1], str(gits(calls)), whole.median]


def traced_step(world: World) -> list[Call]:
    """The calls of one step that finds something changed in the workspace."""
    change(world, "traced")
    try:
        done = trace(world.argv("job", "step", "j"), cwd=world.place, env=world.env)
    except Skip as reason:
        print(f"not counted: {reason}")
        return []
    assert done.code == 0, done.err
    return done.calls


def change(world: World, text: str) -> None:
    (world.folder / "workspace" / "a.txt").write_text(text, "utf-8")


def is_under(call: Call, folder: Path) -> bool:
    return any(path == str(folder) or path.startswith(f"{folder}/") for path in call.paths)


def fsyncs(calls: Sequence[Call]) -> int:
    return sum(call.name in FSYNCS for call in calls)


def gits(calls: Sequence[Call]) -> int:
    """Git processes, with those that git starts itself."""
    return sum(call.name == "execve" and call.result == 0 and "/git" in call.paths[0] for call in calls)


def protocol(world: World, *, paid: bool) -> Callable[[], None]:
    """What a step does to the job's own files, and nothing else, with what it writes of the usual size."""
    job, entry = world.job, world.history()[-1]

    def work() -> None:
        with job.hold_lock(command="job step", since=entry["timestamp"]):
            loaded = job.load()
            job.read_exchanges()
            if paid:
                job.begin_exchange(1, entry)
                job.mark_sent(1)
                job.save_response(1, entry["response"])
                job.read_exchanges()
            done = job.append_entries(loaded.position, [entry])
            sequence, digest, offset = done.position
            head = {"sequence": sequence, "hash": digest, "offset": offset}
            job.write_state({**(loaded.state or {}), "revision": sequence, "head": head})
            job.end_exchanges()

    return work


def step_time(world: World, number: int) -> float:
    """Seconds of a whole step as a process."""
    change(world, str(number))
    return timed(
        lambda: subprocess.run(
            world.argv("job", "step", "j"), cwd=world.place, env=world.env, check=True, capture_output=True
        )
    )


def git_time(world: World, runs: int) -> float:
    """Milliseconds that a step waits for git, the median."""
    done = []
    for number in range(runs):
        change(world, f"git-{number}")
        with git_watched() as spent:
            assert world.run("job", "step", "j").code == 0
        done.append(sum(spent))
    return times(done).median


@contextmanager
def git_watched() -> Iterator[list[float]]:
    """Seconds of each git that runs in this block."""
    spent: list[float] = []
    streaming = Git.open_stream

    @contextmanager
    def timing(self: Git, *args: Any, **kwargs: Any) -> Iterator[Any]:
        began = time.perf_counter()
        try:
            with streaming(self, *args, **kwargs) as process:
                yield process
        finally:
            spent.append(time.perf_counter() - began)

    Git.open_stream = timing  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        Git.open_stream = streaming  # type: ignore[method-assign]


def creating(place: Path, runs: int) -> None:
    """(v) What it costs to make a job: counted by the tracer, timed in this process without it."""
    repository = make_repository(place / "repository")
    kinds: list[tuple[str, str, str | bool]] = [
        ("no repository", "flushed_at_once", False),
        ("no repository, busy disk", "flushed_one_by_one", False),
        ("from a repository", "flushed_at_once", str(repository)),
    ]
    rows: list[list[Any]] = []
    for number, (name, variant, source) in enumerate(kinds):
        world = World.made(place / f"create-{number}", [AGAIN])
        calls = traced_create(world, variant, source)
        with mutants.applied([variant]):
            rows.append([name, str(gits(calls)), str(fsyncs(calls)), *create_costs(world, source, runs)])
    table([["a new job", "gits", "fsyncs", "ms median", "ms least", "CPU ms", "of it gits'"], *rows])
    print(
        "busy: other programs have written much that is not on the disk yet, and one syncfs would wait for it"
    )
    judged("git processes of a job without a repository", int(rows[0][1]), 1)
    judged("fsyncs of a job without a repository", int(rows[0][2]), 8)


def traced_create(world: World, variant: str, source: str | bool) -> list[Call]:
    """The calls of `job create`."""
    options = ["--repo", source] if isinstance(source, str) else ["--no-repo"]
    argv = [world.python, "-m", "tests.torture.mutants", variant, "job", "create", "--prompt", "Do it."]
    try:
        done = trace([*argv, *options], cwd=world.place, env=world.env | {"PYTHONPATH": str(ROOT)})
    except Skip as reason:
        print(f"not counted: {reason}")
        return []
    assert done.code == 0, done.err
    return done.calls


def create_costs(world: World, source: str | bool, runs: int) -> list[float]:
    """Milliseconds of making a job, the median and the least; milliseconds of CPU, all of it and in git."""
    project = world.project()
    spec = JobSpec(prompt="Do it.", repo=source)
    create_job(project, "first", spec)  # it pays for what is not yet in memory
    before = os.times()
    took = [timed(lambda number=number: create_job(project, f"n{number}", spec)) for number in range(runs)]
    spent = [(after - then) * 1000 / runs for then, after in zip(before, os.times(), strict=True)]
    return [*times(took), sum(spent[:4]), sum(spent[2:4])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--counts", type=int, nargs="+", default=[10, 1000, 10_000, 100_000])
    parser.add_argument(
        "--place", type=Path, default=Path(tempfile.gettempdir()), help="a directory on the disk"
    )
    options = parser.parse_args()
    counts = sorted(options.counts)
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {filesystem_type(options.place)}")
    with tempfile.TemporaryDirectory(dir=options.place) as folder:
        place = Path(folder)
        print(f"an fsync of 4 kB in a new file, ms: {shown(flush(place, options.runs))}")
        print("\n(i) appends")
        appends(place, counts, options.runs)
        print("\n(ii) opening")
        biggest = opening(place, counts, options.runs)
        print("\n(iii) steps")
        steps(place, options.runs)
        print("\n(iv) verify")
        verifying(biggest, place / f"job-{counts[-1]}", counts[-1])
        print("\n(v) new jobs")
        creating(place, options.runs)


if __name__ == "__main__":
    main()
