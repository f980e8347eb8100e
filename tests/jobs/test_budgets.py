"""Budgets over many jobs: reserved before each paid exchange, settled after it, and waited for when they are used up."""

from __future__ import annotations

import os
import signal
import threading
from datetime import UTC, datetime, timedelta

import pytest

from logist.agents.courier.reservations import name_ask
from logist.agents.function import FunctionAgent
from logist.core.model import ErrorKind, Kind, Status, TransportError
from logist.core.model.commands import ResubmitCommand
from logist.core.money import money, totals
from logist.core.money.amounts import MICROCENTS
from logist.core.money.budgets import NOTHING, Account, BookedCall, Cost, Sums
from logist.errors import Damaged, Stopped
from logist.jobs import job_queue
from logist.jobs.base import budgets
from logist.jobs.base.budgets import BudgetReached
from logist.jobs.base.project import Clock
from logist.jobs.base.session import open_session
from logist.jobs.doctor.backup import Backup
from logist.jobs.doctor.ledger_checks import find_ledger_problems, repair_ledger
from logist.jobs.step_job import GivenAnswer, do_poststep
from logist.jobs.steward.job_deletion import delete_job
from logist.jobs.steward.steward_decisions import record_decision
from logist.jobs.turn import outages
from logist.jobs.turn.next_request import Choice
from logist.store.ledger import LedgerView
from tests.jobs.bench import Bench, Json, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import paid, waiting_for
from tests.jobs.test_programs import program
from tests.jobs.test_workflow_children import given_away
from tests.jobs.test_working import END, call, step_as_process_of, turn
from tests.loopback import Loopback

DONE: Json = {"text": command(), "usage": {"input": 1000, "output": 100}}
COST = 70_000
"""What DONE costs, in microcents."""
PROJECT = Account("project")


def budgeted(b: Bench, url: str, limits: Json, **settings: object) -> Bench:
    return paid(b, url, budget={"limits": limits}, review={"enabled": False}, **settings)


def read(b: Bench) -> LedgerView:
    return budgets.open_ledger(b.project).read()


def read_project(b: Bench) -> Sums:
    return read(b).sums.get(PROJECT, Sums())


def test_each_paid_exchange_is_booked_without_any_budget(bench: MakeBench) -> None:
    with Loopback(DONE) as server:
        b = paid(bench(), server.url)
        b.create(tags=["nightly", "docs"])
        b.step()
    view = read(b)
    assert view.open == {}
    expected = Sums(Cost(COST, 1100, 1))
    for scope in ("project", "provider openai", "model openai/worker-model", "tag nightly", "tag docs"):
        assert view.sums[Account(scope)] == expected
    entries = list(budgets.open_ledger(b.project).read_entries())
    assert [entry.kind for entry in entries] == ["reserve", "settle"]
    assert entries[0].cost.microcents > COST
    assert (b.project.home / "ledger" / ".gitignore").read_text() == "*\n"


def test_an_agent_that_costs_nothing_books_nothing(bench: MakeBench) -> None:
    b = bench([{"text": command()}], {"budget": {"limits": {"none": {"calls": 0}}}})
    b.create()
    assert b.step().wait is None
    assert not (b.project.home / "ledger").exists()


@pytest.mark.parametrize("amount", [{"calls": 1}, {"tokens": 50_000}, {"cost": 5}])
def test_a_job_waits_for_a_budget_that_is_used_up_and_continues_when_it_is_raised(
    bench: MakeBench, amount: Json
) -> None:
    """The first call is allowed in each case; it costs all of the calls, or so much that the next one may not fit."""
    big = {"text": command(), "usage": {"input": 20_000, "output": 19_000}}
    with Loopback(big, DONE) as server:
        b = budgeted(bench(), server.url, {"all": amount})
        b.create("a")
        b.create("b")
        assert b.step("a").exit_code != 7
        result = b.step("b")
        assert (result.exit_code, result.state.status, result.entries) == (7, Status.PENDING, ())
        assert result.wait is not None
        assert (result.wait.budget, result.wait.reason) == ("all", "used up")
        assert result.wait.describe() == "budget all, used up"
        assert "budget all: " in result.wait.message
        assert b.step("b").wait == result.wait
        [held] = job_queue.find_held_up_jobs(b.project, {"a"})
        assert (held.exit_code, held.next_command) == (7, "logist budget show")
        assert "PENDING, waits for budget all, used up (budget all: " in held.waits
        assert len(server.requests) == 1
        assert read(b).open == {}
        name, number = next(iter(amount.items()))
        budgeted(b, server.url, {"all": {name: number * 100}})
        assert b.step("b").wait is None
    assert len(server.requests) == 2
    assert not (b.folder("b") / "provider-wait.json").exists()


def test_the_output_is_fitted_into_what_is_left_of_a_budget(bench: MakeBench) -> None:
    with Loopback(DONE) as server:
        b = budgeted(bench(), server.url, {"all": {"cost": 1}})
        b.create()
        assert b.step().wait is None
    most = server.requests[0].body["max_tokens"]
    assert 2048 <= most < 8192
    [reserved, _] = budgets.open_ledger(b.project).read_entries()
    assert reserved.cost.microcents <= MICROCENTS


@pytest.mark.parametrize(
    ("limit", "waits"),
    [
        ({"model": "grok-code-fast-1", "calls": 0}, True),
        ({"model": "openai/worker-model", "calls": 0}, True),
        ({"model": "gemini-2.5-flash", "calls": 0}, False),
        ({"provider": "openai", "calls": 0}, True),
        ({"provider": "anthropic", "calls": 0}, False),
        ({"tag": "nightly", "calls": 0}, True),
        ({"tag": "weekly", "calls": 0}, False),
        ({"per": "run", "calls": 0}, False),
    ],
)
def test_a_budget_is_only_about_what_it_names(bench: MakeBench, limit: Json, *, waits: bool) -> None:
    with Loopback(DONE) as server:
        b = budgeted(bench(), server.url, {"some": limit})
        b.create(tags=["nightly"])
        assert (b.step().wait is not None) == waits


def test_a_run_may_cost_no_more_than_its_option_says_and_the_next_run_has_its_own(bench: MakeBench) -> None:
    big = {"text": command(), "usage": {"input": 1000, "output": 8000}}
    with Loopback(big, DONE, DONE) as server:
        b = budgeted(bench(), server.url, {})
        b.change(run_id="2026-01-02T03-04-05-1", max_cost=2 * MICROCENTS)
        for job_id in "ab":
            b.create(job_id)
        ended = list(job_queue.run_queue(b.project, 1, lambda _: None, Choice(command="run")))
        waits = {end.job_id: end.result.wait for end in ended if end.result}
        assert waits["a"] is None
        assert waits["b"] is not None
        assert waits["b"].budget == "--max-cost"
        assert job_queue.list_ready_jobs(b.project) == []
        b.change(run_id="2026-01-02T03-04-05-2")
        assert job_queue.list_ready_jobs(b.project) == ["b"]
        assert b.step("b").wait is None


def test_paid_turns_stay_in_flight_while_a_budget_is_used_up(bench: MakeBench) -> None:
    """The second exchange of the ask is not allowed; when it is, the model continues after its first turn."""
    make = turn(call("create_file", path="made.txt", content="made\n"))
    with Loopback(make, END) as server:
        b = budgeted(bench(), server.url, {"few": {"calls": 1}})
        b.create()
        result = b.step()
        assert (result.exit_code, result.state.status, result.entries) == (7, Status.PENDING, ())
        assert result.wait is not None
        assert result.wait.budget == "few"
        assert b.step().wait == result.wait
        assert (len(server.requests), len(b.history())) == (1, 1)
        assert (read(b).open, read_project(b).spent.calls) == ({}, 1)
        budgeted(b, server.url, {"few": {"calls": 2}})
        assert b.step().wait is None
    assert len(server.requests) == 2
    assert server.requests[1].body["messages"][:2] == server.requests[0].body["messages"][:2]
    [_, entry] = b.history()
    spent = read_project(b).spent
    assert spent.calls == 2
    assert spent.microcents == entry.usage.cost_cents * MICROCENTS + entry.usage.cost_microcents


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("decision", ["assume_paid", "retry", "supplied"])
def test_a_killed_couriers_reservation_stays_until_the_doubt_is_resolved(
    bench: MakeBench, decision: str
) -> None:
    with Loopback({**DONE, "delay": 300}) as server:
        b = budgeted(bench(), server.url, {})
        b.create()
        stepper = step_as_process_of(b, server)
        job = b.project.open_job("j")
        waiting_for((job.inflight / "1.sent").exists)
        holder = job.find_lock_holder()
        assert holder is not None
        assert holder.courier is not None
        os.kill(holder.courier.pid, signal.SIGKILL)
        stepper.wait()
    b.step()
    [open_call] = read(b).open.values()
    assert b.state().status is Status.STUCK
    for kind in (Kind.SUSPEND, Kind.RESUME):
        record_decision(b.project, "j", kind)
        assert [*read(b).open.values()] == [open_call]
    if decision == "supplied":
        given = GivenAnswer(command(), charge=money.build_charge(3))
        do_poststep(b.project, "j", given, Choice())
    else:
        record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt=decision))
    known = {"assume_paid": open_call.cost.microcents, "retry": 0, "supplied": 3 * MICROCENTS}[decision]
    view = read(b)
    assert (view.open, view.sums[PROJECT].spent.microcents) == ({}, known)
    assert read_project(b).spent.microcents == totals.get_microcents(b.state().usage)


def test_the_command_that_collects_an_answer_settles_it(bench: MakeBench) -> None:
    """As if the courier was killed between saving the answer and settling it."""
    gate = threading.Event()  # an answer before the command detaches would be recorded at once
    with Loopback({**DONE, "gate": gate}) as server:
        b = budgeted(bench(), server.url, {})
        b.create()
        b.change(detach=True)
        b.step()
        gate.set()
        job = b.project.open_job("j")
        waiting_for((job.inflight / "1.response").exists)
        waiting_for(lambda: job.find_lock_holder() is None)
        ledger = budgets.open_ledger(b.project)
        [reserved, _] = list(ledger.read_entries())
        ledger.replace([reserved])
        assert len(read(b).open) == 1
        b.change(detach=False)
        b.step()
    assert read(b).open == {}
    assert read_project(b).spent.microcents == COST


def test_a_reservation_without_a_request_on_disk_is_released(bench: MakeBench) -> None:
    """As if the command was killed after it had reserved."""
    with Loopback(DONE) as server:
        b = budgeted(bench(), server.url, {"one": {"calls": 1}})
        b.create()
        ask_id = name_ask("j", b.history()[-1].checksum, 2)
        call_ = BookedCall(f"{ask_id}/1", "j", "2026-01-02")
        assert budgets.open_ledger(b.project).reserve(call_, Cost(5, 5, 1), [], "") is None
        assert b.step().wait is None
    assert read_project(b) == Sums(Cost(COST, 1100, 1))


def test_a_call_of_an_earlier_job_with_the_same_id_stays_booked(bench: MakeBench) -> None:
    """As if the directory of the earlier job was removed by hand while its call was in doubt."""
    with Loopback(DONE) as server:
        b = budgeted(bench(), server.url, {})
        b.create()
        earlier = BookedCall("j/0123456789abcdef/1", "j", "2026-01-02")
        assert budgets.open_ledger(b.project).reserve(earlier, Cost(5, 5, 1), [], "") is None
        b.step()
    assert read_project(b) == Sums(Cost(COST + 5, 1105, 2))


def test_an_agent_that_costs_nothing_needs_no_ledger(bench: MakeBench) -> None:
    b = bench([{"text": command()}])
    b.create()
    folder = budgets.open_ledger(b.project).folder
    folder.mkdir()
    (folder / "ledger.json").write_bytes(b"damaged")
    assert b.step().entries


def at(b: Bench, moment: datetime) -> None:
    b.change(clock=Clock(lambda: moment, b.project.clock.monotonic))


def test_a_daily_budget_begins_again_at_midnight_and_a_clock_that_goes_back_spends_no_more(
    bench: MakeBench,
) -> None:
    with Loopback(DONE, DONE, DONE) as server:
        b = budgeted(bench(), server.url, {"daily": {"calls": 1, "per": "day"}})
        settings = b.project.settings
        rules = settings.budget.model_copy(update={"timezone": "Europe/Berlin"})
        b.change(settings=settings.model_copy(update={"budget": rules}))
        for job_id in "abc":
            b.create(job_id)
        late = datetime(2026, 3, 28, 22, 30, tzinfo=UTC)  # 23:30 in Berlin, the day before summer time
        at(b, late)
        assert b.step("a").wait is None
        wait = b.step("b").wait
        assert wait is not None
        assert wait.pause == 1800
        at(b, late + timedelta(minutes=29))
        assert b.step("b").wait == wait
        at(b, late + timedelta(minutes=31))
        assert b.step("b").wait is None
        at(b, late)
        assert b.step("c").wait is not None
        at(b, late + timedelta(minutes=31))
        wait = b.step("c").wait
        assert wait is not None
        assert wait.pause == 22 * 3600 + 59 * 60  # this day has 23 hours
        assert len(server.requests) == 2
    assert read_project(b).spent.calls == 2


def test_a_budget_that_was_used_up_just_before_midnight_is_not_waited_for_until_the_next(
    bench: MakeBench,
) -> None:
    """The refusal is of the day before; the wait begins after midnight."""
    with Loopback(DONE) as server:
        b = budgeted(bench(), server.url, {"daily": {"calls": 1, "per": "day", "cost": 1000}})
        rules = b.project.settings.budget.model_copy(update={"timezone": "UTC"})
        b.change(settings=b.project.settings.model_copy(update={"budget": rules}))
        b.create()
        at(b, datetime(2026, 3, 29, 0, 0, tzinfo=UTC))
        with open_session(b.project, "j", "job step") as session:
            for period, pause in (("2026-03-28", 0.0), ("2026-03", 86_400.0), ("2026-03-29", 86_400.0)):
                error = TransportError(
                    kind=ErrorKind.OUTAGE, message="used up", budget="daily", budget_period=period
                )
                wait = outages.begin_budget_wait(session, BudgetReached(error, "Worker"))
                assert wait.pause == pause
                assert outages.is_due(b.project, wait) == (pause == 0.0)


def test_a_step_that_is_stopped_before_its_call_keeps_nothing_reserved(bench: MakeBench) -> None:
    with Loopback(DONE) as server:
        b = budgeted(bench(), server.url, {})
        b.create()
        b.change(stopping=lambda: 130 if read(b).open else 0)
        with pytest.raises(Stopped):
            b.step()
        view = read(b)
        assert (view.open, view.sums[PROJECT], server.requests) == ({}, Sums(), [])


def test_reservations_of_running_calls_make_a_job_wait_only_for_a_moment(bench: MakeBench) -> None:
    with Loopback(DONE) as server:
        b = budgeted(bench(), server.url, {"one": {"calls": 1}})
        b.create()
        ledger = budgets.open_ledger(b.project)
        other = BookedCall("other/0/1", "other", "2026-01-02")
        assert ledger.reserve(other, Cost(0, 0, 1), [], "") is None
        wait = b.step().wait
        assert wait is not None
        assert (wait.reason, wait.pause) == ("reserved", 5.0)
        assert ledger.settle({"other/0/1": NOTHING}, "") == 1
        assert b.step(provider_wait=60).wait is None


@pytest.mark.parametrize("damaged", [b'"kind":"reserve"', b'"kind":"settle"', b'"version":1', b""])
def test_a_repair_restores_what_the_histories_prove(bench: MakeBench, damaged: bytes) -> None:
    """Also if the damage is in the middle: the entries after it have their own checksums."""
    with Loopback(DONE, DONE) as server:
        b = budgeted(bench(), server.url, {}, approval="none")
        for job_id in "ab":
            b.create(job_id, tags=["nightly"])
            b.step(job_id)
        before = read(b)
        ledger = budgets.open_ledger(b.project)
        deleted = BookedCall("gone/0123456789abcdef/1", "gone", "2026-01-02")
        assert ledger.reserve(deleted, Cost(9, 9, 1), [], "2026-01-02T03:04:05Z") is None
        ledger.settle({deleted.id: Cost(8, 8, 1)}, "2026-01-02T03:04:05Z")
        file = ledger.folder / "ledger.json"
        file.write_bytes(file.read_bytes().replace(damaged, b"x" * len(damaged), 1) if damaged else b"")
        [problem] = find_ledger_problems(b.project)
        assert (problem.level, problem.exit_code) == ("error", 10)
        b.create("c")
        if damaged in (b"", b'"version":1'):  # a reservation reads only the end
            with pytest.raises(Damaged, match="the ledger is damaged"):
                b.step("c")
        repair_ledger(b.project, problem.paths, Backup(b.project))
        [fine] = find_ledger_problems(b.project)
        assert fine.level == "ok"
        after = read(b)
        gone = 8 if damaged else 0
        assert after.open == {}
        assert after.sums[PROJECT].spent.microcents == before.sums[PROJECT].spent.microcents + gone
        assert after.sums[Account("tag nightly")].spent.calls == 2
        assert after.sums[Account("model openai/worker-model")].spent.calls == 2
        assert not b.history("c")[1:]
        assert len(server.requests) == 2


def test_what_a_deleted_job_spent_stays(bench: MakeBench) -> None:
    with Loopback(DONE) as server:
        b = budgeted(bench(), server.url, {}, approval="none")
        b.create()
        assert b.step().state.status is Status.SUCCESS
    ask_id = name_ask("j", b.history()[-1].checksum, 3)
    never_sent = BookedCall(f"{ask_id}/7", "j", "2026-01-02")
    assert budgets.open_ledger(b.project).reserve(never_sent, Cost(5, 5, 1), [], "") is None
    delete_job(b.project, "j", force=True)
    assert (read(b).open, read_project(b).spent.calls) == ({}, 1)


def test_a_child_job_counts_for_the_tags_of_its_parent(bench: MakeBench) -> None:
    b = bench(settings={"review": {"enabled": False}})
    child = given_away(b, "one", tags=["nightly"], input={"who": "me"})[0]
    with Loopback(DONE) as server:
        budgeted(b, server.url, {"few": {"tag": "nightly", "calls": 0}})
        wait = b.step(child).wait
        assert wait is not None
        assert wait.budget == "few"


def test_an_agent_program_gets_a_part_of_a_budget_which_is_reserved_while_it_runs(bench: MakeBench) -> None:
    b = program(budgeted(bench(), "http://127.0.0.1:9/v1", {"all": {"cost": 60}}))
    b.create("a")
    b.create("b")
    assert b.step("a").wait is None
    [reserved, settled] = budgets.open_ledger(b.project).read_entries()
    assert reserved.cost == Cost(20 * MICROCENTS, 0, 1)  # of three agents that may run at once
    assert settled.cost == Cost(COST, 1100, 1)
    budgets.open_ledger(b.project).book(BookedCall("x/y/1", "x", "2026-01-02"), Cost(60 * MICROCENTS), "")
    wait = b.step("b").wait
    assert wait is not None
    assert wait.budget == "all"


def test_a_python_function_is_booked_as_it_may_call_a_paid_service(bench: MakeBench) -> None:
    b = budgeted(bench(), "http://127.0.0.1:9/v1", {"few": {"calls": 1}})
    used = FunctionAgent(lambda request: command())
    b.change(agent="function", function=used)
    for job_id in "ab":
        b.create(job_id)
    assert b.step("a").wait is None
    assert read_project(b).spent.calls == 1
    wait = b.step("b").wait
    assert wait is not None
    assert wait.budget == "few"
