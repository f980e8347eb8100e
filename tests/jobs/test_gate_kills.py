"""A courier that is killed at each durable point of a run with the gate: nothing is sent again, each answer on disk has its
exact cost, and a request without one is in doubt at its highest. The ledger says the same as the history.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from logist.core.model import Kind, Status
from logist.core.model.commands import RecoverCommand, ResubmitCommand
from logist.core.money.budgets import Cost
from logist.errors import ProviderError
from logist.jobs.steward.steward_decisions import record_decision
from tests.jobs.bench import Bench
from tests.jobs.conftest import MakeBench
from tests.jobs.test_gate import COST, SAYS, as_process, kill_courier, made, microcents, sums, total
from tests.jobs.test_paid import waiting_for
from tests.loopback import Loopback
from tests.torture.pay_tools import Point, killing_python

REQUESTS = 2
"""How many requests the program makes."""


def list_points() -> Iterator[tuple[Point, int, bool, Kind | None]]:
    """Each point, with the requests that have an answer by then, whether one is in doubt, and what is recorded at once."""
    run_sent, run_response = ("1.sent", 1), ("1.response", 1)
    yield Point(*run_sent, after=False), 0, False, None
    yield Point(*run_sent, after=True), 0, False, Kind.ASK
    for k in range(1, REQUESTS + 1):
        for part, after in itertools.product(("request", "sent", "response"), (False, True)):
            point = Point(f"gate/{k}.{part}", 1, after)
            answers = k - (0 if part == "response" and after else 1)
            yield point, answers, point.doubt, Kind.RECOVER if point.doubt else Kind.ASK
    yield Point(*run_response, after=False), REQUESTS, False, Kind.ASK


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return killing_python(tmp_path_factory.mktemp("python"))


@pytest.mark.deep_beyond(4)
@pytest.mark.parametrize(
    ("point", "answers", "is_doubtful", "kind"),
    [*list_points()],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, Point) else "",
)
def test_a_courier_killed_at_a_durable_point(
    bench: MakeBench,
    monkeypatch: pytest.MonkeyPatch,
    python: str,
    point: Point,
    answers: int,
    *,
    is_doubtful: bool,
    kind: Kind | None,
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    with Loopback(SAYS) as server:
        b = made(bench, server, f"[ask(str(n)) for n in range({REQUESTS})]")
        order = b.project.home.parent / "kill_at"
        order.write_text(json.dumps(point._asdict()), "utf-8")
        with suppress(ProviderError):  # nothing was sent
            b.step()
        assert not order.exists(), "the point was never reached"
        seen = len(server.requests)
        assert seen == answers + (is_doubtful and point.name.endswith("response"))
        require_right_books(b, answers, kind, is_doubtful=is_doubtful)
        if is_doubtful:
            assert b.step().entries == ()
            assert len(server.requests) == seen  # nobody has said that it was not charged
            record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="retry"))
        if b.state().status is Status.PENDING:
            b.step()
            seen += REQUESTS
            answers += REQUESTS
        assert len(server.requests) == seen
    assert b.state().status is Status.APPROVAL_REQUIRED
    assert total(b) == answers * COST
    assert sums(b).spent.microcents == answers * COST
    assert sums(b).reserved == Cost(0, 0, 0)


def require_right_books(b: Bench, answers: int, kind: Kind | None, *, is_doubtful: bool) -> None:
    history = b.history()[1:]
    assert [entry.kind for entry in history] == ([] if kind is None else [kind])
    if kind is None:
        return
    [entry] = history
    doubt = RecoverCommand.read(entry.command).in_doubt_microcents if is_doubtful else 0
    assert doubt is not None
    assert (doubt > 0) is is_doubtful
    assert microcents(entry.usage) == answers * COST + doubt == total(b)
    assert entry.usage.calls == answers + is_doubtful
    assert sums(b).spent.microcents == answers * COST
    assert sums(b).reserved.microcents == doubt


def test_the_program_is_gone_with_its_courier(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    with Loopback(SAYS) as server:
        b = made(bench, server, 'ask(); time.sleep(5); pathlib.Path("later.txt").write_text("")')
        point = Point("gate/1.response", 1, after=True)
        (b.project.home.parent / "kill_at").write_text(json.dumps(point._asdict()), "utf-8")
        b.step()
        found = Path(b.folder() / "workspace" / "later.txt")
        assert not found.exists()


PARALLEL = """
pool = concurrent.futures.ThreadPoolExecutor(4)
note("pid", os.getpid())
answers = list(pool.map(ask, map(str, range(12))))
"""


@pytest.mark.deep_beyond(3)
@pytest.mark.parametrize("seed", range(12))
def test_kills_at_any_moment_of_parallel_requests(bench: MakeBench, seed: int) -> None:
    chance = random.Random(seed)
    with Loopback({**SAYS, "delay": 0.1}) as server:
        b = made(bench, server, PARALLEL)
        job = b.project.open_job("j")
        stepper = as_process(b)
        server.wait_for(chance.randint(1, 10))
        time.sleep(chance.random() * 0.1)
        victim = chance.choice(["courier", "program", "both"])
        with suppress(OSError, AssertionError):  # it may have ended already
            if victim != "courier":
                for pid in find_processes(str(b.project.home.parent / "agent.py")):
                    os.kill(pid, signal.SIGKILL)
            if victim != "program":
                kill_courier(job)
        if chance.random() < 0.3:
            stepper.kill()
        stepper.wait()
        waiting_for(lambda: job.find_lock_holder() is None)
        if len(b.history()) == 1:
            b.step()
        [entry] = b.history()[1:]
        book = sums(b)
        assert microcents(entry.usage) == total(b) == book.spent.microcents + book.reserved.microcents
        assert book.reserved.microcents == (
            RecoverCommand.read(entry.command).in_doubt_microcents or 0 if entry.kind is Kind.RECOVER else 0
        )
        answered = book.spent.microcents // COST
        assert answered <= len(server.requests)
        assert entry.usage.calls >= answered
    # The last request of a killed process may arrive after the step: so the texts of requests are compared, not their number.
    words = [request.body["messages"][-1]["content"] for request in server.requests]
    assert len(set(words)) == len(words), "a request was sent again without a decision"
    assert set(words) <= {str(number) for number in range(12)}


def find_processes(name: str) -> list[int]:
    """The processes whose command line has this word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if name.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found
