"""Crowds: many processes at one job: they are killed at random, read without a lock, or wait for one paid
step.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from logist.errors import Damaged
from logist.store import REPLACE_BELOW, JobDir
from tests.loopback import Loopback, Received
from tests.torture import crowd_workers
from tests.torture.crowd_forks import Forks
from tests.torture.crowd_ledger import CAP, play_round
from tests.torture.crowd_steppers import LIMITS, append_one, told
from tests.torture.lab import JOB, World, broken, command, lost
from tests.torture.suite import Case, Run

Json = dict[str, Any]

AGAIN = command("RETRY", "Once more.")
HUNG = 300.0
"""Seconds after which a process counts as hung."""


def winners(run: Run) -> None:
    """Many processes step one job: each revision has one winner, and no other process was told that it won."""
    processes, revisions = (64, 1000) if run.full else (8, 60)
    world = _busy_world(run)
    logs = _folder(run.scratch / "told")
    with Forks(run.scratch / "errors") as forks:
        pids = [_stepper(forks, world, logs, revisions, seed) for seed in range(processes)]
        codes = {forks.wait(pid) for pid in pids}
    acknowledged = told(logs)
    wins = sorted(entry["sequence"] for entry in acknowledged)
    last = world.state()["revision"]
    doubles = len(wins) - len(set(wins))
    problems = broken(world) + lost(world, acknowledged)
    problems += [f"a stepper ended with {code}: {_last_line(run)}" for code in codes - {0}]
    problems += [f"{doubles} revisions were won twice"] if doubles else []
    problems += ["a revision has no winner"] if set(wins) != set(range(2, last + 1)) else []
    problems += [f"only {last} revisions"] if last < revisions else []
    run.check(problems, f"{processes} processes")
    run.count = last
    wins_of = [log.read_bytes().count(b"\n") for log in logs.iterdir()]
    run.notes.append(f"{processes} processes, {min(wins_of)} to {max(wins_of)} won by each")


def _last_line(run: Run) -> str:
    return (run.scratch / "errors").read_text("utf-8").strip().rpartition("\n")[2]


def storm(run: Run) -> None:
    """Steppers of one job are killed and restarted without pause: nothing acknowledged is lost."""
    processes, kills = (24, 600) if run.full else (6, 40)
    world, chance = _busy_world(run), run.random("storm")
    logs = _folder(run.scratch / "told")
    with Forks(run.scratch / "errors") as forks:
        crowd = [_stepper(forks, world, logs, 10**9, seed) for seed in range(processes)]
        while run.count < kills or (run.count < 20 * kills and not told(logs)):
            time.sleep(chance.random() * 0.04)
            victim = _victim(world, crowd, chance.random(), chance.randrange(processes))
            code = forks.kill(crowd[victim])
            crowd[victim] = _stepper(forks, world, logs, 10**9, processes + run.count)
            run.check([] if code == -signal.SIGKILL else [f"it had ended with {code}"], f"kill {run.count}")
        for pid in crowd:
            forks.kill(pid)
    acknowledged = told(logs)
    wins = [entry["sequence"] for entry in acknowledged]
    problems = broken(world) + lost(world, acknowledged)
    problems += ["a revision was won twice"] if len(wins) != len(set(wins)) else []
    problems += [] if wins else ["no process got anything done"]
    run.failures += [f"after the storm: {problem}" for problem in problems]
    run.notes.append(f"{len(world.history()):,} revisions, {len(wins):,} acknowledged")


def _victim(world: World, crowd: Sequence[int], chance: float, otherwise: int) -> int:
    """Choose, every second time, the process that holds the lock; return its index."""
    holder = world.job.find_lock_holder()
    if chance < 0.5 and holder and holder.stepper and holder.stepper.pid in crowd:
        return crowd.index(holder.stepper.pid)
    return otherwise


def _busy_world(run: Run) -> World:
    return World.made(run.scratch / "world", [AGAIN] * (1500 if run.full else 200), LIMITS).create()


def _stepper(forks: Forks, world: World, logs: Path, revisions: int, seed: int) -> int:
    log = str(logs / f"{seed:05}")
    return forks.call("crowd_steppers:step_until", str(world.place), log, revisions, seed)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


READS_OF_A_HISTORY = 500


def readers(run: Run) -> None:
    """While a writer appends, readers without a lock see valid, complete JSON that never becomes shorter."""
    reads = 10_000 if run.full else 300
    with Forks(run.scratch / "errors") as forks:
        for number in range(-(-reads // READS_OF_A_HISTORY)):
            # The last one has the largest size at which a history is still replaced.
            large = run.full and (number + 1) * READS_OF_A_HISTORY >= reads
            filled = REPLACE_BELOW - 600_000 if large else 0
            job = _history(run.scratch / f"jobs{number}", filled)
            with _writer(forks, job, 700, REPLACE_BELOW - 5_000):
                _read(run, job, min(READS_OF_A_HISTORY, reads - run.count))
        if run.full:
            run.notes.append(_above(run, forks))


def _read(run: Run, job: JobDir, times: int) -> None:
    seen = done = 0
    # On a busy machine all reads may end before the writer begins: continue until it has begun.
    deadline = time.monotonic() + 60.0
    while done < times or (seen <= 1 and time.monotonic() < deadline):
        done += 1
        length, problems = _seen(job, seen)
        run.check(problems, f"read {run.count}")
        seen = max(seen, length)
    if seen <= 1:
        run.failures.append("no process wrote during the reads")


def _seen(job: JobDir, before: int) -> tuple[int, list[str]]:
    """Return the number of entries that a reader sees, as jq would, and the problems."""
    try:
        revision = json.loads(job.state_file.read_bytes())["revision"]
        entries = json.loads(job.history_file.read_bytes())["interactions"]
    except ValueError as error:
        return before, [f"not valid JSON: {error}"]
    in_order = [entry["sequence"] for entry in entries] == list(range(1, len(entries) + 1))
    problems = [] if in_order else ["the sequence has gaps"]
    problems += [f"{len(entries)} entries after {before}"] if len(entries) < before else []
    problems += ["the state is ahead of the history"] if revision > len(entries) else []
    return len(entries), problems


def _above(run: Run, forks: Forks) -> str:
    """How often a reader sees an unfinished append when the file is large enough to be written in place."""
    job, reads, bad = _history(run.scratch / "large", REPLACE_BELOW + 100_000), 200, 0
    with _writer(forks, job, 700, 10**9):
        for _ in range(reads):
            try:
                json.loads(job.history_file.read_bytes())
            except ValueError:
                bad += 1
    return f"above {REPLACE_BELOW // 1_000_000} MB, written in place: {bad} of {reads} reads not valid"


def _history(jobs: Path, filled: int) -> JobDir:
    """A job of entries without meaning, with a history of at least `filled` bytes."""
    with JobDir.create_job(jobs, JOB) as job:
        pass
    with job.hold_lock(command="fill", since=""):
        append_one(job, {"text": "x" * filled})
    return job


@contextmanager
def _writer(forks: Forks, job: JobDir, size: int, most: int) -> Iterator[None]:
    """A process that appends without pause, until the history has `most` bytes."""
    pid = forks.call("crowd_steppers:append_for_ever", str(job.path.parent), size, most)
    try:
        yield
    finally:
        code = forks.kill(pid)
    assert code in (0, -signal.SIGKILL), f"the writer ended with {code}"


def slow_readers(run: Run) -> None:
    """A reader in the middle of a large history continues correctly while others append in place."""
    for appended in range(1, 6):
        job = _history(run.scratch / f"jobs{appended}", 200)
        append_one(job, {"text": "the second"})
        reader = job.read_entries()
        seen = [next(reader)["sequence"]]
        for _ in range(appended):
            append_one(job, {"text": "x" * 300}, replace_below=0)
        try:
            seen += [entry["sequence"] for entry in reader]
        except Damaged as error:
            run.check([f"it is called damaged: {error}"], f"{appended} appends")
            continue
        whole = seen == list(range(1, len(seen) + 1)) and len(seen) >= 2
        run.check([] if whole else [f"read: {seen}"], f"{appended} appends")


class Gated(Loopback):
    """A model that charges at once, and answers when the test allows it."""

    def __init__(self, *steps: Json) -> None:
        super().__init__(*steps)
        self.gate = threading.Event()

    def __enter__(self) -> Gated:
        super().__enter__()
        return self

    def take(self, received: Received) -> Json:
        step = super().take(received)
        self.gate.wait(HUNG)
        return step


def waiters(run: Run) -> None:
    """One paid step and many more steppers: one charge, whether the first stepper lives or is killed."""
    ways: tuple[tuple[str, Callable[[Run, World, Gated], list[str]]], ...] = (
        ("the stepper lives", _refused),
        ("the stepper was killed", _orphaned),
        ("the stepper is killed while they wait", _orphaned_meanwhile),
    )
    for name, way in ways if run.full else ways[2:]:
        world = World.made(run.scratch / f"world-{name.split()[-1]}-{run.count}")
        with Gated({"text": command(), "usage": {"input": 10, "output": 10}}) as server:
            world.paid_by(server.url).create()
            try:
                problems = way(run, world, server)
            finally:
                server.gate.set()
        run.check(problems + _paid_once(world, server), name)
    run.count *= _crowd(run)


def _crowd(run: Run) -> int:
    return 64 if run.full else 6


def _refused(run: Run, world: World, server: Gated) -> list[str]:
    stepper = world.started("job", "step", JOB)
    server.wait_for(1)
    crowd = [world.started("job", "step", JOB) for _ in range(_crowd(run))]
    codes = {process.wait(HUNG) for process in crowd}
    server.gate.set()
    problems = [] if codes == {8} else [f"while the stepper lives the others end with {codes}, not 8"]
    return problems + ([] if stepper.wait(HUNG) == 0 else ["the stepper failed"])


def _orphaned(run: Run, world: World, server: Gated) -> list[str]:
    _kill(world.started("job", "step", JOB), server)
    return _all_wait(run, world, server, ())


def _orphaned_meanwhile(run: Run, world: World, server: Gated) -> list[str]:
    stepper = world.started("job", "step", JOB)
    server.wait_for(1)
    return _all_wait(run, world, server, ("--wait", "300"), lambda: _kill(stepper, server))


def _kill(stepper: subprocess.Popen[bytes], server: Gated) -> None:
    server.wait_for(1)
    stepper.kill()
    stepper.wait()


def _all_wait(
    run: Run, world: World, server: Gated, more: Sequence[str], meanwhile: Callable[[], None] | None = None
) -> list[str]:
    with ExitStack() as opened:
        said = [opened.enter_context((run.scratch / f"said{n}").open("w+b")) for n in range(_crowd(run))]
        crowd = [world.started("job", "step", JOB, *more, stderr=out) for out in said]
        if meanwhile:
            _until(lambda: all(b"waiting for" in _text(out) for out in said))
            meanwhile()
        _until(lambda: all(b"waiting for an agent" in _text(out) for out in said))
        server.gate.set()
        codes = {process.wait(HUNG) for process in crowd}
    return [] if codes == {0} else [f"the waiters end with {codes}, not 0"]


def _text(file: Any) -> bytes:
    return Path(file.name).read_bytes()


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + HUNG
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.1)


def _paid_once(world: World, server: Gated) -> list[str]:
    kinds = [entry["kind"] for entry in world.history()]
    problems = broken(world)
    problems += [] if len(server.requests) == 1 else [f"{len(server.requests)} charges"]
    problems += [] if kinds == ["create", "ask"] else [f"recorded: {kinds}"]
    problems += (
        ["something is in flight still"] if world.job.find_lock_holder() or world.job.read_exchanges() else []
    )
    return problems


def budget(run: Run) -> None:
    """Many processes spend one budget while some are killed: it is never exceeded, and nothing acknowledged is lost."""
    processes, rounds = (64, 1000) if run.full else (24, 3)
    chance, totals = run.random("budget"), list[int]()
    with Forks(run.scratch / "errors") as forks:
        for number in range(rounds):
            place = run.scratch / "round"
            total, problems = play_round(place, forks, chance, processes)
            run.check(problems, f"round {number + 1}")
            totals.append(total)
            shutil.rmtree(place)
            if number % 50 == 49:
                run.say(f"  {number + 1} of {rounds} rounds")
    run.notes.append(f"{processes} processes, {min(totals)} to {max(totals)} of {CAP} used")


def workers(run: Run) -> None:
    """A job works on other machines while those, their couriers and the dispatcher are killed or stopped: nothing is paid twice."""
    rounds, chance, ends = 200 if run.full else 3, run.random("workers"), Counter[str]()
    with Forks(run.scratch / "errors") as forks:
        for number in range(rounds):
            place = run.scratch / "round"
            end, problems = crowd_workers.play_round(place, forks, chance)
            run.check(problems, f"round {number + 1}")
            ends[end] += 1
            shutil.rmtree(place)
            if number % 20 == 19:
                run.say(f"  {number + 1} of {rounds} rounds")
    run.notes.append(", ".join(f"{count} {end}" for end, count in sorted(ends.items())))


def shared_budget(run: Run) -> None:
    """Many jobs on 8 workers have one budget: it is never exceeded, and every paid call is recorded and booked."""
    jobs, calls = (1000, 900) if run.full else (12, 9)
    with Forks(run.scratch / "errors") as forks:
        count, problems = crowd_workers.play_budget(run.scratch / "project", forks, jobs, calls)
    run.check(problems, f"{jobs} jobs")
    run.count = jobs
    run.notes.append(f"{count} of {calls} calls")


CASES = (
    Case("winners", "revisions", 1000, winners),
    Case("storm", "kills", 500, storm),
    Case("readers", "reads", 10_000, readers),
    Case("slow-readers", "reads", 5, slow_readers),
    Case("waiters", "waiting steppers", 192, waiters),
    Case("budget", "rounds", 1000, budget),
    Case("workers", "rounds", 200, workers),
    Case("shared-budget", "jobs", 1000, shared_budget),
)
