"""Steps that are paid for: a real courier, real HTTP, a model that answers from a script on 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logist.agents.courier import process
from logist.agents.courier.ending import end_courier
from logist.agents.own_process import COURIER
from logist.config.environment import Environment
from logist.config.settings import Settings
from logist.core.model import ErrorKind, Kind, Status
from logist.core.step.step import StepPlan
from logist.errors import Busy, InvalidFile, ProviderError, Refused, Stopped
from logist.jobs.steward.steward_decisions import record_decision
from logist.jobs.turn.next_request import Choice, preview_request
from logist.store import JobDir
from tests import support
from tests.jobs.bench import Bench, Json, command
from tests.jobs.conftest import MakeBench
from tests.loopback import Loopback

KEY = "dummy-key-for-tests-0001"


def models(url: str, **more: object) -> Json:
    entry = {"endpoint": url, "api_key_env": "MY_MODEL", "input_price": 0.5, "output_price": 2.0, **more}
    return {
        "grok-code-fast-1": {"provider_model": "openai/worker-model", **entry},
        "gemini-2.5-flash": {"provider_model": "openai/supervisor-model", **entry},
    }


def paid(b: Bench, url: str, **settings: object) -> Bench:
    """The bench with a model behind `url` instead of a script."""
    values: Json = {"models": models(url), "retries": {"max_tries": 3, "backoff_seconds": 0.01}, **settings}
    b.change(
        agent="model",
        settings=Settings.model_validate(values),
        environment=Environment({"HOME": str(b.project.home), "PATH": os.environ["PATH"], "MY_MODEL": KEY}),
    )
    return b


def test_worker_and_supervisor_over_http(bench: MakeBench) -> None:
    steps = [
        {"text": command(summary="Made it."), "usage": {"input": 1000, "output": 100}},
        {"text": f"the key is {KEY}\n" + command(), "usage": {"input": 2000, "output": 10}},
    ]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url)
        b.create()
        plans = []
        for _ in range(2):
            _, plan = preview_request(b.project, "j", Choice())
            assert isinstance(plan, StepPlan)
            plans.append(plan)
            result = b.step()
    assert result.state.status is Status.APPROVAL_REQUIRED
    assert [r.body["model"] for r in server.requests] == ["worker-model", "supervisor-model"]
    for plan, request in zip(plans, server.requests, strict=True):
        halves = [message["content"] for message in request.body["messages"]]
        assert "\n\n---\n\n".join(halves) == plan.request.prompt
    first, second = b.history()[1:]
    assert (first.usage.input_tokens, first.usage.output_tokens, first.usage.source) == (
        1000,
        100,
        "provider",
    )
    # 1000 tokens at 50 microcents and 100 at 200
    assert (first.usage.cost_cents, first.usage.cost_microcents) == (0, 70_000)
    assert b.state().usage.cumulative_cost_microcents == 70_000 + 102_000
    assert "[redacted]" in second.response.raw_response
    assert not [name for name, data in b.files().items() if KEY.encode() in data]


LISTED: list[str] = []
WATCH = {"on": False}


def _audited(event: str, args: tuple[object, ...], watch: dict[str, bool] = WATCH) -> None:
    if watch["on"] and event == "os.listdir":
        LISTED.append(str(args[0]))


sys.addaudithook(_audited)


@pytest.mark.parametrize(("role", "may_run"), [("Worker", True), ("Designer", False)])
def test_left_processes_are_looked_for_only_if_the_role_runs_commands(
    bench: MakeBench, role: str, *, may_run: bool
) -> None:
    with Loopback({"text": command()}) as server:
        b = paid(bench(), server.url)
        b.create(role=role)
        assert b.project.roles.get(role).permissions.can_execute_commands == may_run
        LISTED.clear()
        WATCH["on"] = True
        try:
            b.step()
        finally:
            WATCH["on"] = False
    assert ("/proc" in LISTED) == may_run


@pytest.mark.deep
def test_a_refused_key_ends_at_once_and_uses_no_attempt(bench: MakeBench) -> None:
    with Loopback({"status": 401, "message": "no such key"}) as server:
        b = paid(bench(), server.url)
        b.create()
        result = b.step()
    assert len(server.requests) == 1
    assert (result.exit_code, result.state.status, result.state.place.attempts) == (6, Status.PENDING, 0)
    error = b.history()[1].response.error
    assert error is not None
    assert (error.kind, error.http_status) == (ErrorKind.AUTH, 401)
    assert KEY not in result.state.reason


def test_the_key_of_a_provider_is_in_no_file_and_no_message(bench: MakeBench) -> None:
    """Also if its variable doesn't sound like a secret, and if the call is to another provider."""
    house, own = "house-words-0123456789", f"{KEY}-own"
    repeated = f"{'x' * 285} wrong key: {house}"
    with Loopback({"status": 401, "message": repeated}, {"text": f"{own} {house}\n{command()}"}) as server:
        b = bench()
        entry = {"provider_model": "house/large", "input_price": 1, "output_price": 1}
        providers = {
            "house": {"base_url": server.url, "api_key_env": "HOUSE_WORDS"},
            "other": {"base_url": server.url, "api_key_env": "OTHER_WORDS"},
        }
        values: Json = {"models": {"grok-code-fast-1": entry}, "providers": providers}
        variables = {"HOME": str(b.project.home), "PATH": os.environ["PATH"]}
        b.change(
            agent="model",
            settings=Settings.model_validate(values),
            environment=Environment(variables | {"HOUSE_WORDS": house, "OTHER_WORDS": own}),
        )
        b.create()
        refused, answered = b.step(), b.step()
    assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {house}"] * 2
    assert "check that HOUSE_WORDS holds a key of house" in str(refused.state.reason)
    assert answered.exit_code == 0
    assert not [name for name, data in b.files().items() if b"0123456789" in data or own.encode() in data]
    assert not [line for line in b.said if "house-words" in line]


@pytest.mark.deep
def test_a_killed_stepper_is_charged_once_and_harvested(bench: MakeBench, tmp_path: Path) -> None:
    gate = threading.Event()
    with Loopback(
        {"text": command(summary="Late."), "gate": gate, "usage": {"input": 10, "output": 10}}
    ) as server:
        b = paid(bench(), server.url)
        b.create()
        configured(b, server)
        stepper = step_as_process(b)
        waiting_for(lambda: bool(server.requests))
        stepper.send_signal(signal.SIGKILL)
        stepper.wait()
        assert b.project.open_job("j").has_running_agent()
        logs = [tmp_path / f"stepper-{number}.log" for number in range(3)]
        crowd = [step_as_process(b, stderr=log) for log in logs]
        open_once_all_wait(gate, logs)
        result = b.step()
        assert [waiter.wait() for waiter in crowd] == [0, 0, 0]
    assert len(server.requests) == 1
    assert result.state.last is not None
    assert result.state.last.summary == "Late."
    assert [entry.sequence for entry in b.history()] == [1, 2]
    assert any("waiting for" in line for line in b.said)


def step_as_process(
    b: Bench, *arguments: str, stderr: Path = Path(os.devnull), **environment: str
) -> subprocess.Popen[bytes]:
    with stderr.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "logist", *(arguments or ("job", "step", "j"))],
            cwd=b.project.home.parent,
            env=support.process_environment() | {"MY_MODEL": KEY} | environment,
            stderr=log,
            stdout=subprocess.DEVNULL,
        )


def open_once_all_wait(gate: threading.Event, logs: list[Path]) -> None:
    """Lets the answer come once every process has written that it waits for the one at work."""

    def watch() -> None:
        waiting_for(lambda: all(b"waiting for" in log.read_bytes() for log in logs))
        gate.set()

    threading.Thread(target=watch, daemon=True).start()


def waiting_for(condition: object, seconds: float = 60.0) -> None:
    """Until the condition holds; a test that waits this long has failed."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def test_the_output_is_lowered_to_what_the_limit_leaves(bench: MakeBench) -> None:
    b = paid(bench(), "http://127.0.0.1:9/v1")
    b.create(limits={"cost_threshold": 1})
    _, plan = preview_request(b.project, "j", Choice())
    assert isinstance(plan, StepPlan)
    assert 2048 <= plan.max_output_tokens < 8192
    assert plan.reserved_microcents is not None
    assert plan.reserved_microcents <= 1_000_000


def test_too_little_left_halts_before_anything_is_sent(bench: MakeBench) -> None:
    with Loopback({"text": command()}) as server:
        b = paid(bench(), server.url)
        b.create(limits={"cost_threshold": 0.2})
        result = b.step()
    assert (result.exit_code, result.state.status) == (7, Status.HALTED_COST)
    assert server.requests == []


def test_an_unknown_price_is_refused_unless_allowed(bench: MakeBench) -> None:
    with Loopback({"text": command()}) as server:
        b = paid(bench(), server.url)
        unknown = models(server.url, input_price=None)
        b.change(settings=Settings.model_validate({"models": unknown}))
        b.create()
        before = b.files()
        with pytest.raises(InvalidFile, match="price"):
            b.step()
        assert {name: data for name, data in b.files().items() if name != "lock"} == {
            name: data for name, data in before.items() if name != "lock"
        }
        assert server.requests == []
        b.change(settings=Settings.model_validate({"models": unknown, "allow_unknown_price": True}))
        assert b.step().state.status is Status.REVIEW_REQUIRED


def test_a_stop_before_sending_sends_nothing(bench: MakeBench) -> None:
    b = paid(bench(), "http://127.0.0.1:9/v1")
    b.create()
    for code in (130, 143):
        b.change(stopping=lambda code=code: code)
        with pytest.raises(Stopped) as stopped:
            b.step()
        assert stopped.value.exit_code == code
    assert len(b.history()) == 1
    assert not (b.folder() / "inflight").exists()


@pytest.mark.deep
def test_ctrl_c_ends_the_courier_and_records_that_it_is_in_doubt(bench: MakeBench) -> None:
    with Loopback({"text": command(), "delay": 600}) as server:
        b = paid(bench(), server.url)
        b.create()
        b.change(stopping=lambda: 130 if server.requests else 0)
        with pytest.raises(Stopped, match="j is now STUCK") as stopped:
            b.step()
        assert stopped.value.exit_code == 130
        assert "--assume-paid" in (stopped.value.fix or "")
        assert b.project.open_job("j").find_lock_holder() is None
        assert (len(server.requests), [entry.kind for entry in b.history()]) == (
            1,
            [Kind.CREATE, Kind.RECOVER],
        )
        assert b.state().usage.cumulative_cost_microcents > 0
        b.change(stopping=lambda: 0)
        assert b.step().entries == ()
    assert len(server.requests) == 1


def tell_end(asked_to_end: threading.Event) -> Callable[[str], None]:
    """Hears what a step says, and sets the event once it has asked its courier to end."""
    return lambda text: asked_to_end.set() if text.startswith("stopping the agent") else None


@pytest.mark.deep
def test_ctrl_c_keeps_an_answer_that_comes_in_time(bench: MakeBench) -> None:
    asked_to_end = threading.Event()
    with Loopback({"text": command(summary="Just in time."), "gate": asked_to_end}) as server:
        b = paid(bench(), server.url)
        b.create()
        b.change(stopping=lambda: 130 if server.requests else 0, say=tell_end(asked_to_end))
        with pytest.raises(Stopped, match="j is now REVIEW_REQUIRED"):
            b.step()
    last = b.state().last
    assert last is not None
    assert last.summary == "Just in time."


@contextmanager
def keys_withheld() -> Iterator[None]:
    """Inside the block, no courier gets its key, so that none can send anything, however fast it is."""
    pipes: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_hand_over", lambda pipe, private: pipes.append(pipe))
        yield
    for pipe in pipes:
        os.close(pipe)


def test_ctrl_c_before_anything_is_sent_leaves_no_trace(bench: MakeBench) -> None:
    with Loopback({"text": command()}) as server:
        b = paid(bench(), server.url)
        b.create()
        asked: list[int] = []

        def stopping() -> int:
            asked.extend([130] if (b.folder() / "inflight").exists() else [])
            return 130 if asked else 0

        b.change(stopping=stopping)
        with keys_withheld(), pytest.raises(Stopped, match="stopped before a request was sent"):
            b.step()
        assert (len(server.requests), len(b.history())) == (0, 1)
        assert not (b.folder() / "inflight").exists()


def test_an_agent_that_is_ended_before_anything_is_sent_says_so(bench: MakeBench) -> None:
    with Loopback({"text": command()}) as server:
        b = paid(bench(), server.url)
        b.create()
        job = b.project.open_job("j")

        over = threading.Event()

        def end_at_once() -> None:
            while not over.wait(0.005):
                holder = job.find_lock_holder()
                if holder is not None and holder.courier is not None:
                    end_courier(holder.courier, job.path, seconds=0)
                    return

        ending = threading.Thread(target=end_at_once)
        ending.start()
        try:
            with (
                keys_withheld(),
                pytest.raises(ProviderError, match="before a request was sent; nothing was charged") as ended,
            ):
                b.step()
        finally:
            over.set()
            ending.join()
        assert (ended.value.fix or "").startswith("to try again, run: logist job step --job j")
        assert (len(server.requests), len(b.history())) == (0, 1)
        assert b.step().state.status is Status.REVIEW_REQUIRED


@pytest.mark.deep
def test_a_job_that_is_moved_while_an_agent_is_out_keeps_its_answer(bench: MakeBench) -> None:
    with Loopback({"text": command(summary="Found it."), "delay": 2}) as server:
        b = paid(bench(), server.url)
        b.create()
        b.change(stopping=lambda: 143 if server.requests else 0)
        with pytest.raises(Stopped):
            b.step()
        b.folder().rename(b.folder("moved"))
        b.change(stopping=lambda: 0)
        last = b.step("moved").state.last
        assert last is not None
        assert (last.summary, len(server.requests)) == ("Found it.", 1)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "ended"), [("cancel", "CANCELED"), ("fail", "FAILED"), ("suspend", "SUSPENDED")]
)
def test_a_steward_takes_the_job_from_the_agent_at_work(bench: MakeBench, kind: str, ended: str) -> None:
    with Loopback({"text": command(), "delay": 600}) as server:
        b = paid(bench(), server.url)
        b.create()
        leave_at_work(b, server)
        with pytest.raises(Busy):
            record_decision(b.project, "j", Kind(kind))
        result = record_decision(b.project, "j", Kind(kind), ends_agent=True)
        assert b.project.open_job("j").find_lock_holder() is None
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.RECOVER, Kind(kind)]
    assert (result.state.status, len(server.requests)) == (Status(ended), 1)
    assert b.state().usage.cumulative_cost_microcents > 0


@pytest.mark.deep
def test_a_steward_takes_the_job_from_a_stepper_and_its_agent(bench: MakeBench) -> None:
    with Loopback({"text": command(), "delay": 600}) as server:
        b = paid(bench(), server.url)
        b.create()
        configured(b, server)
        stepper = step_as_process(b)
        waiting_for(lambda: bool(server.requests))
        result = record_decision(b.project, "j", Kind.CANCEL, ends_agent=True)
        assert stepper.wait() == 3
    assert (result.state.status, len(server.requests)) == (Status.CANCELED, 1)
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.RECOVER, Kind.CANCEL]


@pytest.mark.deep
def test_a_job_that_was_swapped_for_another_is_not_written_to(bench: MakeBench) -> None:
    gate = threading.Event()
    with Loopback({"text": command(), "gate": gate}) as server:
        b = paid(bench(), server.url)
        b.create("a")
        b.create("b")
        swapped: list[bool] = []

        def swap() -> int:
            if server.requests and not swapped:
                b.folder("a").rename(b.folder("moved"))
                b.folder("b").rename(b.folder("a"))
                swapped.append((b.folder("moved") / "inflight").is_dir())
                gate.set()
            return 0

        before = b.files("b")
        b.change(stopping=swap)
        with pytest.raises(Refused, match="was moved or removed while this command worked on it"):
            b.step("a")
        b.change(stopping=lambda: 0)
        assert b.files("a") == before
        assert b.step("moved").state.last is not None
    assert (swapped, len(server.requests)) == ([True], 1)


@pytest.mark.deep
def test_the_agent_of_the_job_is_ended_and_not_that_of_its_copy(bench: MakeBench) -> None:
    gate = threading.Event()
    with Loopback({"text": command(summary="Mine."), "gate": gate}) as server:
        b = paid(bench(), server.url)
        b.create()
        leave_at_work(b, server)
        shutil.copytree(b.folder(), b.folder("copy"))
        assert b.project.open_job("copy").find_lock_holder() is None
        record_decision(b.project, "copy", Kind.CANCEL, ends_agent=True)
        gate.set()
        last = b.step().state.last
        assert last is not None
        assert last.summary == "Mine."


@pytest.mark.deep
def test_an_answer_that_is_given_while_another_comes_is_not_used(bench: MakeBench, tmp_path: Path) -> None:
    gate = threading.Event()
    with Loopback({"text": command(summary="Asked for."), "gate": gate}) as server:
        b = paid(bench(), server.url)
        b.create()
        configured(b, server)
        leave_at_work(b, server)
        logs = [tmp_path / f"giver-{number}.log" for number in range(3)]
        giving = ("job", "poststep", "j", "--response-string", command())
        crowd = [step_as_process(b, *giving, stderr=log) for log in logs]
        open_once_all_wait(gate, logs)
        assert [giver.wait() for giver in crowd] == [0, 0, 0]
    assert [entry.kind for entry in b.history()] == [Kind.CREATE, Kind.ASK]


@pytest.mark.deep
def test_ctrl_c_while_a_refusal_is_on_its_way_does_not_wait_to_ask_again(bench: MakeBench) -> None:
    asked_to_end = threading.Event()
    refusal = {"status": 429, "headers": {"retry-after": "50"}, "gate": asked_to_end}
    with Loopback(refusal) as server:
        b = paid(bench(), server.url)
        b.create()
        b.change(stopping=lambda: 130 if server.requests else 0, say=tell_end(asked_to_end))
        with pytest.raises(Stopped, match="the provider was not available, and nothing was charged"):
            b.step()
    assert b.state().status is Status.PENDING  # the courier was not killed, or the call would be in doubt
    assert len(b.history()) == 1


def test_only_an_agent_of_logist_is_ended(bench: MakeBench) -> None:
    b = bench()
    b.create()
    with stand_in_courier(b.project.open_job("j")) as other:
        with pytest.raises(Refused, match="not an agent of Logist"):
            record_decision(b.project, "j", Kind.CANCEL, ends_agent=True)
        assert other.poll() is None
        other.communicate(b"\n")
    assert other.returncode == 0


@pytest.mark.parametrize("module", [COURIER, "logist.agents.courier.process"])
def test_a_courier_that_another_version_started_is_ended(bench: MakeBench, module: str) -> None:
    assert COURIER == "logist.agents.courier"  # as every version but one has called it
    b = bench()
    b.create()
    job = b.project.open_job("j")
    with stand_in_courier(job, module) as courier:
        holder = job.find_lock_holder()
        assert holder is not None
        assert holder.courier is not None
        assert end_courier(holder.courier, job.path)
    assert courier.returncode == -signal.SIGTERM


@contextmanager
def stand_in_courier(job: JobDir, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the job's lock as its courier does; `words` are added to its command line."""
    with (
        job.hold_lock(command="job step", since="2026-01-02T03:04:05Z") as lock,
        subprocess.Popen(
            [sys.executable, "-c", "input()", *words],
            stdin=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[lock.fd],
        ) as courier,
    ):
        lock.sign_for_courier(courier.pid)
        yield courier


def leave_at_work(b: Bench, server: Loopback) -> None:
    """A step that was told to stop once the model was asked: its courier goes on alone."""
    b.change(stopping=lambda: 143 if server.requests else 0)
    with pytest.raises(Stopped):
        b.step()
    b.change(stopping=lambda: 0)


def configured(b: Bench, server: Loopback) -> None:
    """The same models in the file, for commands that are processes of their own."""
    lines = ["models:"]
    for name, entry in models(server.url).items():
        lines += [f"  {name}:", *(f"    {key}: {value}" for key, value in entry.items())]
    (b.project.home / "config.yaml").write_text("\n".join(lines) + "\n", "utf-8")


@pytest.mark.deep
def test_sigterm_leaves_the_courier_at_work(bench: MakeBench) -> None:
    with Loopback({"text": command(summary="Late."), "delay": 2}) as server:
        b = paid(bench(), server.url)
        b.create()
        leave_at_work(b, server)
        assert b.step().state.last is not None
    assert len(server.requests) == 1
