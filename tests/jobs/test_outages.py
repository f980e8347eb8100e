"""Outages of providers: jobs wait, no attempt is used, nothing is recorded, and other jobs continue."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from logist.config.environment import Environment
from logist.config.sections import Retries
from logist.config.settings import Settings
from logist.core.model import Status
from logist.errors import InvalidFile, ProviderError
from logist.jobs import job_queue
from logist.jobs.base.breakers import PROBE_SECONDS, ProviderBreakers
from logist.jobs.base.project import Clock
from logist.jobs.job_queue import EndedJob
from logist.jobs.turn.next_request import Choice
from logist.jobs.turn.outages import GIVEN_UP_PAUSE, LONGEST_PAUSE, choose_pause
from logist.store import WAIT as NAME
from logist.store.provider_wait import ProviderWait, read_wait
from tests.jobs.bench import Bench, Json, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import KEY, models, paid
from tests.loopback import Loopback

BUSY: Json = {"status": 503, "message": "overloaded"}
DONE: Json = {"text": command(), "usage": {"input": 10, "output": 10}}
NOWHERE = "http://127.0.0.1:1/v1"


def impatient(b: Bench, url: str, **retries: object) -> Bench:
    return paid(b, url, retries={"max_tries": 1, "backoff_seconds": 0.01, **retries})


def test_an_outage_uses_no_attempt_and_is_not_recorded(bench: MakeBench) -> None:
    with Loopback(*[BUSY] * 3, DONE) as server:
        b = impatient(bench(), server.url, backoff_seconds=100)
        b.create()
        before = b.files()
        first = b.step()
        assert (first.exit_code, first.state.status, first.state.place.attempts) == (6, Status.PENDING, 0)
        assert first.entries == ()
        assert first.wait is not None
        assert (first.wait.reason, first.wait.tries, first.wait.gave_up) == ("503", 1, False)
        left = {name: data for name, data in b.files().items() if not name.startswith(("git/", "logs/"))}
        assert set(left) - set(before) == {NAME}
        assert b.step().wait == first.wait  # not due: nothing is sent
        assert len(server.requests) == 1
        (b.folder() / NAME).unlink()  # harmless: the next step tries at once
        second = b.step()
        assert len(server.requests) == 2
        assert second.wait is not None
        assert second.wait.tries == 1
        result = b.step(provider_wait=600)
    assert len(server.requests) == 4
    assert result.state.status is Status.REVIEW_REQUIRED
    assert [entry.sequence for entry in b.history()] == [1, 2]
    assert not (b.folder() / NAME).exists()


def test_a_refused_connection_waits_too(bench: MakeBench) -> None:
    b = impatient(bench(), NOWHERE)
    b.create()
    result = b.step()
    assert result.wait is not None
    assert (result.exit_code, result.wait.reason) == (6, "no connection")
    assert len(b.history()) == 1


def test_a_person_who_has_started_the_server_need_not_wait(bench: MakeBench) -> None:
    b = impatient(bench(), NOWHERE, backoff_seconds=100)
    b.create()
    waits = [b.step().wait for _ in range(3)]
    assert [wait and wait.tries for wait in waits] == [1, 2, 3]
    assert run_queue(b) == []
    assert b.step().wait != waits[-1]


def test_a_wait_that_is_over_names_no_time() -> None:
    wait = ProviderWait("openai", 1, reason="503", began=time.time(), pause=60)
    assert wait.describe().startswith("openai until ")
    assert wait._replace(began=wait.began - 61).describe() == "openai, 503"


def test_what_may_have_been_charged_is_an_attempt_as_before(bench: MakeBench) -> None:
    with Loopback({"status": 504, "message": "late"}) as server:
        b = impatient(bench(), server.url)
        b.create()
        result = b.step(provider_wait=60)
    assert (result.wait, len(result.entries), result.state.place.attempts) == (None, 1, 1)
    assert result.entries[0].usage.source == "worst_case"


def test_after_the_longest_wait_a_person_who_steps_tries_again(bench: MakeBench) -> None:
    with Loopback(BUSY, BUSY, DONE) as server:
        b = impatient(bench(), server.url, max_wait_minutes=0)
        b.create()
        for requests in (1, 2):
            result = b.step(provider_wait=60)
            assert result.wait is not None
            assert (result.exit_code, result.wait.gave_up) == (6, True)
            assert (len(server.requests), result.state.status) == (requests, Status.PENDING)
            [held] = job_queue.find_held_up_jobs(b.project)
            assert held.exit_code == 6
            assert "waits for its provider: openai at 127.0.0.1" in held.waits
        assert b.step().exit_code == 0


def test_another_provider_is_not_waited_for(bench: MakeBench) -> None:
    with Loopback(BUSY) as down, Loopback(DONE) as up:
        b = impatient(bench(), down.url)
        b.create()
        assert b.step().wait is not None
        impatient(b, up.url)
        assert b.step(provider_wait=0).exit_code == 0


def two_providers(b: Bench, down: str, up: str) -> Bench:
    """The model of the Worker is down, that of the Supervisor is up."""
    impatient(b, down)
    entries = models(down)
    entries["gemini-2.5-flash"] |= {"endpoint": up}
    retries = {"max_tries": 1, "backoff_seconds": 100}
    values: Json = {"models": entries, "retries": retries, "review": {"enabled": False}}
    b.change(settings=Settings.model_validate(values))
    return b


def run_queue(b: Bench, seconds: float = 0.0, parallel: int = 1) -> list[EndedJob]:
    choice = Choice(command="run", provider_wait=seconds)
    return list(job_queue.run_queue(b.project, parallel, lambda _: None, choice))


def test_a_run_calls_a_provider_that_is_down_once_and_other_jobs_continue(bench: MakeBench) -> None:
    with Loopback(BUSY) as down, Loopback(DONE) as up:
        b = two_providers(bench(), down.url, up.url)
        b.create("a")
        b.create("b")
        b.create("c", role="Supervisor")
        ended = {end.job_id: end for end in run_queue(b)}
        waits = {job_id: end.result and end.result.wait for job_id, end in ended.items()}
    assert len(down.requests) == 1
    assert len(up.requests) == 1
    assert waits["c"] is None
    assert isinstance(waits["a"], ProviderWait)
    assert isinstance(waits["b"], ProviderWait)
    assert waits["b"].reason == "no answer for another job"
    assert [len(b.history(job_id)) for job_id in "abc"] == [1, 1, 2]


def test_a_run_waits_for_its_last_jobs_and_tries_each_once_the_provider_answers(bench: MakeBench) -> None:
    with Loopback(BUSY, DONE) as server:
        b = impatient(bench(), server.url)
        b.change(
            settings=b.project.settings.model_copy(
                update={"review": Settings().review.model_copy(update={"enabled": False})}
            )
        )
        b.create("a")
        b.create("b")
        last = {end.job_id: end.exit_code for end in run_queue(b, 60)}
    assert last == {"a": 11, "b": 11}
    assert len(server.requests) == 3


REAL = Clock(lambda: datetime.now(UTC), time.monotonic)


def test_a_job_that_lets_another_one_try_follows_once_that_has_an_answer(bench: MakeBench) -> None:
    with Loopback(DONE) as server:
        b = impatient(bench(), server.url)
        breakers = ProviderBreakers(time.monotonic)
        b.change(clock=REAL, breakers=breakers)
        b.create()
        provider = f"openai at {server.url.split('/')[2]}"
        breakers.open(provider, 0.0)
        assert breakers.claim_call(provider) == 0.0  # another job tries
        wait = b.step().wait
        assert wait is not None
        assert PROBE_SECONDS - 5 < wait.pause <= PROBE_SECONDS
        assert job_queue.list_ready_jobs(b.project) == []
        breakers.close(provider)
        assert job_queue.list_ready_jobs(b.project) == ["j"]
        assert b.step().wait is None


def test_an_answer_to_another_job_does_not_shorten_what_the_provider_wants(bench: MakeBench) -> None:
    with Loopback(BUSY | {"headers": {"retry-after": "100"}}) as server:
        b = impatient(bench(), server.url)
        breakers = ProviderBreakers(time.monotonic)
        b.change(clock=REAL, breakers=breakers)
        b.create()
        wait = b.step().wait
        assert wait is not None
        breakers.close(wait.provider)
        assert job_queue.list_ready_jobs(b.project) == []


def test_a_job_tries_again_while_a_slow_job_of_another_provider_works(bench: MakeBench) -> None:
    gate = threading.Event()
    with Loopback(BUSY, DONE) as down, Loopback(DONE | {"gate": gate}) as up:
        b = two_providers(bench(), down.url, up.url)
        retries = b.project.settings.retries.model_copy(update={"backoff_seconds": 1.0})
        b.change(clock=REAL, settings=b.project.settings.model_copy(update={"retries": retries}))
        b.create("a")
        b.create("b", role="Supervisor")
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run_queue, b, 60, 2)
            try:
                down.wait_for(2, 20)
            finally:
                gate.set()
            last = {end.job_id: end.exit_code for end in running.result()}
    assert last == {"a": 11, "b": 11}


def test_a_run_tries_jobs_that_gave_up_again(bench: MakeBench) -> None:
    with Loopback(BUSY, BUSY, BUSY, DONE) as server:
        b = two_providers(bench(), server.url, server.url)
        settings = b.project.settings
        given_up = settings.retries.model_copy(update={"max_wait_minutes": 0.0})
        b.change(settings=settings.model_copy(update={"retries": given_up}))
        for job_id in "ab":
            b.create(job_id)
            assert b.step(job_id).wait is not None
        b.change(settings=settings)
        last = {end.job_id: end.exit_code for end in run_queue(b, 6000)}
    assert last == {"a": 11, "b": 11}


@pytest.mark.parametrize("steps", [1, 2])
def test_a_missing_key_is_refused_and_not_recorded(bench: MakeBench, steps: int) -> None:
    b = bench()
    entry = {"provider_model": "house/large", "input_price": 1, "output_price": 1}
    values: Json = {
        "models": {"grok-code-fast-1": entry},
        "providers": {"house": {"base_url": NOWHERE, "api_key_env": "HOUSE_KEY"}},
    }
    environment = Environment({"HOME": str(b.project.home), "PATH": os.environ["PATH"]})
    b.change(agent="model", settings=Settings.model_validate(values), environment=environment)
    b.create()
    before = b.files()
    for _ in range(steps):
        with pytest.raises(ProviderError, match="set the environment variable HOUSE_KEY"):
            b.step()
    assert b.files() == before


def test_a_key_that_can_not_be_sent_is_refused_and_not_recorded(bench: MakeBench) -> None:
    b = impatient(bench(), NOWHERE)
    b.create()
    environment = Environment(
        {"HOME": str(b.project.home), "PATH": os.environ["PATH"], "XAI_API_KEY": "two\nlines"}
    )
    entries = {"grok-code-fast-1": models(NOWHERE)["grok-code-fast-1"] | {"api_key_env": "XAI_API_KEY"}}
    b.change(environment=environment, settings=Settings.model_validate({"models": entries}))
    before = b.files()
    with pytest.raises(
        ProviderError, match="the key in XAI_API_KEY has characters that can't be sent"
    ) as caught:
        b.step()
    assert "two" not in f"{caught.value} {caught.value.fix}"
    assert b.files() == before


def test_without_litellm_nothing_is_recorded(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logist.jobs.base.model_choice.is_litellm_installed", lambda: False)
    b = impatient(bench(), NOWHERE)
    b.change(agent="litellm")
    b.create()
    with pytest.raises(InvalidFile, match="litellm is not installed"):
        b.step()
    assert len(b.history()) == 1


def test_a_provider_that_litellm_does_not_know_is_not_recorded(bench: MakeBench) -> None:
    b = impatient(bench(), NOWHERE)
    entry = {"provider_model": "nowhere/x", "price": "free"}
    values = b.project.settings.model_dump(mode="json", exclude_unset=True) | {
        "models": {"grok-code-fast-1": entry}
    }
    b.change(agent="litellm", settings=Settings.model_validate(values))
    b.create()
    for _ in range(2):
        with pytest.raises(ProviderError, match="unknown provider `nowhere` of the model nowhere/x: neither"):
            b.step()
    assert len(b.history()) == 1
    assert b.state().status is Status.PENDING


# -- pauses


def test_pauses_grow_up_to_a_maximum() -> None:
    pauses = [choose_pause(Retries(), tries, 0.0, None, 1.0)[0] for tries in range(1, 12)]
    assert pauses[:4] == [8.0, 16.0, 32.0, 64.0]
    assert pauses[-1] == LONGEST_PAUSE


@pytest.mark.parametrize(
    ("retry_after", "pause"), [(None, 8.0), (0.0, 8.0), (120.0, 120.0), (86400.0 * 365, 3600.0)]
)
def test_retry_after_counts_within_the_longest_wait(retry_after: float | None, pause: float) -> None:
    assert choose_pause(Retries(), 1, 0.0, retry_after, 1.0) == (pause, False)


def test_the_last_pause_is_cut_and_then_the_job_gives_up() -> None:
    assert choose_pause(Retries(), 9, 3590.0, None, 1.0) == (10.0, False)
    assert choose_pause(Retries(), 10, 3600.0, None, 1.0) == (GIVEN_UP_PAUSE, True)


WAIT = ProviderWait("p", 1, began=1000.0, began_monotonic=50.0, pause=60.0)


@pytest.mark.parametrize(
    ("now", "monotonic", "left"),
    [
        (1010.0, 60.0, 50.0),
        (1010.0, 1.0, 50.0),  # the machine was started again
        (9000.0, 60.0, 0.0),  # the clock was set forward
        (500.0, 60.0, 0.0),  # and back
        (1001.0, 90.0, 20.0),  # back, but not before the beginning
    ],
)
def test_a_jump_of_the_clock_only_shortens_a_wait(now: float, monotonic: float, left: float) -> None:
    assert WAIT.count_left(now, monotonic) == left


def test_a_breaker_lets_one_job_try() -> None:
    now = [0.0]
    breakers = ProviderBreakers(lambda: now[0])
    assert breakers.claim_call("p") == 0.0
    breakers.open("p", 10.0)
    assert (breakers.claim_call("p"), breakers.claim_call("q")) == (10.0, 0.0)
    now[0] = 10.0
    assert (breakers.claim_call("p"), breakers.claim_call("p")) == (0.0, PROBE_SECONDS)
    breakers.close("p")
    assert breakers.claim_call("p") == 0.0


# -- the file


def test_a_wait_is_read_as_it_was_written(bench: MakeBench) -> None:
    b = bench()
    b.create()
    job = b.project.open_job("j")
    job.write_wait(WAIT)
    assert job.read_wait(1) == WAIT
    assert job.read_wait(2) is None  # the job has moved on


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"provider": 1, "revision": 1}',
        b'{"provider": "p", "revision": "1"}',
        b'{"provider": "p", "revision": 1, "pause": 1e99}',
        b'{"provider": "p", "revision": 1, "pause": -1}',
        b'{"provider": "p", "revision": 1, "pause": NaN}',
        b'{"provider": "p", "revision": 1, "pause": true}',
        b'{"provider": "p", "revision": 1, "gave_up": 1}',
        b'{"provider": "p", "revision": 1, "pause": ' + b"1" * 5000 + b"}",
    ],
)
def test_a_damaged_file_is_no_wait(tmp_path: Path, data: bytes) -> None:
    (tmp_path / NAME).write_bytes(data)
    assert read_wait(str(tmp_path), 1) is None


def test_a_pipe_or_a_huge_file_is_no_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    assert read_wait(str(tmp_path), 1) is None
    (tmp_path / NAME).unlink()
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(1 << 33)
    assert read_wait(str(tmp_path), 1) is None


def test_a_clock_that_was_set_back_ends_a_wait(bench: MakeBench) -> None:
    with Loopback(BUSY, DONE) as server:
        b = impatient(bench(), server.url, backoff_seconds=100)
        b.create()
        assert b.step().wait is not None
        past = datetime(2001, 1, 1, tzinfo=UTC)
        b.change(clock=Clock(lambda: past, b.project.clock.monotonic))
        assert b.step().exit_code == 0
    assert KEY not in str(b.files())
