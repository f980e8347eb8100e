"""The jobs of a run compute one after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from logist.agents.function import AgentRequest, FunctionAgent
from logist.jobs import job_queue
from logist.jobs.base import turns
from logist.jobs.base.turns import Turns
from tests.jobs.bench import answer, command, gave
from tests.jobs.conftest import MakeBench

LONG = 30.0
"""Seconds; a test that waits so long has failed."""


@pytest.fixture(autouse=True)
def long_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 2 * LONG)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def take(turn: Turns, began: threading.Event, end: threading.Event) -> None:
    with turn.take():
        began.set()
        assert end.wait(LONG)


def test_the_second_begins_when_the_first_has_ended(pool: ThreadPoolExecutor) -> None:
    turn, began, end, ended = Turns(), threading.Event(), threading.Event(), threading.Event()
    with turn.take():
        second = pool.submit(take, turn, began, end)
        assert not began.wait(0.05)
    assert began.wait(LONG)
    third = pool.submit(take, turn, ended, end)
    assert not ended.wait(0.05)
    end.set()
    second.result(LONG)
    third.result(LONG)


def test_a_failed_step_ends_its_turn(pool: ThreadPoolExecutor) -> None:
    turn, began, end = Turns(), threading.Event(), threading.Event()
    end.set()
    with pytest.raises(ZeroDivisionError), turn.take():
        raise ZeroDivisionError
    pool.submit(take, turn, began, end).result(LONG)


def test_others_compute_while_one_waits(pool: ThreadPoolExecutor) -> None:
    turn, began, end, back = Turns(), threading.Event(), threading.Event(), threading.Event()

    def go_on() -> None:
        with turn.take():
            with turn.pause():
                assert began.wait(LONG)
            back.set()

    first = pool.submit(go_on)
    second = pool.submit(take, turn, began, end)
    assert began.wait(LONG)
    assert not back.wait(0.05)
    end.set()
    first.result(LONG)
    second.result(LONG)


def test_who_has_waited_long_enough_goes_on_without_a_turn(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 0.01)
    turn, began, end = Turns(), threading.Event(), threading.Event()
    end.set()
    with turn.take():
        pool.submit(take, turn, began, end).result(LONG)
        monkeypatch.setattr(turns, "PATIENCE", 2 * LONG)
        third = pool.submit(take, turn, threading.Event(), end)
        with pytest.raises(TimeoutError):  # the second didn't end the turn of the first
            third.result(0.05)
    third.result(LONG)


def test_a_pause_without_a_turn_takes_none(pool: ThreadPoolExecutor) -> None:
    turn, began, end = Turns(), threading.Event(), threading.Event()
    end.set()
    with turn.pause():
        pool.submit(take, turn, began, end).result(LONG)
    pool.submit(take, turn, began, end).result(LONG)


def test_agents_in_this_process_work_side_by_side(bench: MakeBench) -> None:
    together = threading.Barrier(2)

    def work(request: AgentRequest) -> str:
        together.wait(LONG)
        return command()

    b = bench()
    b.change(function=FunctionAgent(work))
    for name in ("a", "b"):
        b.create(name, review=False, approval="none")
    ended = job_queue.run_queue(b.project, 2, lambda _: None)
    assert [one.exit_code for one in ended] == [0, 0]


def test_checks_run_side_by_side(bench: MakeBench, tmp_path: Path) -> None:
    """Each check waits for the file that the other one makes."""
    met = tmp_path / "met"
    met.mkdir()
    tries = int(LONG * 10)
    meet = f"touch {met}/$$; for _ in $(seq {tries}); do [ $(ls {met} | wc -l) = 2 ] && exit; sleep 0.1; done; exit 1"
    checks = {"meet": {"severity": "error", "command": meet}}
    passes = gave({"verdict": "PASS", "issues": [], "suggestions": []})
    b = bench(
        [answer(files={"a.txt": "made"}), passes], {"review": {"checks": checks}, "sandbox": {"mode": "off"}}
    )
    for name in ("a", "b"):
        b.create(name, approval="none")
    ended = job_queue.run_queue(b.project, 2, lambda _: None)
    assert [one.exit_code for one in ended] == [0, 0]
    for name in ("a", "b"):
        assert [each.outcome for each in b.state(name).checks or []] == ["passed"]
