"""A paid step that is killed: one charge, one interaction, or a doubt that is told and never paid again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.loopback import Loopback
from tests.torture import kill_judging
from tests.torture import kill_subjects as subjects
from tests.torture.kill_pool import Tried
from tests.torture.kill_subjects import AGAIN
from tests.torture.lab import JOB, Json, World, broken, lost, paid_server, quick_python
from tests.torture.tracer import Action, Call, Trace

SERVED = "REVIEW_REQUIRED"


class Paid(NamedTuple):
    """The world before a paid step, by whom it is made, and what is recorded before it."""

    base: World
    killed_python: str
    """The interpreter of the command that is killed."""
    before: list[Json]


class Blow(NamedTuple):
    """Kills, one command after the other; the commands are `job step`."""

    acts: tuple[Action, ...]


def real_python(place: Path) -> str:
    """An interpreter like `lab.quick_python`, but with litellm itself."""
    python = quick_python(place)
    for standin in place.glob("lib/python*/site-packages/litellm"):
        shutil.rmtree(standin)
    return python


def prepared(place: Path, python: str, killed_python: str = "") -> Paid:
    """The world before a worker is paid to change files."""
    world = World.made(place, ["never used"])
    (place / "tmp").mkdir()
    world.python = python
    subjects.doer_first(world)
    (place / "answers.json").unlink()
    return Paid(world, killed_python or python, world.history())


def undisturbed(paid: Paid, place: Path) -> list[Call]:
    """The calls of a paid step, the courier's among them."""
    with paid_server() as server:
        world = _world(paid, place, server)
        ran = subjects.traced(world, AGAIN)
        problems = [*_settled(paid, world, server, False)]
    shutil.rmtree(place)
    assert ran.code == 0, ran
    assert problems == []
    return ran.calls


def struck(paid: Paid, place: Path, blow: Blow) -> Tried:
    """Kills a paid step, and the commands after it as often as there are blows; then all is done in peace."""
    reached, doubtful, where = True, False, ""
    with paid_server() as server:
        world = _world(paid, place, server)
        world.python = paid.killed_python
        for act in blow.acts:
            if len(world.history()) > len(paid.before):
                break
            ran = subjects.traced(world, AGAIN, act)
            reached = len(ran.calls) > act.n
            where = f"{where} {act.whom} at {ran.calls[act.n]}" if reached else where
            doubtful = doubtful or _may_be_in_doubt(world, act, ran)
            problems = [*kill_judging.crashed(ran), *at_once(paid, world, doubtful)]
            if problems:
                return Tried(problems, where)
            world.python = paid.base.python
        return Tried([*finished(paid, world, server, doubtful)], where, reached)


def _world(paid: Paid, place: Path, server: Loopback) -> World:
    return paid.base.copied(place).paid_by(server.url)


def _may_be_in_doubt(world: World, act: Action, ran: Trace) -> bool:
    """Whether it was the courier that died after it had said it would send; a stepper's death is no reason."""
    if act.whom == "first" or len(ran.calls) <= act.n:
        return False
    courier_died = act.whom == "all" or ran.calls[act.n].process > 0
    sent = any(call.paths[:1] and call.paths[0].endswith("/1.sent") for call in ran.calls)
    return courier_died and sent


def at_once(paid: Paid, world: World, doubtful: bool) -> Iterator[str]:
    """Nothing is lost, and no more is recorded than one outcome; `doubtful`: it may be a doubt."""
    yield from broken(world)
    yield from lost(world, paid.before)
    yield from wrongly_recorded(_new(paid, world), doubtful)


def wrongly_recorded(kinds: Sequence[str], doubtful: bool) -> Iterator[str]:
    """One outcome at most; a doubt only where the courier may have been cut off."""
    allowed: list[list[str]] = [[], ["ask"], *([["recover"]] if doubtful else [])]
    if list(kinds) not in allowed:
        yield f"the history has {kinds} more"


def _new(paid: Paid, world: World) -> list[str]:
    return [entry["kind"] for entry in world.history()[len(paid.before) :]]


def finished(paid: Paid, world: World, server: Loopback, doubtful: bool) -> Iterator[str]:
    """The next step waits for nothing and records what there is; only then is anything asked again."""
    left = _left(world)
    if not _new(paid, world):
        ran = subjects.traced(world, AGAIN)
        if ran.code not in (0, 3):
            yield f"the next step ends with {ran.code}: {ran.err.decode()}"
            return
        if {"1.sent"} == left - {"1.request"} and _new(paid, world) != ["recover"]:
            yield f"sent without an answer, and {_new(paid, world)} is recorded"
    yield from _settled(paid, world, server, doubtful)


def _left(world: World) -> set[str]:
    folder = world.folder / "inflight"
    return {name for name in os.listdir(folder) if not name.startswith(".")} if folder.exists() else set()


def _settled(paid: Paid, world: World, server: Loopback, doubtful: bool) -> Iterator[str]:
    """One charge and one interaction; or a doubt, which a steward resolves and which may cost once more."""
    kinds, charges = _new(paid, world), len(server.requests)
    yield from wrongly_recorded(kinds, doubtful)
    if kinds == ["ask"] and charges != 1:
        yield f"{charges} charges for one interaction"
    if kinds == ["recover"]:
        yield from _resolved(world, server, charges)
    if world.state()["status"] != SERVED:
        yield f"the job is {world.state()['status']} in the end"
    yield from broken(world)
    # A command that writes once more, and asks nobody.
    ran = world.run("job", "suspend", JOB)
    if ran.code not in (0, 4):
        yield f"job suspend ends with {ran.code}: {ran.err}"
    yield from subjects.checkpoints_missing(world)
    yield from subjects.leftovers(world)


def _resolved(world: World, server: Loopback, charges: int) -> Iterator[str]:
    state = world.state()
    if state["status"] != "STUCK" or state["stuck"]["kind"] != "in_doubt":
        yield f"in doubt, the job is {state['status']} {state['stuck']}"
    if charges > 1:
        yield f"{charges} charges before anybody was asked about the doubt"
    ran = world.run("job", "resubmit", JOB, "--assume-paid")
    again = subjects.traced(world, AGAIN)
    if (ran.code, again.code) != (0, 0):
        yield f"after the doubt: {ran.err} {again.err.decode()}"
    if len(server.requests) != charges + 1:
        yield f"{len(server.requests)} charges after the doubt was resolved, {charges} before"
