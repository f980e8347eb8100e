"""Steps on a file system that is full, then has a little space, then has enough space again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.torture.disk_mounts import Filler
from tests.torture.kill_judging import crashed
from tests.torture.kill_subjects import AGAIN, checkpoints_missing, traced
from tests.torture.lab import JOB, Json, World, broken, command, lost
from tests.torture.suite import Run
from tests.torture.tracer import Trace

_ENDED_WELL = 0
_ROOM = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
"""Free blocks when a step begins; with the largest number, the step succeeds."""


def world_on(place: Path) -> World:
    """A job whose worker tries again and again, and writes something each time."""
    world = World.made(place / "world")
    (world.place / "tmp").mkdir()
    answers = [
        {"text": command("RETRY", "Once more."), "files": {f"f{n % 5}.txt": f"{n}\n" * 200}}
        for n in range(400)
    ]
    (world.place / "answers.json").write_text(json.dumps({"answers": answers}), "utf-8")
    limits = ("--max-attempts", "1000", "--max-allowed-iterations", "1000")
    return world.create(*limits)


def starve(run: Run, world: World, failures: int) -> None:
    """Step with too little space until this many commands have failed; check each one, and the command after
    it.
    """
    filler, chance = Filler(world.place / "filler"), run.random("room")
    failed = rounds = 0
    while failed < failures and rounds < 4 * failures:
        rounds += 1
        room = chance.choice(_ROOM if run.full else _ROOM[:2])
        failed += _one(run, world, filler, room)
    run.notes.append(f"{failed} of {rounds} commands failed for want of room")
    if failed < failures:
        run.failures.append(f"only {failed} commands of {rounds} failed: the disk was not full")
    run.count = failed


def _one(run: Run, world: World, filler: Filler, room: int) -> bool:
    filler.fill()
    filler.give_back(room)
    before = world.history()
    ran = traced(world, AGAIN)
    problems = [*_judged(world, before, ran)]
    filler.remove()
    problems = problems or [*_free_again(world)]
    run.check(problems, f"command {run.count}, {room} blocks free")
    return ran.code != _ENDED_WELL


def _judged(world: World, before: list[Json], ran: Trace) -> Iterator[str]:
    said = ran.err.decode("utf-8", "replace")
    yield from crashed(ran)
    yield from broken(world)
    yield from lost(world, before)
    more = len(world.history()) - len(before)
    if more not in (0, 1) or (ran.code == _ENDED_WELL and more != 1):
        yield f"it ends with {ran.code}, and {more} interactions are recorded"
    if ran.code != _ENDED_WELL and more == 0 and (str(world.place) not in said or "(" not in said):
        yield f"it ends with {ran.code} and names no path, or nothing to do: {said}"


def _free_again(world: World) -> Iterator[str]:
    ran = world.run("job", "step", JOB)
    if ran.code != _ENDED_WELL:
        yield f"with room again, a step ends with {ran.code}: {ran.err}"
    yield from broken(world)
    yield from checkpoints_missing(world)
