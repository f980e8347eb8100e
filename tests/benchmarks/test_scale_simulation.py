"""The simulation of many workers agrees with what queueing theory says exactly, where it says something."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.support import ROOT

FREE = {
    "python_ms": 0.0,
    "waiting_ms": 0.0,
    "other_ms": 0.0,
    "fsyncs": 0.0,
    "fsync_ms": 0.0,
    "fsyncs_at_once": 1.0,
    "booking_ms": 0.0,
    "bookings": 0.0,
    "pack_ms": 0.0,
    "pack_mb": 0.0,
    "task_mb": 0.0,
}
SAFE = {"agent_seconds": 1.0, "latency_ms": 0.0, "days_between_failures": 0.0}


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("scale_simulation")


def simulate(
    simulation: Any, costs: Mapping[str, float], scenario: Mapping[str, float], steps: int = 20_000
) -> Any:
    return simulation.Simulation(
        simulation.Costs(**{**FREE, **costs}), simulation.Scenario(**{**SAFE, **scenario}), seed=1
    ).run(steps)


def compute_closed_network(workers: int, think: float, demands: list[float]) -> float:
    """Steps a second of a closed network of single servers, by mean value analysis, which is exact."""
    lengths, rate = [0.0] * len(demands), 0.0
    for count in range(1, workers + 1):
        times = [demand * (1 + length) for demand, length in zip(demands, lengths, strict=True)]
        rate = count / (think + sum(times))
        lengths = [rate * time for time in times]
    return rate


def compute_repair_shop(workers: int, think: float, service: float, servers: int) -> float:
    """Steps a second of M/M/c//N: so many workers, and `servers` that serve them, from the balance of its states."""
    weights = [1.0]
    for busy in range(workers):
        weights.append(weights[-1] * (workers - busy) * service / think / min(busy + 1, servers))
    served = sum(min(busy, servers) * weight for busy, weight in enumerate(weights))
    return served / sum(weights) / service


@pytest.mark.parametrize("workers", [1, 5, 20, 60])
def test_steps_that_wait_for_each_other_are_as_many_as_in_theory(simulation: Any, workers: int) -> None:
    costs = {"python_ms": 30.0, "fsyncs": 4.0, "fsync_ms": 10.0}
    result = simulate(simulation, costs, {"workers": workers})
    exact = compute_closed_network(workers, 1.0, [0.03, 0.04])
    assert result.steps_per_second == pytest.approx(exact, rel=0.03)
    assert result.used["Python"] == pytest.approx(exact * 0.03, rel=0.04)
    assert result.used["fsyncs"] == pytest.approx(exact * 0.04, rel=0.04)
    assert result.working == pytest.approx(exact / workers, rel=0.03)


@pytest.mark.parametrize("workers", [2, 20, 60])
def test_a_disk_that_serves_several_at_once_is_as_in_theory(simulation: Any, workers: int) -> None:
    costs = {"fsyncs": 2.0, "fsync_ms": 50.0, "fsyncs_at_once": 3.0}
    result = simulate(simulation, costs, {"workers": workers})
    assert result.steps_per_second == pytest.approx(compute_repair_shop(workers, 1.0, 0.1, 3), rel=0.03)


@pytest.mark.parametrize(
    ("name", "costs"),
    [
        ("Python", {"python_ms": 20.0, "other_ms": 1.0}),
        ("Python", {"python_ms": 1.0, "waiting_ms": 15.0}),
        ("all CPU", {"python_ms": 5.0, "other_ms": 60.0, "pack_ms": 500.0}),
        ("fsyncs", {"python_ms": 5.0, "fsyncs": 10.0, "fsync_ms": 8.0, "fsyncs_at_once": 2.0}),
        ("ledger", {"bookings": 2.0, "booking_ms": 1.0, "fsync_ms": 10.0, "fsyncs_at_once": 8.0}),
        ("network out", {"python_ms": 5.0, "task_mb": 1.0, "pack_mb": 20.0}),
    ],
)
def test_the_scarcest_part_limits_the_steps(simulation: Any, name: str, costs: dict[str, float]) -> None:
    scenario = {"workers": 300, "cores": 2}
    result = simulate(simulation, costs, scenario, steps=20_000)
    limits = simulation.compute_limits(
        simulation.Costs(**{**FREE, **costs}), simulation.Scenario(**{**SAFE, **scenario})
    )
    assert min(limits, key=lambda each: limits[each]) == name
    assert result.steps_per_second == pytest.approx(limits[name], rel=0.06)
    assert result.used[name] > 0.93


def test_other_programs_slow_down_what_computes(simulation: Any) -> None:
    """With 3 other threads on 2 cores, a process that computes gets half of a core."""
    costs = {"other_ms": 200.0}
    result = simulate(simulation, costs, {"workers": 1, "background": 3.0})
    assert result.steps_per_second == pytest.approx(1 / (1 + 0.2 * 2), rel=0.03)


def test_failures_cost_what_they_must(simulation: Any) -> None:
    """A step is in doubt if the machine fails before its end, and is gone; then the place is empty for a while."""
    scenario = {"agent_seconds": 600.0, "spread": 0.0, "days_between_failures": 0.05, "survivals": 0.25}
    scenario |= {"workers": 10, "lost_after": 100.0, "replaced_after": 700.0}
    result = simulate(simulation, {}, scenario)
    failing = 1 - math.exp(-600 / 4320)
    lost = 0.75 * failing
    until_failure = 4320 - 600 * (1 - failing) / failing
    cycle = (1 - lost) * 600 + lost * (until_failure + 700)
    assert result.doubts / result.steps == pytest.approx(lost, rel=0.05)
    assert result.steps_per_second == pytest.approx(10 * (1 - lost) / cycle, rel=0.02)


def test_the_time_of_agents_has_the_given_mean(simulation: Any) -> None:
    result = simulate(simulation, {}, {"workers": 50, "agent_seconds": 60.0, "spread": 1.0}, steps=50_000)
    assert result.steps_per_second == pytest.approx(50 / 60, rel=0.03)
    assert result.working == pytest.approx(1.0, rel=0.03)


def test_the_page_is_the_same_with_the_same_costs_and_needs_no_package(
    simulation: Any, tmp_path: Path
) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps(simulation.Costs()._asdict()))

    command = [sys.executable, "-S", str(ROOT / "benchmarks" / "scale_simulation.py"), "--costs", str(costs)]
    command += ["--workers", "1", "30", "--steps", "500"]

    def run(*words: str) -> str:
        done = subprocess.run(
            [*command, *words], env=support.process_environment(), check=True, capture_output=True, text=True
        )
        return done.stdout

    page = run()
    assert run() == page
    assert run("--seed", "2") != page
    assert len([line for line in page.splitlines() if line.startswith(("1 ", "30 "))]) == 2
    assert "knee: " in page
    assert "fsync_ms 50" in run("--fsync-ms", "50")
