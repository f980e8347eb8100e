"""Examines recordings state by state; a full run uses several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from tests.torture import mutants, scenarios
from tests.torture.filesystem import Tree
from tests.torture.judging import Judge, unsynced
from tests.torture.lab import JOB, World
from tests.torture.recording import Promise, Recorder, Recording, points
from tests.torture.shelf import Shelf, digest
from tests.torture.suite import Run

Given = TypeVar("Given")
Made = TypeVar("Made")

WORKERS = 2
SHOWN = 20
PER_KIND = 4
"""Number of states of each kind to keep, for recoveries that are cut at every call."""
STEP_EVERY, COMMANDS_EVERY = 60, 900
"""After this many states, run a complete step, or all reading commands."""


class Plan(NamedTuple):
    """How thoroughly a recording is examined."""

    seed: str
    most: int
    """Random states at each call, in addition to the plain ones."""
    pick: int | None = None
    """Maximum states at each call."""
    until_caught: bool = False
    part: int = 0
    parts: int = 1
    """Which piece of the recording, and the number of pieces."""


@dataclass
class Found:
    """The result for one recording, or for a piece of one."""

    name: str
    states: set[bytes] = field(default_factory=set)
    checked: int = 0
    bad: int = 0
    failures: list[str] = field(default_factory=list)
    """The first ones."""
    samples: dict[str, list[tuple[Tree, Promise]]] = field(default_factory=dict)
    """A few states of each kind, for later recoveries."""


def examine(recording: Recording, place: Path, plan: Plan) -> Found:
    """Checks each state that a power cut may leave, once for each promise."""
    found = Found(recording.name)
    judge = Judge(place, may_refuse=bool(recording.stale))
    scripted = "answers.json" in recording.base
    with unsynced(), mutants.applied(recording.variants):
        for where, tree, promise in _different(recording, plan):
            found.states.add(digest(tree))
            step = scripted and found.checked % STEP_EVERY == 1
            commands = found.checked % COMMANDS_EVERY == COMMANDS_EVERY // 2
            problems = judge.problems(tree, promise, step=step, commands=commands)
            found.checked += 1
            found.bad += bool(problems)
            found.failures += [f"{where}: {each}" for each in problems][: SHOWN - len(found.failures)]
            if not problems and len(found.samples.get(judge.kind, ())) < PER_KIND:
                found.samples.setdefault(judge.kind, []).append((dict(tree), promise))
            if problems and plan.until_caught:
                break
    return found


def _different(recording: Recording, plan: Plan) -> Iterator[tuple[str, Tree, Promise]]:
    """Yield new states, with what is promised in them."""
    size = -(-len(recording) // plan.parts)
    seen: set[tuple[bytes, Promise]] = set()
    before: Promise | None = None
    for number, (where, disk, promise) in enumerate(points(recording)):
        if number // size != plan.part:
            continue
        chance = Random(f"{plan.seed} {number}")
        # If more is promised than before, the old states must keep that too.
        trees: Iterable[Tree] = disk.states(chance, plan.most, anew=promise != before)
        before = promise
        if plan.pick is not None:
            every = list(trees)
            trees = chance.sample(every, min(plan.pick, len(every)))
        for tree in trees:
            key = (digest(tree), promise)
            if key not in seen:
                seen.add(key)
                yield where, tree, promise


def recover(sample: tuple[Tree, Promise], place: Path, variants: Sequence[str]) -> Recording:
    """The next command after a power cut, recorded on the disk that it left."""
    tree, promise = sample
    Shelf(place).put(tree)
    recorder = Recorder("recovery", World(place), variants, promise)
    if f".logist/jobs/{JOB}" in tree:
        recorder.run(*scenarios.SUSPEND)
    else:
        recorder.run(*scenarios.CREATE, "Do it.", "--no-repo")
    return recorder.recording


def spread(run: Run, function: Callable[[Given], Made], given: Sequence[Given]) -> Iterator[Made]:
    """`map`, in a few processes in a full run."""
    if not run.full:
        yield from map(function, given)
        return
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("fork")) as pool:
        yield from pool.map(function, given)
