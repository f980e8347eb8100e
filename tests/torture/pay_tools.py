"""Paid steps of a model with tools, with kills at any moment, and at every durable point."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.torture.lab import JOB, own_python
from tests.torture.pay_desk import Customer, Desk, Way, kill
from tests.torture.tool_model import Plan, Working, counts, creates, edits, planned, problems_of

STUCK, NEEDS_PROVIDER = 3, 6
MOST_COMMANDS = 12
"""The number of commands after which a job must be settled."""
LONG: Plan = [
    [creates("file0"), edits("file0")],
    [counts("a1", 0.01)],
    [{"name": "read_file", "args": {"path": "missing.txt"}}, counts("b2"), creates("file2")],
    [counts("a3")],
]
"""The plan of which every durable point is tried."""


class Point(NamedTuple):
    """A moment at which the courier kills itself: just before, or after, a file gets its name."""

    name: str
    time: int
    """How often the file was named before; `tools` are saved after each tool, and before one that changes
    something.
    """
    after: bool

    @property
    def doubt(self) -> bool:
        """Whether the request was sent, and its answer is not on disk."""
        return self.after if self.name.endswith("sent") else self.name.endswith("response") and not self.after


def killing_python(place: Path) -> str:
    """An interpreter whose couriers kill themselves at the configured point."""
    python, site = own_python(place)
    (site / "kill_at.py").write_text(
        Path(__file__).with_name("standin").joinpath("kill_at.py").read_text("utf-8"), "utf-8"
    )
    (site / "kill_at.pth").write_text("import kill_at\n", "utf-8")
    return python


def points() -> list[Point]:
    """All durable points of the long plan."""
    return [Point(name, time, after) for name, time in _names(LONG) for after in (False, True)]


def _names(plan: Plan) -> Iterator[tuple[str, int]]:
    for k in range(1, len(plan) + 2):
        if k > 1:  # the first is the stepper's
            yield f"{k}.request", 1
        yield f"{k}.sent", 1
        yield f"{k}.response", 1
        if k <= len(plan):
            saved = sum(1 if call["name"] == "read_file" else 2 for call in plan[k - 1])
            yield from ((f"{k}.tools", time) for time in range(1, saved + 2))


class ToolDesk(Desk):
    """A desk whose model works with tools."""

    def __init__(self, place: Path, python: str, usual: float | None) -> None:
        super().__init__(place, python, usual)
        self.model = Working(LONG)
        self.model.delay = 0.02
        self.server = self.model


def hire(customer: Customer, plan: Plan) -> None:
    """Give the model of this desk another plan."""
    assert isinstance(customer.desk, ToolDesk)
    customer.desk.model.plan = plan


def stepper_killed(customer: Customer, chance: random.Random) -> list[str]:
    """The stepper dies, its courier does not: nothing is in doubt."""
    plan = planned(chance)
    hire(customer, plan)
    stepper = customer.start()
    _moment(customer, stepper, chance)
    customer.desk.forks.kill(stepper)
    return _rested(customer, chance, plan, may_doubt=False)


def courier_killed(customer: Customer, chance: random.Random) -> list[str]:
    """The courier dies, in some runs the next one too, and in some the stepper with it."""
    plan = planned(chance)
    hire(customer, plan)
    for _ in range(chance.randint(1, 2)):
        stepper = customer.start()
        _moment(customer, stepper, chance)
        couriers = customer.couriers(stepper)
        if chance.random() < 0.3:
            customer.desk.forks.kill(stepper)
        kill(couriers)
        customer.desk.forks.wait(stepper, 300.0)
        if len(customer.world.history()) > 1:
            break
    return _rested(customer, chance, plan, may_doubt=True)


def _moment(customer: Customer, stepper: int, chance: random.Random) -> None:
    customer.desk.forks.wait(stepper, chance.random() * customer.desk.usual * 1.2)


def at_point(customer: Customer, chance: random.Random, point: Point) -> list[str]:
    """The courier dies at one durable point; alone, or after its stepper."""
    hire(customer, LONG)
    order = customer.world.place / "kill_at"
    order.write_text(json.dumps(point._asdict()), "utf-8")
    stepper = customer.start()
    if chance.random() < 0.3:
        while customer.charges == 0 and customer.desk.forks.wait(stepper, 0.002) is None:
            pass
        customer.desk.forks.kill(stepper)
    else:
        customer.desk.forks.wait(stepper, 300.0)
    while customer.world.job.find_lock_holder():
        time.sleep(0.005)
    problems = ["it was never reached"] if order.exists() else []
    return problems + _rested(customer, chance, LONG, may_doubt=point.doubt, doubts=1 if point.doubt else 0)


def _rested(
    customer: Customer, chance: random.Random, plan: Plan, *, may_doubt: bool, doubts: int | None = None
) -> list[str]:
    """Step until the answer is recorded or a steward has resolved the doubt; return the problems."""
    problems, found = [], 0
    for _ in range(MOST_COMMANDS):
        kinds = [entry["kind"] for entry in customer.world.history()]
        if kinds[-1] == "ask":
            break
        if kinds[-1] == "recover":
            found += 1
            way = chance.choice(("--retry", "--assume-paid"))
            forks = customer.desk.forks
            code = forks.wait(forks.logist(customer.world, "job", "resubmit", JOB, way), 300.0)
            problems += [] if code == 0 else [f"job resubmit ends with {code}"]
        code = customer.step()
        problems += [] if code in (0, STUCK, NEEDS_PROVIDER) else [f"job step ends with {code}"]
    problems += [] if may_doubt or not found else [f"{found} doubts without a reason"]
    problems += [] if doubts in (None, found) else [f"{found} doubts, not {doubts}"]
    requests = customer.desk.server.requests[customer.before :]
    return [*problems, *problems_of(customer.world, requests, plan)]


def one_by_one(chosen: Sequence[Point]) -> Way:
    """Return a way of killing that uses another point each time."""
    waiting = [*chosen]

    def way(customer: Customer, chance: random.Random) -> list[str]:
        point = waiting.pop()
        return [f"{point}: {problem}" for problem in at_point(customer, chance, point)]

    return way
