"""Asks that workers on other machines do: sent once, accepted once, and never lost. The machines here are directories."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from logist.agents.courier import ask_files
from logist.agents.remote import worker as work
from logist.agents.remote.threads import ThreadCluster
from logist.core.model import Kind, Status, StuckKind
from logist.core.money.budgets import Cost
from logist.jobs.base import job_bundles
from logist.jobs.base.result import CommandResult
from logist.jobs.base.worker_pool import WorkerPool
from logist.jobs.turn import errands
from tests.jobs.bench import Bench, Json, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_gate import COST, SAYS, made, microcents, sums, total, workspace
from tests.jobs.test_paid import KEY, waiting_for
from tests.loopback import Loopback

BODY = 'ask(); note("made.txt", str(pathlib.Path.cwd()))'
MADE = command(evidence=["made.txt"])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreadCluster]:
    cluster = ThreadCluster(tmp_path / "machines", 2)
    yield cluster
    cluster.close()


@pytest.fixture(autouse=True)
def surroundings_of_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MY_MODEL", KEY)
    monkeypatch.setattr(errands, "LOST_SECONDS", 20.0)


def away(b: Bench, cluster: ThreadCluster) -> Bench:
    """Let workers call the agents from here on."""
    b.change(workers=WorkerPool(cluster))
    return b


def home(b: Bench) -> Bench:
    """Use no workers from here on."""
    b.change(workers=None)
    return b


def begin(function: Callable[[], Any]) -> Future[Any]:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(function)
    pool.shutdown(wait=False)
    return future


def closed() -> tuple[threading.Event, Json]:
    """An answer of the model that waits for an event."""
    gate = threading.Event()
    return gate, {**SAYS, "gate": gate}


def at_work(b: Bench) -> ask_files.AwayErrand:
    errand = ask_files.read_errand(b.project.open_job("j").read_exchanges())
    assert errand is not None
    return errand


def lose(cluster: ThreadCluster, name: str) -> None:
    (worker,) = [each for each in cluster.list_workers() if each.name == name]
    cluster.lose_worker(worker)


def require_one_result(b: Bench, calls: int = 1) -> None:
    """One entry has the exact cost, and the ledger the same."""
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ASK], b.history()[-1].reason
    assert total(b) == calls * COST == sums(b).spent.microcents == microcents(b.history()[-1].usage)
    assert sums(b).reserved == Cost()
    assert not (b.folder() / "inflight").exists()


def test_a_program_on_a_worker(bench: MakeBench, cluster: ThreadCluster) -> None:
    with Loopback(SAYS) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        result = b.step()
    assert result.state.status is Status.APPROVAL_REQUIRED, b.history()[-1]
    assert "machines" in (workspace(b) / "made.txt").read_text()
    require_one_result(b)
    assert not [*work.list_results(job_bundles.name_project(b.project), str(cluster._folder / "machine-1"))]
    assert not [*work.list_results(job_bundles.name_project(b.project), str(cluster._folder / "machine-2"))]


def test_a_lost_worker_whose_machine_comes_back(bench: MakeBench, cluster: ThreadCluster) -> None:
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        name = at_work(b).worker
        lose(cluster, name)
        waiting_for(lambda: any("out of reach" in text for text in b.said))
        cluster.add_worker(name)
        gate.set()
        assert step.result().state.status is Status.APPROVAL_REQUIRED
        assert len(server.requests) == 1
    require_one_result(b)


def test_a_machine_that_is_gone_leaves_the_ask_in_doubt(
    bench: MakeBench, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errands, "LOST_SECONDS", 1.0)
    gate, slow = closed()
    with Loopback(slow) as server:
        b = away(made(bench, server, BODY, MADE), cluster)
        step: Future[CommandResult] = begin(b.step)
        server.wait_for(1)
        lose(cluster, at_work(b).worker)
        assert step.result().state.status is Status.STUCK
        place = b.state().place
        assert place.stuck is not None
        assert place.stuck.kind is StuckKind.IN_DOUBT
        # All that the task might spend is recorded and reserved.
        assert microcents(b.history()[-1].usage) == sums(b).reserved.microcents > COST
        assert sums(b).spent == Cost()
        assert b.step().entries == ()
        assert len(server.requests) == 1
        gate.set()
