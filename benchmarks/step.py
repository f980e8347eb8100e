"""What one step costs Logist itself: files with every fsync; the agent and git apart. Every step is an attempt after one
that ended with RETRY, and the median of several counts: a single cheap one would hide what the others cost.

Run: python benchmarks/step.py [--history 10 100 1000 10000] [--runs 20]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from measure import table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from logist.jobs.base.session import open_session
from logist.jobs.base.stored_records import dump_interaction
from logist.workspace.git import Git
from tests.jobs.bench import Bench, answer, command

LIMIT = 20.0


class Watch:
    """Seconds spent in git, and how many times fsync was called."""

    def __init__(self) -> None:
        self.git = 0.0
        self.fsyncs = 0


@contextmanager
def watched() -> Iterator[Watch]:
    """Counts while the block runs."""
    watch, run, fsync = Watch(), Git.run, os.fsync

    def timed(self: Git, *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return run(self, *args, **kwargs)
        finally:
            watch.git += time.perf_counter() - began

    def counted(descriptor: int) -> None:
        watch.fsyncs += 1
        fsync(descriptor)

    Git.run, os.fsync = timed, counted  # type: ignore[method-assign, assignment]
    try:
        yield watch
    finally:
        Git.run, os.fsync = run, fsync  # type: ignore[method-assign]


def grown(place: Path, count: int, runs: int) -> Bench:
    """A job whose history has `count` interactions, and answers for `runs` more steps."""
    text = command("RETRY", summary="Again. " * 20)
    bench = Bench(place, [answer(text)] * (runs + 2))
    bench.create(limits={"max_attempts": 10**9, "max_allowed_iterations": 10**9})
    bench.step()
    with open_session(bench.project, "j", "benchmark") as session:
        entry = session.load_history()[-1]
        for _ in range(0, count - 2, 500):
            block = [dump_interaction(entry)] * min(500, count - session.state.revision)
            done = session.job.append_entries(session.position, block)
            session.position = done.position
            session.state = session.state.model_copy(update={"revision": done.position.sequence})
        session.write_state()
    return bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", type=int, nargs="+", default=[10, 100, 1000, 10_000])
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    rows: list[list[object]] = [
        ["interactions", "history MB", "CPU ms", f"at most {LIMIT:g}", "step ms", "of it git", "fsyncs"]
    ]
    for count in options.history:
        with tempfile.TemporaryDirectory() as folder:
            bench = grown(Path(folder), count, options.runs)
            size = (bench.folder() / "jobHistory.json").stat().st_size / 1e6
            measure(bench)  # the first one after the history was written closes a segment
            measured = sorted(measure(bench) for _ in range(options.runs))
            middle = measured[len(measured) // 2]
            own = middle.cpu * 1000
            judged = "yes" if own <= LIMIT else "NO"
            rows.append(
                [str(count), size, own, judged, middle.total * 1000, middle.git * 1000, str(middle.fsyncs)]
            )
            assert (
                json.loads((bench.folder() / "state.json").read_bytes())["revision"]
                == count + options.runs + 1
            )
    table(rows)


class StepCost(NamedTuple):
    """Seconds of CPU of this process, all seconds of the step, seconds of them in git; and its fsyncs."""

    cpu: float
    total: float
    git: float
    fsyncs: int


def measure(bench: Bench) -> StepCost:
    with watched() as watch:
        began, used = time.perf_counter(), time.process_time()
        bench.step()
        return StepCost(time.process_time() - used, time.perf_counter() - began, watch.git, watch.fsyncs)


if __name__ == "__main__":
    main()
