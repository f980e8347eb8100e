"""Kills a paid step of a model with tools: each turn must be paid once, and carried out once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.loopback import Loopback, Received
from tests.torture import kill_judging, kill_paid, pay_tools, tool_model
from tests.torture import kill_subjects as subjects
from tests.torture.kill_paid import Blow, Paid
from tests.torture.kill_pool import Tried
from tests.torture.kill_subjects import AGAIN
from tests.torture.lab import JOB, Json, World, broken, lost
from tests.torture.tool_model import Plan, Working, counts, creates, edits
from tests.torture.tracer import Action, Call

PLAN: Plan = [[creates("made"), edits("made")], [counts("a1")]]
GIVING_UP = ("job", "suspend", JOB)
MOST_COMMANDS = 6
"""The number of commands after which a job must be settled."""


def settled_calls(paid: Paid, place: Path) -> list[Call]:
    """Return the calls of such a step, including those of the courier and of a command's sandbox."""
    _undisturbed(paid, place)  # Python's caches
    return _undisturbed(paid, place)


def _undisturbed(paid: Paid, place: Path) -> list[Call]:
    with Working(PLAN) as server:
        world = kill_paid.at_home(paid, place, server)
        ran = subjects.traced(world, AGAIN)
        problems = [*_rested(world, server)]
    shutil.rmtree(place)
    assert ran.code == 0, ran
    assert problems == []
    return ran.calls


def struck(paid: Paid, place: Path, blow: Blow) -> Tried:
    """Kill the step, then the next commands while there are kills left; then finish without kills."""
    reached, where, doubt = True, "", False
    with Working(PLAN) as server:
        world = kill_paid.at_home(paid, place, server)
        for act in blow.acts:
            if len(world.history()) > len(paid.before):
                break
            ran = subjects.traced(world, AGAIN, act)
            reached = len(ran.calls) > act.n
            where = f"{where} {act.whom} at {ran.calls[act.n]}" if reached else where
            doubt = _is_in_doubt(world)
            problems = [*kill_judging.crashed(ran), *broken(world), *lost(world, paid.before)]
            if doubt and act.whom == "first":
                problems.append("a stepper's death is no reason for a doubt")
            if problems:
                return Tried(problems, where)
        new = [entry["kind"] for entry in world.history()[len(paid.before) :]]
        return Tried([*_rested(world, server, doubt or "recover" in new)], where, reached)


class HalfDone(NamedTuple):
    """The world after a courier died between two turns, and the requests that its model had received."""

    base: World
    asked: list[Received]
    before: list[Json]


def half_done(place: Path) -> HalfDone:
    """All tools of the plan were used, and the model did not get the last results."""
    killing = pay_tools.killing_python(place.with_name("killing"))
    paid = kill_paid.prepared(place, killing)
    with Working(PLAN) as server:
        order = pay_tools.Point(f"{len(PLAN)}.tools", 3, after=True)
        (place / "kill_at").write_text(json.dumps(order._asdict()), "utf-8")
        process = paid.base.paid_by(server.url).started(*AGAIN)
        assert process.wait() == 6
    assert len(server.requests) == len(PLAN)
    return HalfDone(paid.base, server.requests, paid.before)


def given_up_calls(half: HalfDone, place: Path) -> list[Call]:
    """Return the calls of a command that gives up a half-finished ask."""
    ran = subjects.traced(half.base.copied(place), GIVING_UP)
    shutil.rmtree(place)
    assert ran.code in (0, 4), ran
    return ran.calls


def _at_another_address(world: World, url: str) -> None:
    """The command that continues calls the model of the earlier requests, which belongs to another copy of
    the world.
    """
    path = world.folder / "inflight" / "1.request"
    asked = json.loads(path.read_bytes())
    asked["model"]["endpoint"] = url
    path.write_text(json.dumps(asked), "utf-8")


def struck_giving_up(half: HalfDone, place: Path, act: Action) -> Tried:
    """Kill a command that gives up the agent's work; check that the command that continues it finds what was
    done.
    """
    with Working(PLAN) as server:
        world = half.base.copied(place).paid_by(server.url)
        _at_another_address(world, server.url)
        ran = subjects.traced(world, GIVING_UP, act)
        reached = len(ran.calls) > act.n
        where = f"{act.whom} at {ran.calls[act.n]}" if reached else ""
        problems = [*kill_judging.crashed(ran), *broken(world), *lost(world, half.before)]
        for _ in range(MOST_COMMANDS):
            if world.history()[-1]["kind"] == "ask":
                break
            world.run("job", "resume", JOB)
            again = subjects.traced(world, AGAIN)
            problems += [] if again.code in (0, 4) else [f"job step: {again.code}: {again.err.decode()}"]
        problems += tool_model.problems_of(world, [*half.asked, *server.requests], PLAN)
        return Tried([*problems, *subjects.leftovers(world)], where, reached)


def _is_in_doubt(world: World) -> bool:
    """Whether the last request was sent and no answer is on disk, when no process is running."""
    exchanges = world.job.read_exchanges()
    return bool(exchanges) and exchanges[-1].sent and exchanges[-1].response is None


def _rested(world: World, server: Loopback, doubt: bool = False) -> Iterator[str]:
    """Step until the answer is recorded or a steward has resolved the doubt; return the problems."""
    kinds: list[str] = []
    for _ in range(MOST_COMMANDS):
        kinds = [entry["kind"] for entry in world.history()]
        if kinds[-1] == "ask":
            break
        if kinds[-1] == "recover":
            ran = world.run("job", "resubmit", JOB, "--assume-paid")
            yield from [] if ran.code == 0 else [f"job resubmit ends with {ran.code}: {ran.err}"]
        again = subjects.traced(world, AGAIN)
        yield from [] if again.code in (0, 3) else [f"job step ends with {again.code}: {again.err.decode()}"]
    if kinds.count("recover") != doubt:
        yield f"{kinds.count('recover')} doubts, not {int(doubt)}"
    yield from tool_model.problems_of(world, server.requests, PLAN, settled=False)
    yield from broken(world)
    ran = world.run("job", "suspend", JOB)  # a command that writes once more, without a call to a model
    yield from [] if ran.code in (0, 4) else [f"job suspend ends with {ran.code}: {ran.err}"]
    yield from tool_model.in_flight(world)
    yield from subjects.checkpoints_missing(world)
    yield from subjects.leftovers(world)
