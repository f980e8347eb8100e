"""The courier as a real process, against a real endpoint: what is on disk, whoever is killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from logist.agents.clients.answers import ExchangeFailure, ModelAnswer, Tokens
from logist.agents.courier import ask_files, booking
from logist.agents.courier import process as courier
from logist.agents.courier.ask_files import Collected, RecordedAsk
from logist.agents.courier.exchange import LONGEST_PAUSE, Errand, compute_pause
from logist.agents.workplace import Workplace
from logist.core.model import (
    EffectiveSpec,
    ErrorKind,
    JsonObject,
    Model,
    Provider,
    Reply,
    Request,
    TransportError,
    Usage,
)
from logist.core.money import money
from logist.core.prompt.prompt import SEPARATOR
from logist.errors import Busy, Damaged
from logist.store import Exchange, JobDir
from tests.loopback import Loopback, Received

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-test-0123456789abcdefghij"
SECRET = "hunter2-hunter2-hunter2"
WAIT = 300.0
"""Seconds that only a hang lasts."""
RESERVED = 12_345_678
SYSTEM = "You are a Worker 🙂.\r\n\ttabs, trailing space "
USER = "Do\n\n---\n\nthis: “ünïcode” \u2028 {{x}}\n"


def envelope(url: str | None, **overrides: Any) -> JsonObject:
    request = Request(prompt=SYSTEM + SEPARATOR + USER, metadata={"user_start": len(SYSTEM + SEPARATOR)})
    model = Model(
        name="short", provider_model="custom/real-name", endpoint=url, input_price=3.0, output_price=15.0
    )
    provider = Provider(name="custom", base_url=url or "http://127.0.0.1:1/v1", model="real-name")
    return {
        "sequence": 2,
        "agent": "model",
        "phase": "doer",
        "role": "Worker",
        "request": request.model_dump(mode="json"),
        "model": model.model_dump(mode="json"),
        "provider": provider.model_dump(mode="json"),
        "temperature": 0.25,
        "max_output_tokens": 4000,
        "deadline_seconds": WAIT,
        "max_tries": 3,
        "backoff_seconds": 0.01,
        "reserved_microcents": RESERVED,
        "index": 0,
        "step": "task",
        "attempt": 1,
        "checkpoint_before": "0" * 40,
        "spec": EffectiveSpec(title="t").model_dump(mode="json"),
    } | overrides


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    with JobDir.create_job(jobs, "job-1"):
        pass
    return JobDir.open(jobs, "job-1")


def by_litellm(url: str | None, **overrides: Any) -> JsonObject:
    """The same for a model that only litellm can call."""
    asked = envelope(url, **overrides)
    return asked | {"provider": None, "model": asked["model"] | {"provider_model": "openai/real-name"}}


def environment(job: JobDir) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(job.path.parent), "LANG": "C.UTF-8"}


@contextmanager
def out(job: JobDir, asked: JsonObject, **more: Any) -> Iterator[courier.CourierProcess]:
    """A courier at work, the lock held by this process too."""
    private = {"api_key": KEY, "secrets": [SECRET]} | more.pop("private", {})
    with job.hold_lock(command="test", since="2026-01-01T00:00:00Z") as lock:
        job.begin_exchange(1, asked)
        process = courier.launch_courier(job, lock, private, more.pop("environment", environment(job)))
        try:
            yield process
        finally:
            assert process.has_ended(WAIT)


def send(job: JobDir, asked: JsonObject, **more: Any) -> Collected:
    with out(job, asked, **more) as process:
        assert process.has_ended(WAIT)
    return ask_files.collect_ask(job.read_exchanges())


def every_byte(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def cost(usage: Usage) -> int:
    return usage.cost_cents * 1_000_000 + usage.cost_microcents


# -- over HTTP


@pytest.mark.deep
@pytest.mark.parametrize("build", [envelope, by_litellm])
def test_an_answer_is_brought_whole_priced_and_without_secrets(
    job: JobDir, build: Callable[[str], JsonObject]
) -> None:
    text, gate = f"key {KEY}, password {SECRET}, smile 🙂", threading.Event()
    step = {
        "text": text,
        "chunk": 5,
        "usage": {"input": 1000, "output": 200},
        "gate": gate,
        "delay": 0.5,
        "finish": "length",
    }
    with Loopback(step) as loopback:
        with out(job, build(loopback.url)) as process:
            loopback.wait_for(1)
            proc = Path(f"/proc/{process.pid}")
            shown = (proc / "environ").read_bytes() + (proc / "cmdline").read_bytes()
            assert os.getsid(process.pid) == process.pid
            gate.set()
        body = loopback.requests[0].body
    assert process.exit_status == 0
    assert b"logist.agents.courier" in shown
    for private in (KEY, SECRET):
        assert private.encode() not in shown + every_byte(job.path)
    assert loopback.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert body["messages"] == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": USER},
    ]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("real-name", 0.25, 4000)
    got = ask_files.collect_ask(job.read_exchanges())
    assert (got.kind, got.reply.finish, got.reply.error) == ("answered", "length", None)
    assert got.reply.text == "key [redacted], password [redacted], smile 🙂"
    assert got.reply.redactions == 2
    assert (got.reply.usage.input_tokens, got.reply.usage.output_tokens) == (1000, 200)
    assert cost(got.reply.usage) == 1000 * 300 + 200 * 1500
    assert got.reply.usage.source == "provider"
    assert got.reply.usage.seconds >= 0.5
    assert got.ask == RecordedAsk.read(json.loads(json.dumps(build(loopback.url))))
    assert (job.logs / courier.LOG).stat().st_mode & 0o777 == 0o600


def test_a_refused_key_is_one_request_and_no_cost(job: JobDir) -> None:
    with Loopback({"status": 401, "message": f"Incorrect API key provided: {KEY}"}) as loopback:
        got = send(job, envelope(loopback.url))
        assert len(loopback.requests) == 1
    assert got.reply.error is not None
    assert (got.reply.error.kind, got.reply.error.http_status) == (ErrorKind.AUTH, 401)
    assert "Incorrect API key provided: [redacted]" in got.reply.error.message
    assert (cost(got.reply.usage), got.reply.usage.source) == (0, "none")
    assert KEY.encode() not in every_byte(job.path)


def test_a_busy_provider_is_asked_again_and_every_exchange_is_kept(job: JobDir) -> None:
    busy = {"status": 429, "headers": {"retry-after": "0.05"}}
    with Loopback(busy, {"status": 503}, {"text": "at last"}) as loopback:
        got = send(job, envelope(loopback.url))
        assert len(loopback.requests) == 3
    exchanges = job.read_exchanges()
    assert [exchange.k for exchange in exchanges] == [1, 2, 3]
    assert [exchange.request for exchange in exchanges[1:]] == [
        {"retry_of": 1, "reserved_microcents": RESERVED},
        {"retry_of": 2, "reserved_microcents": RESERVED},
    ]
    statuses = [(exchange.response or {})["error"] for exchange in exchanges[:2]]
    assert [error["http_status"] for error in statuses] == [429, 503]
    assert (got.reply.text, got.reply.error) == ("at last", None)
    assert cost(got.reply.usage) == 100 * 300 + 20 * 1500


def test_a_broken_provider_is_asked_so_often_and_no_more(job: JobDir) -> None:
    with Loopback({"status": 500, "message": "oops"}) as loopback:
        got = send(job, envelope(loopback.url, max_tries=2))
        assert len(loopback.requests) == 2
    assert got.reply.error is not None
    assert (got.reply.error.kind, got.reply.error.http_status) == (ErrorKind.OUTAGE, 500)
    assert "oops" in got.reply.error.message
    assert (cost(got.reply.usage), got.reply.usage.source) == (0, "none")


@pytest.mark.deep
@pytest.mark.parametrize("step", [{"delay": 600}, {"text": "drip" * 1000, "chunk": 1, "chunk_delay": 0.05}])
def test_the_deadline_ends_a_silent_and_a_dripping_answer(job: JobDir, step: dict[str, Any]) -> None:
    with Loopback(step) as loopback:
        got = send(job, envelope(loopback.url, deadline_seconds=4.0))
        assert len(loopback.requests) == 1
    assert got.reply.error is not None
    assert got.reply.error.kind is ErrorKind.TIMEOUT
    assert "within 4 seconds" in got.reply.error.message
    assert ("drip" * 1000).startswith(got.reply.text)
    assert bool(got.reply.text) == ("text" in step)
    assert (cost(got.reply.usage), got.reply.usage.source) == (RESERVED, "worst_case")


def test_a_cut_answer_is_kept_and_booked_at_its_worst(job: JobDir) -> None:
    with Loopback({"text": "the first half and the second half", "chunk": 4, "close": "middle"}) as loopback:
        got = send(job, envelope(loopback.url))
        assert len(loopback.requests) == 1
    assert got.reply.error is not None
    assert got.reply.error.kind is ErrorKind.TRANSIENT
    assert got.reply.text == "the first half and the s"
    assert (cost(got.reply.usage), got.reply.usage.source) == (RESERVED, "worst_case")


# -- killed


STEPPER = """
import json, sys, time
from pathlib import Path
from logist.agents.courier import process as courier
from logist.store import JobDir
asked, environment = json.load(sys.stdin)
path = Path(sys.argv[1])
job = JobDir.open(path.parent, path.name)
with job.hold_lock(command="job step", since="2026-01-01T00:00:00Z") as lock:
    job.begin_exchange(1, asked)
    process = courier.launch_courier(job, lock, {"api_key": None, "secrets": []}, environment)
    print(process.pid, flush=True)
    time.sleep(600)
"""


def courier_alone(job: JobDir, url: str) -> int:
    """The pid of a courier whose stepper has been killed."""
    stepper = subprocess.Popen(
        [sys.executable, "-c", STEPPER, str(job.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(job) | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    with stepper:
        assert stepper.stdin is not None
        assert stepper.stdout is not None
        stepper.stdin.write(json.dumps([envelope(url), environment(job)]).encode())
        stepper.stdin.close()
        pid = int(stepper.stdout.readline())
        os.killpg(stepper.pid, signal.SIGKILL)
        stepper.wait(WAIT)
    return pid


@pytest.mark.deep
def test_the_courier_outlives_its_stepper_and_then_frees_the_lock(job: JobDir) -> None:
    gate = threading.Event()
    with Loopback({"text": "paid once", "gate": gate}) as loopback:
        pid = courier_alone(job, loopback.url)
        with pytest.raises(Busy, match=str(pid)), job.hold_lock(command="test", since="now"):
            pass
        assert job.has_running_agent()
        gate.set()
        with job.hold_lock(command="test", since="now", wait_for_courier=True):
            got = ask_files.collect_ask(job.read_exchanges())
        assert len(loopback.requests) == 1
    assert (got.kind, got.reply.text) == ("answered", "paid once")


@pytest.mark.deep
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_the_lock_is_free_as_soon_as_a_courier_alone_has_ended(job: JobDir, ending: signal.Signals) -> None:
    with Loopback({"delay": 600}) as loopback:
        courier_itself = os.pidfd_open(courier_alone(job, loopback.url))
        loopback.wait_for(1)
        signal.pidfd_send_signal(courier_itself, ending)
        assert select.select([courier_itself], [], [], WAIT)[0]
        os.close(courier_itself)
        with job.hold_lock(command="test", since="now"):
            assert ask_files.collect_ask(job.read_exchanges()).kind == "in_doubt"


def test_what_the_courier_starts_does_not_keep_its_lock(job: JobDir) -> None:
    stand_in = job.path.parent / "stand-in"
    stand_in.mkdir()
    (stand_in / "litellm.py").write_text(
        "import subprocess\n"
        "left = subprocess.Popen(['sleep', '600'], close_fds=False, start_new_session=True)\n"
        f"open({str(stand_in / 'pid')!r}, 'w').write(str(left.pid))\n"
        "raise ImportError('no')\n"
    )
    asked = by_litellm("http://127.0.0.1:1/v1")
    send(job, asked, environment=environment(job) | {"PYTHONPATH": str(stand_in)})
    left = int((stand_in / "pid").read_text())
    try:
        with job.hold_lock(command="test", since="now"):
            assert Path(f"/proc/{left}").exists()
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_courier_killed_after_sending_leaves_a_doubt(job: JobDir) -> None:
    with Loopback({"delay": 600}) as loopback, out(job, envelope(loopback.url)) as process:
        loopback.wait_for(1)
        process.send_signal(signal.SIGKILL)
    got = ask_files.collect_ask(job.read_exchanges())
    assert got.kind == "in_doubt"
    assert (cost(got.reply.usage), got.reply.usage.source) == (RESERVED, "worst_case")
    assert not job.has_running_agent()


# -- told to end


@pytest.mark.deep
def test_told_to_end_with_half_an_answer_it_leaves_a_doubt_and_keeps_the_half_in_the_logs(
    job: JobDir,
) -> None:
    text = f"{SECRET} " * 100
    step = {"text": text, "chunk": len(SECRET) + 1, "chunk_delay": 0.2}
    with Loopback(step) as loopback, out(job, envelope(loopback.url, index=7)) as process:
        loopback.wait_for(1)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
    got = ask_files.collect_ask(job.read_exchanges())
    assert (process.exit_status, got.kind) == (0, "in_doubt")
    assert (cost(got.reply.usage), got.reply.usage.source) == (RESERVED, "worst_case")
    kept = (job.logs / "cut-answer-7-1.txt").read_text()
    assert kept.startswith("[redacted] ")
    assert SECRET.encode() not in every_byte(job.path)


class Freezing(Loopback):
    """Holds the client still once its request is in: it sees the answer only when it is let go on."""

    def __init__(self, *steps: JsonObject) -> None:
        super().__init__(*steps)
        self.clients: SimpleQueue[int] = SimpleQueue()

    def take(self, received: Received) -> JsonObject:
        os.kill(self.clients.get(timeout=WAIT), signal.SIGSTOP)
        return super().take(received)


def test_told_to_end_when_the_answer_has_come_it_saves_it(job: JobDir) -> None:
    freezing = Freezing({"text": "whole and paid"})
    with freezing as loopback, out(job, envelope(loopback.url)) as process:
        freezing.clients.put(process.pid)
        loopback.wait_for(1)
        loopback.server.shutdown()
        loopback.server.server_close()  # waits: the whole answer is on its way
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
    got = ask_files.collect_ask(job.read_exchanges())
    assert (got.kind, got.reply.text, got.reply.error) == ("answered", "whole and paid", None)
    assert got.reply.usage.source == "provider"


def test_told_to_end_before_it_sent_anything_it_leaves_no_trace(job: JobDir) -> None:
    stand_in = job.path.parent / "stand-in"
    stand_in.mkdir()
    loading = stand_in / "loading"
    (stand_in / "litellm.py").write_text(f"import time\nopen({str(loading)!r}, 'w')\ntime.sleep(600)\n")
    asked = by_litellm("http://127.0.0.1:1/v1")
    with out(job, asked, environment=environment(job) | {"PYTHONPATH": str(stand_in)}) as process:
        until_there(loading)
        process.send_signal(signal.SIGTERM)
    assert process.exit_status == 0
    assert job.read_exchanges() == [Exchange(1, json.loads(json.dumps(asked)), False, None)]
    assert ask_files.collect_ask(job.read_exchanges()).kind == "not_sent"


def test_told_to_end_between_two_tries_it_leaves_the_first(job: JobDir) -> None:
    with Loopback({"status": 429}) as loopback:
        with out(job, envelope(loopback.url, backoff_seconds=60.0)) as process:
            until_there(job.inflight / "1.response")
            process.send_signal(signal.SIGTERM)
        assert len(loopback.requests) == 1
    got = ask_files.collect_ask(job.read_exchanges())
    assert (process.exit_status, got.kind, len(job.read_exchanges())) == (0, "unavailable", 1)
    assert got.reply.error is not None
    assert got.reply.error.http_status == 429
    assert cost(got.reply.usage) == 0


def until_there(path: Path) -> None:
    give_up = time.monotonic() + WAIT
    while not path.exists():
        assert time.monotonic() < give_up, path
        time.sleep(0.02)


# -- without a call


def test_without_litellm_the_answer_says_how_to_install_it(job: JobDir) -> None:
    stand_in = job.path.parent / "stand-in"
    stand_in.mkdir()
    (stand_in / "litellm.py").write_text(
        "raise ModuleNotFoundError('No module named litellm', name='litellm')"
    )
    asked = by_litellm("http://127.0.0.1:1/v1")
    got = send(job, asked, environment=environment(job) | {"PYTHONPATH": str(stand_in)})
    assert got.reply.error is not None
    assert got.reply.error.kind is ErrorKind.BAD_REQUEST
    assert "install Logist with the extra `litellm`" in got.reply.error.message
    assert cost(got.reply.usage) == 0
    assert [exchange.sent for exchange in job.read_exchanges()] == [False]


def test_a_missing_key_is_told_without_a_call(job: JobDir) -> None:
    asked = envelope(None)
    asked["model"]["api_key_env"] = "SOME_API_KEY"
    got = send(job, asked, private={"api_key": None})
    assert got.reply.error is not None
    assert got.reply.error.kind is ErrorKind.AUTH
    assert "SOME_API_KEY" in got.reply.error.message
    assert [exchange.sent for exchange in job.read_exchanges()] == [False]


def test_a_courier_that_breaks_down_says_so_in_the_answer_and_in_the_log(job: JobDir) -> None:
    asked = envelope("http://127.0.0.1:1/v1")
    with job.hold_lock(command="test", since="now") as lock:
        job.begin_exchange(1, asked)
        job.begin_exchange(2, {"retry_of": 1})
        (job.inflight / "1.request").write_text(json.dumps({"role": {SECRET: 1}}))
        process = courier.launch_courier(job, lock, {"api_key": None, "secrets": [SECRET]}, environment(job))
        assert process.has_ended(WAIT)
    log = (job.logs / courier.LOG).read_text()
    assert "Traceback" in log
    assert SECRET not in log


def test_a_fault_of_the_courier_itself_is_an_answer_too(job: JobDir) -> None:
    asked = envelope("http://127.0.0.1:1/v1")
    job.begin_exchange(1, asked)
    errand = Errand(job, RecordedAsk.read(asked), KEY, [], Workplace.for_job(job, {}))
    errand.record_failure(RuntimeError(f"bug near {KEY}"))
    reply = ask_files.collect_ask(job.read_exchanges()).reply
    assert reply.error == TransportError(
        kind=ErrorKind.BAD_REQUEST, message="the courier failed: RuntimeError: bug near [redacted]"
    )
    assert reply.usage.source == "none"
    errand.record_failure(RuntimeError("another"))
    assert ask_files.collect_ask(job.read_exchanges()).reply == reply


def test_a_fault_of_the_courier_after_sending_leaves_a_doubt(job: JobDir) -> None:
    asked = envelope("http://127.0.0.1:1/v1")
    job.begin_exchange(1, asked)
    errand = Errand(job, RecordedAsk.read(asked), KEY, [], Workplace.for_job(job, {}))
    job.mark_sent(1)
    errand.sent = True
    errand.record_failure(RuntimeError("bug"))
    assert ask_files.collect_ask(job.read_exchanges()).kind == "in_doubt"


# -- values


def failed(again: bool = True, retry_after: float | None = None) -> ExchangeFailure:
    error = TransportError(kind=ErrorKind.TRANSIENT, message="m")
    return ExchangeFailure(error, billed=False, again=again, retry_after=retry_after)


@pytest.mark.parametrize(
    ("tries", "failure", "left", "chance", "pause"),
    [
        (1, failed(), 100.0, 1.0, 2.0),
        (1, failed(), 100.0, 0.0, 1.0),
        (3, failed(), 100.0, 1.0, 8.0),
        (40, failed(), 1000.0, 1.0, LONGEST_PAUSE),
        (1, failed(retry_after=9.0), 100.0, 0.0, 9.0),
        (1, failed(retry_after=LONGEST_PAUSE + 1), 1000.0, 0.0, None),
        (1, failed(), 1.5, 1.0, None),
        (1, failed(again=False), 100.0, 0.0, None),
    ],
)
def test_pauses_double_within_bounds_and_never_pass_the_deadline(
    tries: int, failure: ExchangeFailure, left: float, chance: float, pause: float | None
) -> None:
    assert compute_pause(tries, failure, 2.0, left, chance) == pause


def kept(reply: Reply) -> JsonObject:
    return reply.model_dump(mode="json")


def test_what_is_on_disk_is_collected() -> None:
    asked = envelope("http://127.0.0.1:1/v1")
    first = Reply(usage=Usage(seconds=1.5), error=failed().error)
    second = Reply(
        text="t", usage=Usage(input_tokens=5, cost_cents=1, cost_microcents=999_999, source="provider")
    )
    one = Exchange(1, asked, True, kept(first))
    assert ask_files.collect_ask([]).kind == "none"
    assert ask_files.collect_ask([Exchange(1, asked, False, None)]) == Collected(
        "not_sent", RecordedAsk.read(asked)
    )
    retried = ask_files.collect_ask([one, Exchange(2, {"retry_of": 1}, True, kept(second))])
    assert (retried.kind, retried.ask, retried.reply.text) == ("answered", RecordedAsk.read(asked), "t")
    assert (retried.reply.usage.seconds, cost(retried.reply.usage)) == (1.5, 1_999_999)
    unsent = ask_files.collect_ask([one, Exchange(2, {"retry_of": 1}, False, None)])
    assert (unsent.kind, unsent.reply) == ("answered", first)
    doubt = ask_files.collect_ask(
        [Exchange(1, asked, True, kept(second)), Exchange(2, {"retry_of": 1}, True, None)]
    )
    assert doubt.kind == "in_doubt"
    assert (cost(doubt.reply.usage), doubt.reply.usage.source) == (RESERVED + 1_999_999, "worst_case")


def test_an_empty_answer_is_an_answer() -> None:
    assert ask_files.collect_ask([Exchange(1, envelope(None), True, {})]).kind == "answered"


def test_fields_of_a_newer_logist_lose_no_answer() -> None:
    asked = envelope(None, lane="fast", model={**envelope(None)["model"], "cache": True})
    got = ask_files.collect_ask([Exchange(1, asked, True, {"text": "t", "reasoning": "r"})])
    assert (got.kind, got.reply.text) == ("answered", "t")


SENSELESS: list[dict[str, Any]] = [
    {"1.request": {}},
    {"1.request": envelope(None, sequence="x")},
    {"1.request": envelope(None, sequence=0)},
    {"1.request": envelope(None, spec=None)},
    {"1.request": envelope(None, request=None)},
    {"1.request": {key: value for key, value in envelope(None).items() if key != "max_tries"}},
    {"1.request": envelope(None), "1.response": {"text": 5}},
    {"1.request": envelope(None), "1.response": {"text": [SECRET]}},
    {"1.request": envelope(None, phase="judge")},
    {"1.request": envelope(None, output_schema=True), "1.response": {"text": "t"}},
    {"1.request": envelope(None, after=[]), "1.response": {"text": "t"}},
    {"1.request": envelope(None, work=1.5), "1.response": {"text": "t"}},
    {"1.response": {}},
    {"2.request": {"retry_of": 1}},
    {"1.request": envelope(None), "2.response": {}},
    {"1.request": envelope(None), "2.request": {"retry_of": 1}},
]


@pytest.mark.parametrize("content", SENSELESS)
def test_what_no_ask_could_have_written_is_damage(job: JobDir, content: dict[str, Any]) -> None:
    job.inflight.mkdir()
    for name, value in content.items():
        (job.inflight / name).write_text(json.dumps(value))
    with pytest.raises(Damaged, match="is invalid") as caught:
        ask_files.collect_ask(job.read_exchanges())
    assert caught.value.where == str(job.inflight)
    assert "check it, then move it away: mv " in (caught.value.fix or "")
    assert SECRET not in str(caught.value)


def test_broken_surrogates_become_text_a_file_can_hold() -> None:
    assert booking.repair_surrogates("a\ud83d\ude42b\ud83dc\ude42") == "a🙂b\ufffdc\ufffd"


def test_an_unknown_price_is_booked_as_nothing_and_said() -> None:
    unpriced = RecordedAsk.read(
        envelope(None) | {"model": {"name": "m", "provider_model": "openai/m"}, "reserved_microcents": None}
    )
    reply = booking.build_reply(unpriced, ModelAnswer(tokens=Tokens(5, 7), finish="stop"), "t", 0.1, [])
    assert (reply.usage.input_tokens, reply.usage.output_tokens, cost(reply.usage)) == (5, 7, 0)
    assert "unknown" in reply.warnings[0]
    assert money.compute_cost(unpriced.model, 5, 7) is None


PRICED = {"name": "m", "provider_model": "openai/m", "input_price": 1.0, "output_price": 2.0}


def book(tokens: Tokens, model: JsonObject = PRICED) -> Reply:
    ask = RecordedAsk.read(envelope(None) | {"model": model, "reserved_microcents": None})
    return booking.build_reply(ask, ModelAnswer(tokens=tokens, finish="stop"), "t", 0.1, [])


def test_all_that_a_provider_reports_is_booked_at_its_price() -> None:
    prices = PRICED | {"cached_price": 0.1, "cache_write_price": 1.25, "reasoning_price": 3.0}
    reply = book(Tokens(1000, 100, cached=500, cache_written=200, reasoning=40), prices)
    assert cost(reply.usage) == 300 * 100 + 500 * 10 + 200 * 125 + 60 * 200 + 40 * 300
    assert (reply.usage.cache_write_tokens, reply.usage.reasoning_tokens) == (200, 40)
    assert reply.warnings == ()
    both = booking.sum_usages([reply.usage, reply.usage])
    assert (both.cache_write_tokens, both.reasoning_tokens) == (400, 80)


def test_counts_that_are_not_reported_are_not_written() -> None:
    written = book(Tokens(10, 10)).usage.model_dump(mode="json", exclude_none=True)
    assert {"cache_write_tokens", "reasoning_tokens", "reported_microcents"}.isdisjoint(written)


def test_a_long_request_is_booked_at_its_tier() -> None:
    tiered = PRICED | {"tiers": [{"above": 1000, "input_price": 2.0, "output_price": 4.0}]}
    assert cost(book(Tokens(1000, 10), tiered).usage) == 1000 * 100 + 10 * 200
    assert cost(book(Tokens(1001, 10), tiered).usage) == 1001 * 200 + 10 * 400


@pytest.mark.parametrize(("reported", "warned"), [(101_000, False), (101_100, True), (98_900, True)])
def test_a_cost_that_the_provider_reports_is_recorded_and_compared(reported: int, warned: bool) -> None:
    reply = book(Tokens(1000, 0, reported_microcents=reported))
    assert (cost(reply.usage), reply.usage.reported_microcents) == (100_000, reported)
    assert len(reply.warnings) == warned
    if warned:
        assert f"$0.00{reported // 100:04}" in reply.warnings[0]
        assert "$0.001," in reply.warnings[0]


def test_a_reported_cost_is_booked_if_the_price_is_unknown() -> None:
    reply = book(Tokens(1000, 0, reported_microcents=77), {"name": "m", "provider_model": "openai/m"})
    assert (cost(reply.usage), reply.warnings) == (77, ())
