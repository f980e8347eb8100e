"""Where paid steps are killed: a model with a ledger, a prepared process, and worlds from one template."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from logist.agents.courier import booking
from logist.agents.protocol import LITELLM, MODEL
from logist.core.step.step import StepPlan
from logist.jobs.turn.next_request import Choice, preview_request
from tests.loopback import Json, Loopback, Received
from tests.torture.crowd_forks import Forks
from tests.torture.lab import JOB, World, broken_files, command
from tests.torture.suite import Run

LONGEST_DELAY = 0.1
"""Maximum seconds before the model answers."""
HUNG = 300.0
IN_PARALLEL = 2


class Charging(Loopback):
    """A model that charges for every request, and answers after a moment."""

    def __init__(self) -> None:
        super().__init__({"text": command(), "usage": {"input": 10, "output": 10}})
        self.chance = random.Random(0)

    def take(self, received: Received) -> Json:
        return super().take(received) | {"delay": self.chance.random() * LONGEST_DELAY}


class Books(NamedTuple):
    """What the model charged, and what the job recorded of it."""

    charges: int
    kinds: list[str]
    """The usage of all interactions after the first."""
    problems: list[str]

    @property
    def recorded(self) -> int:
        """Interactions with a cost: answers, and asks in doubt."""
        return self.kinds.count("ask") + self.kinds.count("recover")


class Desk:
    """One workplace, for one thread; `python` is the interpreter of stepper and courier."""

    agent = MODEL
    """Who calls the model."""

    def __init__(self, place: Path, python: str, usual: float | None) -> None:
        self.place, self.python = place, python
        self.usual = usual or 0.0
        """Seconds that a step takes without a kill; None: measure it."""
        self.rehearsals = 2 if usual is None else 0  # the first one finds cold files
        self.server: Loopback = Charging()
        self.worlds = 0
        self.tally = Counter[str]()
        place.mkdir()

    @contextmanager
    def opened(self) -> Iterator[Desk]:
        """With its server and its template."""
        with self.server, Forks(self.place / "errors", self.python) as self.forks:
            self.template = World.made(self.place / "template").paid_by(self.server.url, self.agent).create()
            _, plan = preview_request(self.template.project(), JOB, Choice())
            assert isinstance(plan, StepPlan)
            self.worst = booking.book_worst_case(plan.reserved_microcents)
            """The cost that is recorded for an ask in doubt."""
            for _ in range(self.rehearsals):
                began, customer = time.monotonic(), Customer(self)
                assert customer.step() == 0
                self.usual = time.monotonic() - began
            yield self


class LitellmDesk(Desk):
    """A desk at which litellm calls the model."""

    agent = LITELLM


class Customer:
    """One world, one job, one paid step."""

    def __init__(self, desk: Desk) -> None:
        desk.worlds += 1
        self.desk = desk
        self.world = desk.template.copied(desk.place / f"world{desk.worlds}")
        self.before = len(desk.server.requests)

    def start(self) -> int:
        """Start `job step` as a process without waiting for it; return its pid."""
        return self.desk.forks.logist(self.world, "job", "step", JOB)

    def step(self) -> int:
        """Run `job step` to its end; return the exit code."""
        code = self.desk.forks.wait(self.start(), HUNG)
        assert code is not None, "job step never ended"
        return code

    def let_pass(self, pid: int, chance: random.Random) -> None:
        """Return a random moment of a step: of the complete step, or between the request and the end."""
        wait = self.desk.forks.wait
        if chance.random() < 0.5:
            wait(pid, chance.random() * self.desk.usual)
            return
        while self.charges == 0 and wait(pid, 0.002) is None:
            pass
        wait(pid, chance.random() * (LONGEST_DELAY + 0.03))

    @property
    def charges(self) -> int:
        """What the model charged so far."""
        return len(self.desk.server.requests) - self.before

    def books(self) -> Books:
        """Return charges and records when all commands have ended; nothing may be unfinished then."""
        problems = broken_files(self.world)
        kinds = [str(entry["kind"]) for entry in self.world.history()[1:]]
        if self.world.job.find_lock_holder() or self.world.job.read_exchanges():
            problems.append("something is in flight still")
        return Books(self.charges, kinds, problems)

    def couriers(self, parent: int) -> list[int]:
        """Yield a pidfd for each current courier of process `parent`."""
        found = [(pid, _pidfd(pid)) for pid in _children(parent)]
        return [held for pid, held in found if held is not None and self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        """Whether it is a courier of this world: its command line names the job."""
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return b"logist.agents.courier" in words and str(self.world.folder).encode() in words
        return False


def kill(couriers: Sequence[int]) -> None:
    """Send SIGKILL to each; ignore those that have ended."""
    for held in couriers:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(held, signal.SIGKILL)
        os.close(held)


def _children(parent: int) -> list[int]:
    listed = Path(f"/proc/{parent}/task/{parent}/children")
    with suppress(OSError):
        return [int(word) for word in listed.read_text("ascii").split()]
    return []


def _pidfd(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.pidfd_open(pid)
    return None


Way = Callable[[Customer, random.Random], list[str]]
"""Kills something at a random moment, continues, and returns the problems."""


def at_moments(
    run: Run,
    python: str,
    moments: int,
    way: Way,
    usual: float | None = None,
    *,
    desk: type[Desk] = Desk,
    name: str = "desk",
) -> None:
    """Try `way` at this many moments, two at a time, and record the total of charges and records.

    `usual`: seconds that a step takes, if known.
    """
    count = IN_PARALLEL if run.full else 1
    with ExitStack() as opened:
        places = [run.scratch / f"{name}{number}" for number in range(count)]
        desks = [opened.enter_context(desk(place, python, usual).opened()) for place in places]
        pool = opened.enter_context(ThreadPoolExecutor(count))
        shares = [range(number, moments, count) for number in range(count)]
        for done in [
            pool.submit(_share, run, desk, share, way) for desk, share in zip(desks, shares, strict=True)
        ]:
            for moment, problems in done.result():
                run.check(problems, f"moment {moment}")
    total = sum((each.tally for each in desks), Counter[str]())
    run.notes.append(", ".join(f"{total[name]:,} {name}" for name in ("charges", "answers", "doubts")))


def _share(run: Run, desk: Desk, moments: range, way: Way) -> list[tuple[int, list[str]]]:
    done = []
    for moment in moments:
        customer = Customer(desk)
        done.append((moment, way(customer, run.random(f"moment{moment}"))))
        books = customer.books()
        counts = {"answers": books.kinds.count("ask"), "doubts": books.kinds.count("recover")}
        desk.tally.update(counts, charges=books.charges)
        shutil.rmtree(customer.world.place)
    return done
