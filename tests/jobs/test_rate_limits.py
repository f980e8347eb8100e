"""Rate limits: jobs that call the same provider wait for each other, and for what it asked one of them."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from logist.config.settings import CurrentSettings, Settings, resolve_model
from logist.core.model import Status
from logist.core.money.budgets import NOTHING, Account, Sums
from logist.errors import InvalidFile, Stopped, StorageError
from logist.jobs import job_queue
from logist.jobs.base import budgets
from logist.jobs.base.call_limits import bind_call_rates
from logist.jobs.base.project import Clock
from logist.jobs.turn.next_request import Choice
from logist.store.call_rates import PAUSED, CallRate, CallRates, CallWait, Permit
from logist.store.progress import Activity, read_last_record
from logist.store.progress_text import format_progress
from tests.jobs.bench import Bench, Json, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import paid, waiting_for
from tests.jobs.test_working import END, call, turn
from tests.loopback import Loopback, Received

DONE: Json = {"text": command(), "usage": {"input": 10, "output": 10}}
REAL = Clock(lambda: datetime.now(UTC), time.monotonic)


def limited(b: Bench, server: Loopback, limits: Json, **settings: object) -> Bench:
    paid(b, server.url, rate_limits=limits, review={"enabled": False}, **settings)
    b.change(clock=REAL)
    return b


def rates_of(b: Bench, server: Loopback) -> CallRates:
    """The limits as another caller of the same server has them."""
    model = resolve_model(b.project.settings, "grok-code-fast-1")
    return bind_call_rates(b.project, model, f"openai at {server.url.split('/')[2]}")


def take_permit(b: Bench, server: Loopback) -> Permit:
    permit = rates_of(b, server).try_begin()
    assert isinstance(permit, Permit)
    return permit


class Crowded(Loopback):
    """Holds all answers back until as many calls are at work as the limit allows."""

    def __init__(self, most: int, *steps: Json) -> None:
        super().__init__(*steps)
        self.most, self.is_full = most, threading.Event()

    def take(self, received: Received) -> Json:
        step = super().take(received)
        if self.most_at_work >= self.most:
            self.is_full.set()
        return step | {"gate": self.is_full}


@pytest.mark.parametrize("name", ["openai", "openai/worker-model", "grok-code-fast-1"])
def test_sixteen_couriers_never_make_more_calls_at_a_time_than_allowed(bench: MakeBench, name: str) -> None:
    count = 16 if name == "openai" else 6
    most = count // 4 + 1
    with Crowded(most, DONE | {"delay": 0.3}) as server:
        b = limited(bench(), server, {name: {"concurrent": most}})
        for number in range(count):
            b.create(f"j{number}")
        ended = list(job_queue.run_queue(b.project, count, lambda _: None, Choice(command="run")))
    assert [each.error for each in ended] == [None] * count
    assert len(server.requests) == count
    assert server.most_at_work == most


def test_a_killed_courier_frees_its_place(bench: MakeBench) -> None:
    with Loopback({**DONE, "delay": 300}, DONE) as server:
        b = limited(bench(), server, {"openai": {"concurrent": 1}})
        b.create("a")
        b.create("b")
        b.change(detach=True)
        b.step("a")
        server.wait_for(1)
        assert isinstance(rates_of(b, server).try_begin(), CallWait)
        holder = b.project.open_job("a").find_lock_holder()
        assert holder is not None
        assert holder.courier is not None
        os.kill(holder.courier.pid, signal.SIGKILL)
        b.change(detach=False)
        assert b.step("b").exit_code in (0, 11)
    assert len(server.requests) == 2


def test_calls_a_minute_are_kept(bench: MakeBench) -> None:
    """The second call of the minute waits, and is stopped before it is sent."""
    with Loopback(DONE) as server:
        b = limited(bench(), server, {"openai": {"calls_per_minute": 1}})
        b.create("a")
        b.create("b")
        b.step("a")
        stop_when_waiting(b, "b")
        with pytest.raises(Stopped):
            b.step("b")
    assert len(server.requests) == 1


def stop_when_waiting(b: Bench, job_id: str) -> list[str]:
    """Press Ctrl-C as soon as the job waits; return the list that then has what is shown about it."""
    words: list[str] = []

    def stop() -> int:
        if not words and is_waiting(b, job_id):
            record = read_last_record(b.project.open_job(job_id).inflight)
            words.extend([] if record is None else [format_progress(record, 1)])
        return 130 if words else 0

    b.change(stopping=stop)
    return words


def is_waiting(b: Bench, job_id: str = "j") -> bool:
    record = read_last_record(b.project.open_job(job_id).inflight)
    return record is not None and record.activity == Activity.WAITING


def test_a_stopped_wait_makes_no_call_and_uses_no_attempt(bench: MakeBench) -> None:
    with Loopback(DONE) as server:
        b = limited(bench(), server, {"openai": {"concurrent": 1}})
        b.create()
        permit = take_permit(b, server)
        words = stop_when_waiting(b, "j")
        with pytest.raises(Stopped):
            b.step()
        assert words == ["Worker (1 s): waiting for openai: 1 of 1 call running"]
        assert (server.requests, len(b.history()), b.state().place.attempts) == ([], 1, 0)
        assert any("unpaid: the next request, which is not sent" in said for said in b.said)
        permit.release()
        b.change(stopping=lambda: 0)
        result = b.step()
        assert result.state.status is Status.APPROVAL_REQUIRED
        assert budgets.open_ledger(b.project).read().open == {}
    assert len(server.requests) == 1


def test_a_killed_courier_that_waited_is_not_in_doubt(bench: MakeBench) -> None:
    with Loopback(DONE) as server:
        b = limited(bench(), server, {"openai": {"concurrent": 1}})
        b.create()
        permit = take_permit(b, server)
        b.change(detach=True)
        b.step()
        waiting_for(lambda: is_waiting(b))
        holder = b.project.open_job("j").find_lock_holder()
        assert holder is not None
        assert holder.courier is not None
        os.kill(holder.courier.pid, signal.SIGKILL)
        permit.release()
        b.change(detach=False)
        assert b.step().state.status is Status.APPROVAL_REQUIRED
    assert (len(server.requests), len(b.history())) == (1, 2)


def test_a_wait_takes_nothing_from_the_time_of_the_answer(bench: MakeBench) -> None:
    """The deadline is three seconds; the call waits for longer before it begins."""
    with Loopback(DONE) as server:
        b = limited(bench(), server, {"openai": {"concurrent": 1}}, agent_timeout_minutes=3 / 60)
        b.create()
        permit = take_permit(b, server)
        timer = threading.Timer(3.2, permit.release)
        timer.start()
        result = b.step()
        timer.join()
    assert result.state.status is Status.APPROVAL_REQUIRED


def test_what_a_provider_asks_one_job_holds_the_others(bench: MakeBench) -> None:
    busy: Json = {"status": 429, "message": "slow down", "headers": {"retry-after": "100"}}
    with Loopback(busy, DONE) as server:
        b = limited(bench(), server, {})
        b.create("a")
        b.create("b")
        first, second = b.step("a").wait, b.step("b").wait
        assert first is not None
        assert second is not None
        assert (second.provider, second.reason, second.message) == (first.provider, "429", PAUSED)
        assert 90 < second.pause <= 100
        assert (len(server.requests), len(b.history("b"))) == (1, 1)
        (b.project.home / "rates" / "state.json").unlink()
        (b.folder("b") / "provider-wait.json").unlink()
        assert b.step("b").wait is None
    assert len(server.requests) == 2


@pytest.mark.parametrize("seconds", [1.0, 200.0])
def test_a_pause_between_two_turns_is_waited_for_by_the_courier_or_the_job(
    bench: MakeBench, seconds: float
) -> None:
    """A short one by the courier; with a long one, the turns so far stay in flight."""
    gate = threading.Event()
    make = turn(call("create_file", path="made.txt", content="made\n")) | {"gate": gate}
    with Loopback(make, END) as server:
        b = limited(bench(), server, {})
        b.create()
        with ThreadPoolExecutor(1) as pool:
            step = pool.submit(b.step)
            server.wait_for(1)
            rates_of(b, server).ask_to_wait(seconds, "503")
            gate.set()
            wait = step.result().wait
        if seconds == 1.0:
            assert (wait, len(server.requests)) == (None, 2)
            return
        assert wait is not None
        assert (wait.reason, wait.message) == ("503", PAUSED)
        assert (len(server.requests), len(b.history())) == (1, 1)
        (b.project.home / "rates" / "state.json").unlink()
        (b.folder() / "provider-wait.json").unlink()
        assert b.step().wait is None
    assert len(server.requests) == 2
    assert budgets.open_ledger(b.project).read().sums[Account("project")] != Sums(NOTHING)


@pytest.mark.parametrize("changed", ["rates", "budget", "nonsense"])
def test_limits_that_change_during_a_step_apply_to_the_next_turn(bench: MakeBench, changed: str) -> None:
    gate = threading.Event()
    make = turn(call("create_file", path="made.txt", content="made\n")) | {"gate": gate}
    with Loopback(make, END) as server:
        b = limited(bench(), server, {})
        later: Json = {
            "rates": {"rate_limits": {"openai": {"concurrent": 1}}},
            "budget": {"budget": {"limits": {"few": {"calls": 1}}}},
            "nonsense": {"rate_limits": {"opnai": {"concurrent": 1}}},
        }
        values = b.project.settings.model_dump(mode="json") | later[changed]
        file = b.project.home / "config.yaml"
        b.change(current_settings=CurrentSettings([file], lambda: Settings.model_validate(values)))
        b.create()
        with ThreadPoolExecutor(1) as pool:
            step = pool.submit(b.step)
            server.wait_for(1)
            file.write_text("changed")
            if changed != "nonsense":
                waiting_for((b.project.open_job("j").inflight / "limits").exists)
            permit = take_permit(b, server) if changed == "rates" else Permit()
            gate.set()
            if changed == "rates":
                waiting_for(lambda: is_waiting(b))
            permit.release()
            wait = step.result().wait
        assert (wait.budget if wait else None) == ("few" if changed == "budget" else None)
    assert len(server.requests) == (1 if changed == "budget" else 2)


@pytest.mark.parametrize(
    ("limits", "where", "fix"),
    [
        ({"opnai": {"concurrent": 1}}, "rate_limits.opnai", "did you mean `openai`? Or write PROVIDER/MODEL"),
        ({"nothing-like-it": {"concurrent": 1}}, "rate_limits.nothing-like-it", "Or write PROVIDER/MODEL"),
    ],
)
def test_a_limit_of_an_unknown_provider_is_refused_before_anything_is_written(
    bench: MakeBench, limits: Json, where: str, fix: str
) -> None:
    with Loopback(DONE) as server:
        b = limited(bench(), server, limits)
        b.create()
        before = b.files()
        with pytest.raises(InvalidFile) as caught:
            b.step()
    assert (caught.value.where, b.files()) == (where, before)
    assert fix in str(caught.value.fix)
    assert server.requests == []


def test_limits_that_can_not_be_kept_are_reported_before_anything_is_sent(bench: MakeBench) -> None:
    with Loopback(DONE) as server:
        b = limited(bench(), server, {"openai": {"concurrent": 1}})
        b.create()
        before = b.files()
        (b.project.home / "rates").symlink_to(b.project.home / "elsewhere")
        with pytest.raises(StorageError, match="is a symbolic link; Logist needs a directory here"):
            b.step()
    assert (server.requests, b.files()) == ([], before)


def test_of_two_names_for_one_model_the_lowest_numbers_count(bench: MakeBench) -> None:
    """Else a call would take two places."""
    limits: Json = {
        "grok-code-fast-1": {"concurrent": 2, "calls_per_minute": 60},
        "openai/worker-model": {"concurrent": 3},
    }
    with Loopback(DONE) as server:
        b = limited(bench(), server, limits)
        assert rates_of(b, server).limits == (CallRate("openai/worker-model", 2, 60),)


def test_a_model_with_the_name_of_a_provider_does_not_end_its_limit(bench: MakeBench) -> None:
    with Loopback(DONE) as server:
        b = limited(bench(), server, {"openai": {"concurrent": 1}})
        values = b.project.settings.model_dump(mode="json")
        values["models"]["openai"] = {"provider_model": "xai/grok-4", "input_price": 1, "output_price": 1}
        b.change(settings=Settings.model_validate(values))
        assert [each.of for each in rates_of(b, server).limits] == ["openai"]
