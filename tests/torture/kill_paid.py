"""A paid step that is killed: one charge and one interaction, or a reported doubt that is never paid again."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from logist.agents.protocol import MODEL
from tests.loopback import Loopback
from tests.torture import kill_judging
from tests.torture import kill_subjects as subjects
from tests.torture.kill_pool import Tried
from tests.torture.kill_subjects import AGAIN
from tests.torture.lab import JOB, Json, World, broken, lost, paid_server
from tests.torture.tracer import Action, Call, Trace

SERVED = "REVIEW_REQUIRED"

Outcomes = frozenset[str]
"""The kinds of interaction of which one may be recorded: the answer, or the doubt."""
ANSWERED: Outcomes = frozenset({"ask"})
EITHER: Outcomes = frozenset({"ask", "recover"})


class Paid(NamedTuple):
    """The world before a paid step, and what is recorded before it."""

    base: World
    before: list[Json]
    agent: str = MODEL
    """The client that calls the model."""


class Blow(NamedTuple):
    """Kills for one command after the other; the commands are `job step`."""

    acts: tuple[Action, ...]


def prepared(place: Path, python: str = sys.executable) -> Paid:
    """The world before a paid step in which a worker changes files."""
    world = World.made(place, ["never used"])
    (place / "tmp").mkdir()
    world.python = python
    subjects.doer_first(world)
    (place / "answers.json").unlink()
    return Paid(world, world.history())


def settled_calls(paid: Paid, place: Path) -> list[Call]:
    """Return the calls of a paid step, including the courier's, when all of Python's caches exist."""
    calls = _undisturbed(paid, place)
    caching = any("__pycache__" in path for call in calls for path in call.paths)
    return _undisturbed(paid, place) if caching else calls


def _undisturbed(paid: Paid, place: Path) -> list[Call]:
    with paid_server() as server:
        world = at_home(paid, place, server)
        ran = subjects.traced(world, AGAIN)
        problems = [*_settled(paid, world, server, ANSWERED)]
    shutil.rmtree(place)
    assert ran.code == 0, ran
    assert problems == []
    return ran.calls


def struck(paid: Paid, place: Path, blow: Blow) -> Tried:
    """Kill a paid step, then the next commands while there are kills left; then finish without kills."""
    reached, outcomes, where = True, ANSWERED, ""
    with paid_server() as server:
        world = at_home(paid, place, server)
        for act in blow.acts:
            if len(world.history()) > len(paid.before):
                break
            ran = subjects.traced(world, AGAIN, act)
            reached = len(ran.calls) > act.n
            where = f"{where} {act.whom} at {ran.calls[act.n]}" if reached else where
            outcomes = _outcomes(act, ran, outcomes) if reached else outcomes
            problems = [*kill_judging.crashed(ran), *at_once(paid, world, outcomes)]
            if problems:
                return Tried(problems, where)
        return Tried([*finished(paid, world, server, outcomes)], where, reached)


def at_home(paid: Paid, place: Path, server: Loopback) -> World:
    """A copy of the world before, with this model."""
    return paid.base.copied(place).paid_by(server.url, paid.agent)


def _outcomes(act: Action, ran: Trace, before: Outcomes) -> Outcomes:
    """Check the doubts: only if the courier died, and always if it had recorded the send and had no answer.

    The death of a stepper is not a reason for a doubt.
    """
    courier_died = act.whom != "first" and (act.whom == "all" or ran.calls[act.n].process > 0)
    if not courier_died or not _calls_of(ran, "/1.sent"):
        return before
    answered = any(call.result == 0 for call in _calls_of(ran, "/1.response"))
    sent = any(call.result is not None for call in _calls_of(ran, "/1.sent"))
    return frozenset({"recover"}) if sent and not answered else EITHER


def _calls_of(ran: Trace, name: str) -> list[Call]:
    return [call for call in ran.calls if call.paths and call.paths[-1].endswith(name)]


def at_once(paid: Paid, world: World, outcomes: Outcomes) -> Iterator[str]:
    """Check that nothing is lost, and that at most one outcome is recorded, of an allowed kind."""
    yield from broken(world)
    yield from lost(world, paid.before)
    yield from wrongly_recorded(_new(paid, world), outcomes)


def wrongly_recorded(kinds: Sequence[str], outcomes: Outcomes) -> Iterator[str]:
    """Check for at most one outcome, of an allowed kind."""
    if len(kinds) > 1 or not outcomes.issuperset(kinds):
        yield f"the history has {[*kinds]} more, and may have one of {sorted(outcomes)}"


def _new(paid: Paid, world: World) -> list[str]:
    return [entry["kind"] for entry in world.history()[len(paid.before) :]]


def finished(paid: Paid, world: World, server: Loopback, outcomes: Outcomes) -> Iterator[str]:
    """Check that the next step records the existing answer without waiting; only then the model is called
    again.
    """
    if not _new(paid, world):
        ran = subjects.traced(world, AGAIN)
        if ran.code not in (0, 3):
            yield f"the next step ends with {ran.code}: {ran.err.decode()}"
            return
    yield from _settled(paid, world, server, outcomes)


def _settled(paid: Paid, world: World, server: Loopback, outcomes: Outcomes) -> Iterator[str]:
    """Check for one charge and one interaction; or a doubt, which a steward resolves and which may cost one
    more call.
    """
    kinds, charges = _new(paid, world), len(server.requests)
    yield from wrongly_recorded(kinds, outcomes)
    if kinds == ["ask"] and charges != 1:
        yield f"{charges} charges for one interaction"
    if kinds == ["recover"]:
        yield from _resolved(world, server, charges)
    status = world.history()[-1]["state_after"]  # state.json may be behind
    if status != SERVED:
        yield f"the job is {status} in the end"
    yield from broken(world)
    # A command that writes once more, without a call to a model.
    ran = world.run("job", "suspend", JOB)
    if ran.code not in (0, 4):
        yield f"job suspend ends with {ran.code}: {ran.err}"
    yield from subjects.checkpoints_missing(world)
    yield from subjects.leftovers(world)


def _resolved(world: World, server: Loopback, charges: int) -> Iterator[str]:
    status = world.history()[-1]["state_after"]
    if status != "STUCK":
        yield f"in doubt, the job is {status}"
    if charges > 1:
        yield f"{charges} charges before anybody was asked about the doubt"
    ran = world.run("job", "resubmit", JOB, "--assume-paid")
    again = subjects.traced(world, AGAIN)
    if (ran.code, again.code) != (0, 0):
        yield f"after the doubt: {ran.err} {again.err.decode()}"
    if len(server.requests) != charges + 1:
        yield f"{len(server.requests)} charges after the doubt was resolved, {charges} before"
