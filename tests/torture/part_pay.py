"""Paid steps with kills: the job records what the model charged, and nothing is paid twice without a report."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from tests.torture import pay_tools
from tests.torture.lab import standin_python
from tests.torture.pay_desk import Books, Customer, LitellmDesk, Way, at_moments, kill
from tests.torture.suite import Case, Run

STUCK, NEEDS_PROVIDER = 3, 6


def stepper_killed(customer: Customer, chance: random.Random) -> list[str]:
    """The stepper dies, its courier does not: every charge is an answer in the history, and the step is done
    once.
    """
    stepper = customer.start()
    customer.let_pass(stepper, chance)
    customer.desk.forks.kill(stepper)
    recorded = len(customer.world.history()) - 1
    code = customer.step()  # if the answer was recorded before, this is the next step, which is paid too
    books = customer.books()
    problems = books.problems + _equal(books)
    problems += [] if books.kinds == ["ask"] * (recorded + 1) else [f"recorded: {books.kinds}"]
    return problems + ([] if code in (0, 11) else [f"the next command ends with {code}"])


def courier_killed(customer: Customer, chance: random.Random) -> list[str]:
    """The courier dies: a request without an answer is in doubt, with its highest possible cost, and never
    sent again.
    """
    stepper = customer.start()
    customer.let_pass(stepper, chance)
    kill(customer.couriers(stepper))
    code = customer.desk.forks.wait(stepper, 300.0)
    books = customer.books()
    if not books.kinds:  # nothing had been sent
        problems = [] if code == NEEDS_PROVIDER else [f"nothing was sent, and the step ends with {code}"]
        code, books = customer.step(), customer.books()
        return problems + books.problems + _equal(books) + _ended(customer, books, code)
    return books.problems + _ended(customer, books, code)


def both_killed(customer: Customer, chance: random.Random) -> list[str]:
    """Stepper and courier die together, as when a machine is switched off."""
    stepper = customer.start()
    customer.let_pass(stepper, chance)
    couriers = customer.couriers(stepper)
    customer.desk.forks.kill(stepper)
    kill(couriers)
    recorded = len(customer.world.history()) - 1
    code, books = customer.step(), customer.books()
    problems = [] if len(books.kinds) == recorded + 1 else [f"recorded: {books.kinds}"]
    return problems + books.problems + _ended(customer, books, code)


def _equal(books: Books) -> list[str]:
    same = books.charges == books.recorded and "recover" not in books.kinds
    return [] if same else [f"{books.charges} charges, recorded: {books.kinds}"]


def _ended(customer: Customer, books: Books, code: int | None) -> list[str]:
    """Check what must be true after a command that recorded an answer or a doubt."""
    if "recover" not in books.kinds:
        return _equal(books) + ([] if code in (0, 11) else [f"an answer, and the command ends with {code}"])
    entry = customer.world.history()[-1]
    booked = [entry["usage"].get(name, 0) for name in ("cost_cents", "cost_microcents")]
    worst = [customer.desk.worst.cost_cents, customer.desk.worst.cost_microcents]
    problems = [] if code == STUCK else [f"in doubt, and the command ends with {code}"]
    problems += [] if entry["kind"] == "recover" else ["something was recorded after the doubt"]
    problems += [] if booked == worst else [f"in doubt it is booked at {booked}, not at {worst}"]
    problems += [] if books.charges <= books.recorded else [f"{books.charges} charges: {books.kinds}"]
    again = customer.step()
    problems += [] if again == STUCK else [f"in doubt, the next step ends with {again}"]
    after = customer.books()
    problems += ["it was sent again without a report"] if after.charges != books.charges else []
    return problems + (["the next step recorded something"] if after.kinds != books.kinds else [])


def _through(way: Way, full: int, slice_: int) -> Callable[[Run], None]:
    """A case that tries one way of killing at this many moments."""

    def case(run: Run) -> None:
        at_moments(run, sys.executable, full if run.full else slice_, way)

    return case


def litellm(run: Run) -> None:
    """The same with litellm: a stand-in that loads at once, then the real one, which takes seconds to load."""
    ways = (stepper_killed, courier_killed, both_killed)

    def one_of_them(customer: Customer, chance: random.Random) -> list[str]:
        return chance.choice(ways)(customer, chance)

    standin = standin_python(run.scratch / "python")
    at_moments(run, standin, 60 if run.full else 2, one_of_them, desk=LitellmDesk, name="standin")
    if run.full:
        at_moments(run, sys.executable, 45, one_of_them, desk=LitellmDesk, name="real")


def tools(run: Run) -> None:
    """A model with tools: killed at any moment of its turns, and at each durable point of them."""
    python = pay_tools.killing_python(run.scratch / "python")
    points = run.some(pay_tools.points(), 3)
    ways = (
        ("stepper", 300 if run.full else 1, pay_tools.stepper_killed),
        ("courier", 300 if run.full else 1, pay_tools.courier_killed),
        ("points", len(points), pay_tools.one_by_one(points)),
    )
    for name, moments, way in ways:
        at_moments(run, python, moments, way, desk=pay_tools.ToolDesk, name=name)
        run.notes[-1] = f"{name}: {run.notes[-1]}"


CASES = (
    Case("stepper", "kills", 1000, _through(stepper_killed, 1000, 4)),
    Case("courier", "kills", 300, _through(courier_killed, 300, 4)),
    Case("both", "kills", 300, _through(both_killed, 300, 3)),
    Case("tools", "kills", 660, tools),
    Case("litellm", "kills", 40, litellm),
)
