"""Flips every bit of a history and of a state, truncates them at every byte, and runs the check of `job
verify`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from logist.errors import Damaged
from logist.jobs.base import job_reader
from logist.jobs.base.project import ProjectContext
from logist.jobs.step_job import do_step
from logist.jobs.steward import job_edits
from logist.jobs.turn.next_request import Choice
from tests.torture.crowd_forks import Forks
from tests.torture.crowd_steppers import LIMITS
from tests.torture.lab import JOB, World, command
from tests.torture.suite import Case, Run

PROSE = 'Zeile — ünïcode, 😀, \u2028 and "quotes" \\ and \t tabs: '
ANSWERS = [command("RETRY", f"Once more. {PROSE}", evidence_files=[]) + "\n" + PROSE * 40] * 20
IN_PARALLEL = 2
PIECE = 4096
"""Bytes of a file that one process changes before it reports."""


class Change(NamedTuple):
    """One flipped bit; with `bit` None, everything from `byte` on is removed."""

    byte: int
    bit: int | None


def few_long_entries(place: Path) -> World:
    """A job of a few real steps with long answers: a history of some 30 kB."""
    world = World.made(place, ANSWERS, LIMITS).create()
    while world.job.history_file.stat().st_size < 30_000:
        do_step(world.project(), JOB, Choice())
    return world


def many_entries(place: Path, entries: int) -> World:
    """A job with this many interactions, most of them short."""
    world = World.made(place, ANSWERS, LIMITS).create()
    project = world.project()
    for number in range(2, entries + 1):
        if number % 50:
            job_edits.set_rank(project, JOB, number)
        else:
            do_step(project, JOB, Choice())
    return world


def unnoticed(world: World, name: str, changes: Iterable[Change]) -> list[str]:
    """Return the changes to the job's file `name` that are not noticed; the file is restored."""
    project, path = world.project(), world.folder / name
    data = path.read_bytes()
    assert not problems(project, world)
    missed = []
    for change in changes:
        with path.open("r+b", buffering=0) as file:
            _make(file.fileno(), data, change)
        if not problems(project, world):
            missed.append(f"{name}: byte {change.byte}, bit {change.bit}: {data[change.byte :][:20]!r}")
        with path.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), data[change.byte :], change.byte)
    assert not problems(project, world)
    return missed


def _make(file: int, data: bytes, change: Change) -> None:
    if change.bit is None:
        os.ftruncate(file, change.byte)
    else:
        os.pwrite(file, bytes([data[change.byte] ^ 1 << change.bit]), change.byte)


def problems(project: ProjectContext, world: World) -> list[str]:
    """Return what `job verify` finds, by calling its function."""
    try:
        return [problem.message for problem in job_reader.verify_job(project, world.job).problems]
    except Damaged as error:
        return [error.message]


def share(place: str, name: str, first: int, last: int, out: str) -> int:
    """Make all changes to some bytes of a file, in a separate process; return 0."""
    missed = unnoticed(World(Path(place)), name, _all(range(first, last)))
    Path(out).write_text(json.dumps(missed), "utf-8")
    return 0


def _all(where: Iterable[int]) -> list[Change]:
    return [Change(byte, bit) for byte in where for bit in (*range(8), None)]


def _exhaustive(run: Run, world: World, name: str) -> None:
    """Every change to every byte, by two processes; each has a copy of the world."""
    # This check doesn't need it, and reading it would take most of the time.
    (world.folder / "job.yaml").unlink()
    size = (world.folder / name).stat().st_size
    copies = [world.copied(run.scratch / f"copy{number}") for number in range(IN_PARALLEL)]
    pieces = range(0, size, PIECE)
    with Forks(run.scratch / "errors") as forks:
        for start in range(0, len(pieces), IN_PARALLEL):
            some = list(zip(copies, pieces[start : start + IN_PARALLEL], strict=False))
            outs = [copy.place / f"{name}-{first}" for copy, first in some]
            pids = [
                forks.call(
                    "part_flip:share", str(copy.place), name, first, min(first + PIECE, size), str(out)
                )
                for (copy, first), out in zip(some, outs, strict=True)
            ]
            assert [forks.wait(pid) for pid in pids] == [0] * len(pids)
            for out in outs:
                run.failures += json.loads(out.read_text("utf-8"))
            run.say(f"  {name}: {min(some[-1][1] + PIECE, size):,} of {size:,} bytes")
    run.count += 9 * size
    run.notes.append(f"{size:,} bytes")


def _sampled(run: Run, world: World, name: str, count: int) -> None:
    size, chance = (world.folder / name).stat().st_size, run.random(name)
    picked = [Change(chance.randrange(size), chance.choice([*range(8), None])) for _ in range(count)]
    picked += [Change(size - 1, bit) for bit in (0, None)]
    run.failures += unnoticed(world, name, picked)
    run.count += len(picked)


def history(run: Run) -> None:
    """The history of a few real steps, with long answers."""
    world = few_long_entries(run.scratch / "world")
    if run.full:
        _exhaustive(run, world, "jobHistory.json")
    else:
        _sampled(run, world, "jobHistory.json", 300)


def state(run: Run) -> None:
    """The state.json of that job."""
    world = few_long_entries(run.scratch / "world")
    if run.full:
        _exhaustive(run, world, "state.json")
    else:
        _sampled(run, world, "state.json", 300)


def long_history(run: Run) -> None:
    """A history of several hundred interactions, at a sample of places."""
    world = many_entries(run.scratch / "world", 400 if run.full else 60)
    _sampled(run, world, "jobHistory.json", 3000 if run.full else 40)
    run.notes.append(f"{world.job.history_file.stat().st_size:,} bytes")


def the_command(run: Run) -> None:
    """The command `job verify` ends with 10 and names the file, at a sample of places."""
    world = few_long_entries(run.scratch / "world")
    for name in ("jobHistory.json", "state.json"):
        path = world.folder / name
        data, chance = path.read_bytes(), run.random(name)
        for _ in range(100 if run.full else 5):
            change = Change(chance.randrange(len(data)), chance.choice([*range(8), None]))
            with path.open("r+b", buffering=0) as file:
                _make(file.fileno(), data, change)
            ran = world.run("job", "verify", JOB)
            run.check([] if ran.code == 10 else [f"ends with {ran.code}: {ran.out}"], f"{name}: {change}")
            path.write_bytes(data)
    ran = world.run("job", "verify", JOB)
    run.check([] if ran.code == 0 else [f"ends with {ran.code}: {ran.err}"], "unchanged")


CASES = (
    Case("history", "changes", 270_000, history),
    Case("state", "changes", 10_000, state),
    Case("long-history", "changes", 3_000, long_history),
    Case("command", "changes", 200, the_command),
)
