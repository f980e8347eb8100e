"""What is recorded and reserved for the requests that a program makes through the gate."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from logist.agents.clients.answers import ExchangeFailure, ModelAnswer, Tokens
from logist.agents.courier import gate_records
from logist.agents.courier.gate_records import GateRecords
from logist.agents.courier.reporting import ProgressReport
from logist.agents.courier.reservations import ExchangeLedger, settle_saved_reply
from logist.agents.gate.recorder import Admission, GateEnd, GateRefusal, GateRequest
from logist.agents.protocol import Ask
from logist.core.model import ErrorKind, Model, Reply, Request, TransportError
from logist.core.money.budgets import Account, Cost, SharedBudget
from logist.errors import StorageError
from logist.store import JobDir, files, inflight
from logist.store.call_rates import CallRate, CallRates
from logist.store.ledger import Ledger
from logist.store.progress import read_last_record

PRICED = Model(name="m", provider_model="p/m", input_price=1.0, output_price=2.0)
"""100 microcents per token of input, 200 per token of output."""
KEY = "dummy-key-for-tests-0001"
PROJECT = Account("project")
ONE = 100 * 100 + 1000 * 200
"""The highest cost of the request that tests make, in microcents."""


def request(tokens: int = 100, most: int = 1000) -> GateRequest:
    return GateRequest("chat", tokens, most, stream=True)


def body(most: int) -> bytes:
    return json.dumps({"max_tokens": most, "messages": ["hello"]}).encode()


def answered(read: int = 50, written: int = 10, text: str = "Hello.") -> GateEnd:
    return GateEnd(ModelAnswer(finish="stop", tokens=Tokens(read=read, written=written)), text, 0.5)


def failed(kind: ErrorKind = ErrorKind.TRANSIENT, *, billed: bool) -> GateEnd:
    failure = ExchangeFailure(TransportError(kind=kind, message="it failed"), billed=billed)
    return GateEnd(ModelAnswer(failure=failure), "", 0.5)


Make = Callable[..., GateRecords]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(
        allowance: int | None = 10 * ONE,
        budgets: tuple[SharedBudget, ...] = (),
        model: Model = PRICED,
        rates: tuple[CallRate, ...] = (),
    ) -> GateRecords:
        job = JobDir(tmp_path / "jobs" / "j", "j")
        job.path.mkdir(parents=True)
        ask = Ask(
            request=Request(prompt="Do it."),
            model=model,
            role="Worker",
            agent="fake",
            allowance_microcents=allowance,
            min_output_tokens=100,
        )
        inflight.begin_exchange(job.inflight, 1, {})
        ledger = ExchangeLedger(tmp_path / "ledger", "j/abc", "j", "p", "p/m", "run", (), budgets, "UTC")
        progress = ProgressReport(job.inflight, "Worker", [KEY])
        return GateRecords(job, ask, ledger, [KEY], progress, CallRates(tmp_path / "rates", "p", rates))

    return build


def ledger_of(records: GateRecords) -> Ledger:
    assert records.ledger is not None
    records.wait_until_settled()
    return Ledger(records.ledger.folder)


def read_gate(records: GateRecords) -> list[inflight.Exchange]:
    return inflight.read_exchanges(records.job.inflight).gate


def admitted(records: GateRecords, asked: GateRequest | None = None) -> Admission:
    result = records.admit(asked or request(), body)
    assert isinstance(result, Admission)
    return result


def refused(records: GateRecords, asked: GateRequest | None = None) -> GateRefusal:
    result = records.admit(asked or request(), body)
    assert isinstance(result, GateRefusal)
    return result


def test_a_request_is_on_disk_and_reserved_before_it_is_sent_and_settled_by_its_usage(make: Make) -> None:
    records = make()
    admission = admitted(records)
    [exchange] = read_gate(records)
    assert exchange.request is not None
    assert exchange.request["reserved_microcents"] == ONE
    assert json.loads(exchange.request["body"]["text"])["max_tokens"] == 1000
    assert not exchange.sent
    assert admission.stream_file == records.folder / "1.stream"
    assert [(each.call.id, each.cost) for each in ledger_of(records).read().open.values()] == [
        ("j/abc/gate-1", Cost(ONE, 1100, 1))
    ]
    records.mark_sent(1)
    assert read_gate(records)[0].sent
    live = read_last_record(records.job.inflight)
    assert live is not None
    assert (live.turn, live.in_flight_microcents, live.cost_microcents) == (1, ONE, 0)
    records.end(1, answered())
    response = read_gate(records)[0].response
    assert response is not None
    assert (response["text"], response["usage"]["source"]) == ("Hello.", "provider")
    view = ledger_of(records).read()
    assert view.open == {}
    assert view.sums[PROJECT].spent == Cost(50 * 100 + 10 * 200, 60, 1)
    live = read_last_record(records.job.inflight)
    assert live is not None
    assert (live.in_flight_microcents, live.cost_microcents) == (0, 7000)


def flushed_name(fd: int) -> str:
    return Path(os.readlink(f"/proc/self/fd/{fd}")).name


def test_the_program_waits_for_two_flushes_of_the_log_and_meanwhile_the_ledger_is_flushed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = make()
    here, flushes, fsync = threading.get_ident(), list[str](), os.fsync

    def count(fd: int) -> None:
        if threading.get_ident() == here:
            flushes.append(flushed_name(fd))
        fsync(fd)

    for k in (1, 2):
        admitted(records)
        if k == 1:  # from now on, as each later one: the ledger exists
            monkeypatch.setattr(os, "fsync", count)
        records.mark_sent(k)
        records.end(k, answered())
    assert flushes == ["requests.jsonl"] * 4
    records.wait_until_settled()
    assert ledger_of(records).read().open == {}


def test_nothing_is_sent_before_its_reservation_is_durable(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, flushes, may_flush, fsync = make(), list[str](), threading.Event(), os.fsync
    admitted(records)
    records.mark_sent(1)

    def flush_late(fd: int) -> None:
        name = flushed_name(fd)
        if name == "ledger.json":
            assert may_flush.wait(60)
        fsync(fd)
        flushes.append(name)

    monkeypatch.setattr(os, "fsync", flush_late)
    admitted(records)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(records.mark_sent, 2)
        while not flushes:
            pass
        with pytest.raises(TimeoutError):
            sent.result(0.1)
        may_flush.set()
        sent.result(60)
    assert flushes == ["requests.jsonl", "ledger.json"]


def test_a_reservation_that_does_not_reach_the_disk_is_not_sent(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, fsync = make(), os.fsync
    admitted(records)
    records.mark_sent(1)

    def fail(fd: int) -> None:
        if flushed_name(fd) == "ledger.json":
            raise OSError(errno.EIO, "Input/output error")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr(files, "_unsynced", [])
    with pytest.raises(StorageError):
        records.mark_sent(admitted(records).k)


def test_a_settlement_that_is_late_takes_nothing_from_the_next_request(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = make(budgets=(SharedBudget("low", "project", microcents=ONE + 10_000),))
    admitted(records)
    records.mark_sent(1)
    may_settle = threading.Event()

    def settle_late(ledger: ExchangeLedger | None, k: str, reply: Reply) -> None:
        may_settle.wait()
        settle_saved_reply(ledger, k, reply)

    monkeypatch.setattr(gate_records, "settle_saved_reply", settle_late)
    records.end(1, answered())
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(admitted, records)
        with pytest.raises(TimeoutError):
            second.result(0.1)
        may_settle.set()
        assert second.result(60).max_output_tokens == 1000


def test_what_is_recorded_has_no_secrets(make: Make) -> None:
    records = make()
    records.admit(request(), lambda most: json.dumps({"key": KEY}).encode())
    records.mark_sent(1)
    records.end(1, answered(text=f"your key is {KEY}"))
    [exchange] = read_gate(records)
    assert KEY not in json.dumps(exchange)
    assert records.redactions == 1


def test_many_requests_at_once_never_reserve_more_than_the_job_may_spend(make: Make) -> None:
    records = make(allowance=4 * ONE)
    most_open = [0]
    watched = threading.Lock()

    def ask(_: int) -> bool:
        result = records.admit(request(), body)
        if isinstance(result, GateRefusal):
            return False
        view = ledger_of(records).read()
        with watched:
            most_open[0] = max(most_open[0], view.sums[PROJECT].get_total().microcents)
        records.mark_sent(result.k)
        records.end(result.k, answered(100, 1000))
        return True

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(ask, range(12)))
    assert results.count(True) == 4  # each cost as much as it could
    assert most_open[0] <= 4 * ONE
    assert ledger_of(records).read().sums[PROJECT].spent.microcents == 4 * ONE
    error = records.find_run_error()
    assert error is not None
    assert error.kind is ErrorKind.LIMIT


def test_a_request_waits_for_those_that_have_reserved_the_rest(make: Make) -> None:
    records = make(allowance=ONE + 10_000)
    admitted(records)
    records.mark_sent(1)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(records.admit, request(most=600), body)
        with pytest.raises(TimeoutError):
            second.result(0.1)
        records.end(1, answered())
        assert isinstance(second.result(60), Admission)


def test_a_request_that_waits_too_long_is_told_to_come_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_records, "WAIT_SECONDS", 0.0)
    records = make(allowance=ONE + 10_000)
    admitted(records)
    assert refused(records, request(most=600)).reason == "busy"
    assert records.find_run_error() is None
    records.close()
    assert refused(records).reason == "stopped"


def test_the_end_of_a_run_waits_for_answers_that_still_arrive(make: Make) -> None:
    records = make()
    admitted(records)
    records.mark_sent(1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(records.wait_until_idle, 600.0, lambda: False)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        records.end(1, answered())
        waiting.result(60)
    assert (records.usage.source, records.usage.output_tokens) == ("provider", 10)


def test_the_end_of_a_stopped_run_waits_no_longer_than_the_grace(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_records, "GRACE", 0.0)
    records = make()
    admitted(records)
    records.mark_sent(1)
    records.wait_until_idle(600.0, lambda: True)
    records.close()
    assert records.usage.source == "worst_case"


def test_the_answer_is_made_shorter_to_fit_and_below_the_least_the_run_is_over(make: Make) -> None:
    records = make(allowance=100 * 100 + 300 * 200)
    assert admitted(records).max_output_tokens == 300
    records.mark_sent(1)
    records.end(1, answered(100, 250))
    refusal = refused(records)
    assert (refusal.reason, refusal.message) == (
        "limit",
        "after 1 request of fake, the next one could cost more than the job has left",
    )
    assert refused(records, request(1, 1)) == refusal  # also one that would fit


def test_a_budget_that_is_used_up_ends_the_run_by_its_name(make: Make) -> None:
    records = make(budgets=(SharedBudget("few", "project", calls=1),))
    admitted(records)
    records.mark_sent(1)
    records.end(1, answered())
    assert refused(records).reason == "budget"
    error = records.find_run_error()
    assert error is not None
    assert (error.kind, error.budget) == (ErrorKind.OUTAGE, "few")


def test_a_budget_with_little_money_left_makes_the_answer_shorter(make: Make) -> None:
    records = make(budgets=(SharedBudget("low", "project", microcents=100 * 100 + 400 * 200),))
    assert admitted(records).max_output_tokens == 400


@pytest.mark.parametrize(
    ("end", "microcents", "calls"),
    [
        (failed(billed=True), ONE, 1),
        (failed(ErrorKind.BAD_REQUEST, billed=False), 0, 0),
        (GateEnd(ModelAnswer(finish="stop"), "Hello.", 0.1), ONE, 1),  # without usage
    ],
)
def test_what_an_answer_without_usage_is_booked_at(
    make: Make, end: GateEnd, microcents: int, calls: int
) -> None:
    records = make()
    admitted(records)
    records.mark_sent(1)
    records.end(1, end)
    spent = ledger_of(records).read().sums[PROJECT].spent
    assert (spent.microcents, spent.calls) == (microcents, calls)


def test_closing_books_what_was_sent_at_its_highest_cost_and_releases_what_was_not(make: Make) -> None:
    records = make()
    admitted(records)
    admitted(records)
    records.mark_sent(1)
    records.close()
    records.end(1, answered())  # too late: its cost is booked
    assert ledger_of(records).read().open == {}
    assert ledger_of(records).read().sums[PROJECT].spent == Cost(ONE, 0, 1)
    first, second = read_gate(records)
    assert first.response is not None
    assert second.response is not None
    assert first.response["usage"]["source"] == "worst_case"
    assert second.response["usage"]["source"] == "none"


def test_without_a_price_nothing_is_reserved_and_the_output_is_not_shortened(make: Make) -> None:
    records = make(None, model=Model(name="m", provider_model="p/m"))
    assert admitted(records).max_output_tokens == 1000
    assert ledger_of(records).read().sums[PROJECT].reserved == Cost(0, 1100, 1)


def test_refusals_are_counted_until_a_request_is_admitted(make: Make) -> None:
    records = make()
    for reason in ("model", "busy", "request"):
        records.count_refusal(GateRefusal(reason, "no"))
    assert records.refusals_in_a_row == 2
    admitted(records)
    assert records.refusals_in_a_row == 0


def test_the_rate_limits_of_the_provider_apply_to_each_request(make: Make) -> None:
    records = make(rates=(CallRate("p", concurrent=1),))
    admitted(records)
    with ThreadPoolExecutor(2) as pool:
        second = pool.submit(records.admit, request(), body)
        with pytest.raises(TimeoutError):
            second.result(0.3)
        records.mark_sent(1)
        records.end(1, answered())
        assert isinstance(second.result(60), Admission)
        third = pool.submit(records.admit, request(), body)
        with pytest.raises(TimeoutError):
            third.result(0.3)
        records.close()
        refusal = third.result(60)
    assert isinstance(refusal, GateRefusal)
    assert refusal.reason == "stopped"
    assert ledger_of(records).read().open == {}


def test_a_provider_that_asks_to_wait_is_not_asked_by_the_next_request(make: Make) -> None:
    records = make()
    admitted(records)
    records.mark_sent(1)
    error = TransportError(kind=ErrorKind.OUTAGE, message="slow down", http_status=429, retry_after=600.0)
    records.end(
        1,
        GateEnd(
            ModelAnswer(failure=ExchangeFailure(error, billed=False, again=True, retry_after=600.0)), "", 0.1
        ),
    )
    refusal = refused(records)
    assert (refusal.reason, "429" in refusal.message) == ("busy", True)
    assert 590 < (refusal.retry_after or 0) <= 600
    assert ledger_of(records).read().sums[PROJECT].get_total() == Cost(0, 0, 0)
    assert records.count == 1  # not recorded: a program that doesn't wait can't fill the log
    assert records.find_run_error() is None


def test_a_budget_that_changes_during_a_run_applies_to_the_next_request(make: Make) -> None:
    records = make()
    admitted(records)
    assert records.ledger is not None
    assert records.rates is not None
    lower = replace(records.ledger, budgets=(SharedBudget("few", "project", calls=1),))
    limits = {"ledger": lower.to_json(), "rates": records.rates.to_json()}
    inflight.save_limits(records.job.inflight, limits)
    records.mark_sent(1)
    records.end(1, answered())
    assert refused(records).reason == "budget"
