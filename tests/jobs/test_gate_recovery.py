"""What is left of a program whose requests went through the gate when its courier was killed: each request without an
answer is in doubt at its highest cost, each answer has its cost, and nothing is ever sent again.
"""

from __future__ import annotations

import json
import shutil
from typing import Any, Literal

import pytest

from logist.agents.courier import shared_limits
from logist.agents.courier.ask_files import collect_ask
from logist.core.model import Kind, Provider, Reply, Status, Usage
from logist.core.model.commands import RecoverCommand, ResubmitCommand
from logist.core.money import totals
from logist.core.money.amounts import MICROCENTS
from logist.core.money.budgets import Account, BookedCall, Cost, Sums
from logist.errors import Damaged
from logist.jobs.base import budgets
from logist.jobs.base.session import load_session
from logist.jobs.doctor import job_checks
from logist.jobs.doctor.backup import Backup
from logist.jobs.doctor.ledger_checks import find_ledger_problems, repair_ledger
from logist.jobs.steward.steward_decisions import record_decision
from logist.jobs.turn import stop_costs
from logist.store import JobDir, inflight
from logist.store.gate_log import LOG, GateLog
from logist.store.transcripts import read_transcript
from tests.jobs.bench import Bench, Json
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import paid
from tests.jobs.test_recovery import left_in_flight

RESERVED = 300_000
COST = 7_000
PROJECT = Account("project")


def usage(microcents: int = COST) -> Usage:
    return Usage(
        input_tokens=50, output_tokens=10, cost_microcents=microcents, seconds=1.0, source="provider"
    )


def answer(text: str = "Hm.", microcents: int = COST) -> Json:
    dumped: Json = Reply(text=text, usage=usage(microcents)).model_dump(mode="json")
    return dumped


def run_in_flight(b: Bench, **more: object) -> JobDir:
    """A job whose program runs with a gate; no request was made yet."""
    b.create()
    job, envelope = left_in_flight(b, reserved=0)
    provider = Provider(name="openai", base_url="http://127.0.0.1:9/v1", protocol="openai", model="m")
    job.begin_exchange(
        1, {**envelope, "agent": "fake", "provider": provider.model_dump(mode="json"), "form": None, **more}
    )
    GateLog(job.inflight / inflight.GATE).close()
    job.mark_sent(1)
    return job


def ledger_id(b: Bench, name: str) -> str:
    session = load_session(b.project, b.project.open_job("j"))
    assert session.position.hash is not None
    return f"j/{session.position.hash.removeprefix('sha256:')[:16]}/{name}"


def make_request(b: Bench, k: int, *, sent: bool = True, response: Json | None = None) -> None:
    """One request of the program, as far as the gate has recorded it."""
    folder = b.project.open_job("j").inflight / inflight.GATE
    call = BookedCall(ledger_id(b, f"gate-{k}"), "j", "2026-01-02")
    budgets.open_ledger(b.project).reserve(call, Cost(RESERVED, 1000, 1), [], "2026-01-02T00:00:00Z")
    request = {"reserved_microcents": RESERVED, "body": {"text": f"request {k}"}}
    lines = {
        "request": request,
        **({"sent": {}} if sent else {}),
        **({"response": response} if response else {}),
    }
    with (folder / LOG).open("a") as log:
        log.writelines(json.dumps({"k": k, part: value}) + "\n" for part, value in lines.items())


@pytest.fixture
def b(bench: MakeBench) -> Bench:
    return paid(bench(settings={"review": {"enabled": False}}), "http://127.0.0.1:9/v1")


def collect(b: Bench) -> None:
    """What the next command does first; it asks nobody."""
    assert b.step().entries


def sums(b: Bench) -> Sums:
    return budgets.open_ledger(b.project).read().sums.get(PROJECT, Sums())


def microcents(amount: Usage) -> int:
    return amount.cost_cents * MICROCENTS + amount.cost_microcents


@pytest.mark.parametrize("admitted", [False, True])
def test_a_run_without_an_open_request_has_its_exact_cost_and_is_an_attempt(
    b: Bench, *, admitted: bool
) -> None:
    run_in_flight(b)
    make_request(b, 1, response=answer())
    make_request(b, 2, response=answer())
    if admitted:
        make_request(b, 3, sent=False)
    collect(b)
    entry = b.history()[1]
    assert (entry.kind, entry.response.error is not None) == (Kind.ASK, True)
    assert microcents(entry.usage) == 2 * COST
    assert (entry.usage.source, entry.usage.calls) == ("gate", 2)
    assert sums(b) == Sums(Cost(2 * COST, 120, 2))
    assert b.state().place.attempts == 1
    turns = read_transcript(b.folder(), 2)
    assert [(turn["exchange"], turn["request"], turn["text"]) for turn in turns[:2]] == [
        (1, "request 1", "Hm."),
        (2, "request 2", "Hm."),
    ]


def test_requests_without_an_answer_are_in_doubt_at_their_highest_cost(b: Bench) -> None:
    run_in_flight(b)
    make_request(b, 1, response=answer())
    make_request(b, 2)
    make_request(b, 3)
    make_request(b, 4, sent=False)
    collect(b)
    entry = b.history()[1]
    assert entry.kind is Kind.RECOVER
    assert RecoverCommand.read(entry.command).in_doubt_microcents == 2 * RESERVED
    assert microcents(entry.usage) == COST + 2 * RESERVED
    assert entry.usage.source == "worst_case"
    assert sums(b) == Sums(Cost(COST, 60, 1), Cost(2 * RESERVED, 2000, 2))


@pytest.mark.parametrize("lost", [".", LOG])
def test_a_run_whose_log_is_gone_is_in_doubt_at_all_that_it_was_allowed_to_spend(b: Bench, lost: str) -> None:
    job = run_in_flight(b, allowance_microcents=5 * RESERVED)
    make_request(b, 1)
    path = job.inflight / inflight.GATE / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    at_work = shared_limits._sum_in_flight(job.read_exchanges(), is_at_work=True)
    assert totals.get_microcents(at_work.calls_out) == 5 * RESERVED
    collected = collect_ask(job.read_exchanges())
    assert collected.reply.error is not None
    assert "the log of the program's requests is missing" in collected.reply.error.message
    collect(b)
    entry = b.history()[1]
    assert (entry.kind, b.state().status) == (Kind.RECOVER, Status.STUCK)
    assert RecoverCommand.read(entry.command).in_doubt_microcents == 5 * RESERVED
    assert sums(b).reserved.microcents == RESERVED


@pytest.mark.parametrize(("doubt", "spent"), [("retry", COST), ("assume_paid", COST + 2 * RESERVED)])
def test_a_person_settles_the_doubt(b: Bench, doubt: Literal["retry", "assume_paid"], spent: int) -> None:
    run_in_flight(b)
    make_request(b, 1, response=answer())
    make_request(b, 2)
    make_request(b, 3)
    collect(b)
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt=doubt))
    budgets.settle_calls(load_session(b.project, b.project.open_job("j")))
    total = b.state().usage
    assert total.cumulative_cost * MICROCENTS + total.cumulative_cost_microcents == spent
    assert sums(b).spent.microcents == spent
    assert sums(b).reserved == Cost(0, 0, 0)


def test_an_invalid_record_of_the_gate_is_damage(b: Bench) -> None:
    job = run_in_flight(b)
    make_request(b, 1, response={"usage": {"cost_cents": "much"}})
    with pytest.raises(Damaged, match="the record of an exchange is invalid"):
        collect_ask(job.read_exchanges())


def test_what_a_stop_costs_counts_the_requests(b: Bench) -> None:
    job = run_in_flight(b)
    make_request(b, 1, response=answer())
    make_request(b, 2)
    assert stop_costs.describe_stop_costs(job) == (
        "booked: <$0.0001 for 1 answer; in flight: up to $0.003, booked if the answers don't arrive; "
        "unpaid: all later requests, which are not sent"
    )


def test_other_jobs_of_the_family_see_what_a_running_program_has_spent_and_reserved(b: Bench) -> None:
    job = run_in_flight(b)
    make_request(b, 1, response=answer())
    make_request(b, 2)
    make_request(b, 3, sent=False)
    calls = job.read_exchanges()
    at_work = shared_limits._sum_in_flight(calls, is_at_work=True)
    assert totals.get_microcents(at_work.calls_out) == COST + 2 * RESERVED
    assert totals.get_microcents(at_work.paid) == COST
    cut_off = shared_limits._sum_in_flight(calls, is_at_work=False)
    assert totals.get_microcents(cut_off.unsettled) == COST + RESERVED


@pytest.mark.parametrize(("sent", "words"), [(False, "was cut off"), (True, "they are in doubt")])
def test_doctor_says_what_a_run_has_left(b: Bench, *, sent: bool, words: str) -> None:
    run_in_flight(b)
    make_request(b, 1, response=answer())
    make_request(b, 2, sent=sent)
    findings = job_checks.examine(b.project, b.project.open_job("j"), deep=False)
    assert [finding for finding in findings if words in finding.message]


@pytest.mark.parametrize("doubtful", [False, True])
def test_a_repair_of_the_ledger_knows_the_requests_of_a_run(b: Bench, *, doubtful: bool) -> None:
    run_in_flight(b)
    make_request(b, 1, response=answer())
    make_request(b, 2, response=answer())
    make_request(b, 3, sent=doubtful)
    collect(b)
    before = sums(b).get_total()
    file = budgets.open_ledger(b.project).folder / "ledger.json"
    file.write_bytes(b"")
    [problem] = find_ledger_problems(b.project)
    repair_ledger(b.project, problem.paths, Backup(b.project))
    after = sums(b).get_total()
    assert (after.microcents, after.calls) == (before.microcents, before.calls)
    assert before.calls == 2 + doubtful


def test_a_run_of_an_earlier_version_is_collected_as_before(b: Bench) -> None:
    b.create()
    job, envelope = left_in_flight(b, reserved=RESERVED)
    job.begin_exchange(1, {**envelope, "agent": "fake", "provider": None})
    job.mark_sent(1)
    collect(b)
    state: Any = b.history()[1]
    assert (state.kind, microcents(state.usage)) == (Kind.RECOVER, RESERVED)
