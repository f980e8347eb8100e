"""What Ctrl-C says it costs, from what is on disk."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from logist.agents.courier.process import CourierProcess
from logist.core.model import Reply, Usage
from logist.jobs.base.session import Session
from logist.jobs.turn import agent_calls
from logist.jobs.turn.stop_costs import describe_stop_costs
from logist.store import JobDir

Json = dict[str, Any]
NOTHING_BOOKED = "booked: $0.00 for 0 answers; "


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    with JobDir.create_job(tmp_path / "jobs", "j1"):
        pass
    return JobDir.open(tmp_path / "jobs", "j1")


def test_before_a_request_is_sent_nothing_is_paid(job: JobDir) -> None:
    unpaid = NOTHING_BOOKED + "in flight: nothing; unpaid: the next request, which is not sent"
    assert describe_stop_costs(job) == unpaid
    job.begin_exchange(1, {"agent": "model"})
    assert describe_stop_costs(job) == unpaid


def test_a_request_without_an_answer_is_in_flight(job: JobDir) -> None:
    job.begin_exchange(1, {"agent": "model", "reserved_microcents": 5_000_000})
    job.mark_sent(1)
    assert describe_stop_costs(job).startswith(NOTHING_BOOKED + "in flight: up to $0.05, in doubt if ")


def test_a_saved_answer_is_booked(job: JobDir) -> None:
    job.begin_exchange(1, {"agent": "model", "reserved_microcents": 5_000_000})
    job.mark_sent(1)
    job.save_response(1, Reply(usage=Usage(cost_cents=3)).model_dump(mode="json"))
    booked = "booked: $0.03 for 1 answer; in flight: nothing; unpaid: all later requests, which are not sent"
    assert describe_stop_costs(job) == booked
    job.begin_exchange(2, {"reserved_microcents": 7_000_000})
    job.mark_sent(2)
    assert describe_stop_costs(job).startswith("booked: $0.03 for 1 answer; in flight: up to $0.07, in doubt")


@pytest.mark.parametrize(
    ("reserved", "words"), [(5_000_000, "up to $0.05"), (None, "a call of unknown price")]
)
def test_a_program_reports_its_cost_at_the_end(job: JobDir, reserved: int | None, words: str) -> None:
    job.begin_exchange(1, {"agent": "codex", "reserved_microcents": reserved})
    job.mark_sent(1)
    told = f"in flight: {words}, until the agent program has ended and reported its cost"
    assert describe_stop_costs(job) == NOTHING_BOOKED + told


@pytest.mark.parametrize("data", [b"{", b'{"usage": 3}'])
def test_damage_is_for_whoever_records_the_answer(job: JobDir, data: bytes) -> None:
    job.begin_exchange(1, {"agent": "model"})
    (job.inflight / "1.response").write_bytes(data)
    assert describe_stop_costs(job) == "cost so far unknown: can't read the record of the call"


def test_the_agent_is_stopped_before_anything_is_said(job: JobDir) -> None:
    """A second Ctrl-C, right after the first message, ends the command at once."""
    done: list[str] = []
    project = SimpleNamespace(say=done.append)
    process = SimpleNamespace(
        send_signal=lambda number: done.append(signal.Signals(number).name), has_ended=lambda seconds: True
    )
    agent_calls._interrupt_courier(
        cast("Session", SimpleNamespace(project=project, job=job)), cast("CourierProcess", process)
    )
    assert done[0] == "SIGTERM"
    assert done[1].startswith("stopping the agent")
    assert done[2].startswith("booked: ")
