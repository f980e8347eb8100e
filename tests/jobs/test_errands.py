"""Asks that workers on other machines do: sent once, accepted once, and never lost. The machines here are directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from logist.agents.remote.threads import ThreadCluster
from logist.core.model import Kind, Status
from logist.jobs.base.worker_pool import WorkerPool
from tests.jobs.bench import Bench, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_gate import COST, SAYS, made, sums, total, workspace
from tests.jobs.test_paid import KEY
from tests.loopback import Loopback


@pytest.fixture
def cluster(tmp_path: Path) -> ThreadCluster:
    return ThreadCluster(tmp_path / "machines", 2)


@pytest.fixture(autouse=True)
def key_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_MODEL", KEY)


def away(b: Bench, cluster: ThreadCluster) -> Bench:
    """Let workers call the agents from here on."""
    b.change(workers=WorkerPool(cluster))
    return b


def test_a_program_on_a_worker(bench: MakeBench, cluster: ThreadCluster) -> None:
    body = 'ask(); note("made.txt", str(pathlib.Path.cwd()))'
    with Loopback(SAYS) as server:
        b = away(made(bench, server, body, command(evidence=["made.txt"])), cluster)
        result = b.step()
    assert result.state.status is Status.APPROVAL_REQUIRED, b.history()[-1]
    assert "machines" in (workspace(b) / "made.txt").read_text()
    assert total(b) == COST == sums(b).spent.microcents
    assert sums(b).reserved.microcents == 0
    assert [entry.kind for entry in b.history()][-1] is Kind.ASK
