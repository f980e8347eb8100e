"""Stops while a step that is paid for is under way: SIGTERM leaves the courier at work, Ctrl-C ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest

from logist.store import JobDir
from tests.cli.desk import Desk, command
from tests.loopback import Loopback, Received

Json = dict[str, Any]

MODELS = """\
models:
  grok-code-fast-1: &model
    provider_model: openai/model
    endpoint: {url}
    api_key_env: MY_MODEL
    input_price: 0.5
    output_price: 2.0
  gemini-2.5-flash:
    provider_model: openai/model
    endpoint: {url}
    api_key_env: MY_MODEL
    input_price: 0.5
    output_price: 2.0
"""


class Slow(Loopback):
    """Answers when it is told to."""

    def __init__(self, *steps: Json) -> None:
        super().__init__(*steps)
        self.go = threading.Semaphore(0)

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def take(self, received: Received) -> Json:
        step = super().take(received)
        self.go.acquire()
        return step

    def __exit__(self, *error: object) -> None:
        self.go.release(99)
        super().__exit__(*error)


def stopped(desk: Desk, server: Slow, count: int, number: int, *args: str) -> tuple[int, str]:
    """A command whose process group is sent a signal, as a terminal does, once the model is asked: `(code, stderr)`."""
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    started = desk.started(*args, env=paid(desk), stdout=null, stderr=pipe, process_group=0)
    server.wait_for(count)
    os.killpg(started.pid, number)
    _, told = started.communicate()
    return started.returncode, told.decode()


def paid(desk: Desk) -> dict[str, str]:
    return desk.env | {"LOGIST_AGENT": "model", "MY_MODEL": "dummy-key-for-tests-0001"}


@contextmanager
def courier_held(desk: Desk) -> Iterator[None]:
    """Inside the block the courier is stopped. A command that asks it to end waits for it: time for a second Ctrl-C."""
    holder = JobDir.open(desk.jobs, "j1").find_lock_holder()
    assert holder is not None
    assert holder.courier is not None
    os.kill(holder.courier.pid, signal.SIGSTOP)
    yield
    os.kill(holder.courier.pid, signal.SIGCONT)


@pytest.mark.deep
def test_the_answer_to_a_terminated_step_is_recorded_by_the_next(desk: Desk) -> None:
    answers = [{"text": command(summary=name)} for name in ("Made it.", "Seen it.")]
    with Slow(*answers) as server:
        desk.settings(MODELS.replace("{url}", server.url).replace(" &model", ""))
        desk.create()
        for number, words in enumerate((["step"], ["run"]), 1):
            code, told = stopped(desk, server, number, signal.SIGTERM, "job", *words, "j1")
            assert code == 143
            assert (
                "the agent is still running (to wait for its answer and record it, run: logist job step --job j1)"
                in told
            )
            assert "Traceback" not in told
            shown = desk("job", "status", "j1", "--json").json["data"]
            assert shown["status"] == ("RUNNING", "REVIEWING")[number - 1]
            assert shown["held_by"]["courier_alone"]
            server.go.release()
            done = desk("job", "step", "j1", env=paid(desk))
            assert (done.code, len(server.requests)) == ((0, 11)[number - 1], number)
            assert "recorded the outcome of an interrupted step; no new request was sent" in done.err
    summaries = [entry["response"].get("summary_for_supervisor") for entry in desk.history()[1:]]
    assert summaries == ["Made it.", "Seen it."]
    assert desk("job", "verify", "j1").code == 0


@pytest.mark.deep
def test_ctrl_c_ends_the_agent_and_tells_what_is_known(desk: Desk) -> None:
    with Slow({"text": command()}) as server:
        desk.settings(MODELS.replace("{url}", server.url).replace(" &model", ""))
        desk.create()
        code, told = stopped(desk, server, 1, signal.SIGINT, "job", "step", "j1")
        assert code == 130
        assert "stopping the agent and recording its results so far" in told
        assert "error: stopped; results so far are recorded: j1 is now STUCK (in doubt:" in told
        assert "logist job resubmit --job j1 --assume-paid" in told
        assert "Traceback" not in told
        shown = desk("job", "status", "j1", "--json").json["data"]
        assert (shown["status"], shown.get("held_by")) == ("STUCK", None)
        refused = desk("job", "resubmit", "j1")
        assert refused.code == 8
        assert "can't resubmit: it is unknown whether the last request was charged" in refused.err
        assert desk("job", "resubmit", "j1", "--assume-paid", "--retry").code == 2
        assert desk("job", "resubmit", "j1", "--retry").code == 0
        assert desk("job", "status", "j1", "--json").json["data"]["usage"]["cumulative_cost_microcents"] == 0
    assert len(server.requests) == 1


@pytest.mark.deep
def test_a_second_ctrl_c_ends_at_once(desk: Desk) -> None:
    with Slow({"text": command()}) as server:
        desk.settings(MODELS.replace("{url}", server.url).replace(" &model", ""))
        desk.create()
        started = desk.started("job", "step", "j1", env=paid(desk), stderr=subprocess.PIPE)
        assert started.stderr is not None
        server.wait_for(1)
        with courier_held(desk):
            started.send_signal(signal.SIGINT)
            while "stopping the agent" not in started.stderr.readline().decode():
                assert started.poll() is None
            assert desk("job", "status", "j1", "--json").json["data"]["status"] == "RUNNING"
            started.send_signal(signal.SIGINT)
            assert started.wait() == 130
        started.stderr.close()
        assert len(desk.history()) == 1  # nothing was recorded in that haste
        done = desk("job", "step", "j1", env=paid(desk))
        assert (done.code, desk.history()[-1]["kind"]) == (3, "recover")
    assert len(server.requests) == 1


@pytest.mark.deep
def test_a_running_job_is_canceled_when_a_person_says_so(desk: Desk) -> None:
    with Slow({"text": command()}) as server:
        desk.settings(MODELS.replace("{url}", server.url).replace(" &model", ""))
        desk.create()
        started = desk.started("job", "step", "j1", env=paid(desk), stderr=subprocess.DEVNULL)
        server.wait_for(1)
        for verb in ("cancel", "suspend", "fail"):
            refused = desk("job", verb, "j1")
            assert refused.code == 8
            assert (
                f"(to stop the agent, and leave its request in doubt: logist job {verb} --job j1 --yes)"
                in refused.err
            )
        done = desk("job", "cancel", "j1", "--yes", "--note", "Wrong job.")
        assert (done.code, started.wait()) == (0, 3)
        assert "stopping the agent (courier pid" in done.err
        assert [entry["kind"] for entry in desk.history()] == ["create", "recover", "cancel"]
    assert len(server.requests) == 1
