"""Ctrl-C while a step that is paid for is under way: the courier stays at work, and its answer is not lost."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from typing import Any, Self

from tests.cli.desk import Desk, command
from tests.loopback import Loopback, Received
from tests.support import logist_command, process_environment

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


def interrupted(desk: Desk, server: Slow, count: int, *args: str) -> tuple[int, str]:
    """A command that gets Ctrl-C as a terminal sends it, once the model has been asked: `(code, stderr)`."""
    started = subprocess.Popen(
        [*logist_command(), *args],
        cwd=desk.place,
        env=process_environment() | paid(desk),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    server.wait_for(count)
    os.killpg(started.pid, signal.SIGINT)
    _, told = started.communicate()
    return started.returncode, told.decode()


def paid(desk: Desk) -> dict[str, str]:
    return desk.env | {"LOGIST_AGENT": "litellm", "MY_MODEL": "dummy-key-for-tests-0001"}


def test_the_answer_to_an_interrupted_step_is_recorded_by_the_next(desk: Desk) -> None:
    answers = [{"text": command(summary=name)} for name in ("Made it.", "Seen it.")]
    with Slow(*answers) as server:
        desk.settings(MODELS.replace("{url}", server.url).replace(" &model", ""))
        desk.create()
        for number, words in enumerate((["step"], ["run"]), 1):
            code, told = interrupted(desk, server, number, "job", *words, "j1")
            assert code == 130
            assert "the agent is still at work (the next 'logist job step' records its answer)" in told
            assert "Traceback" not in told
            shown = desk("job", "status", "j1", "--json").json["data"]
            assert shown["status"] == ("RUNNING", "REVIEWING")[number - 1]
            assert shown["held_by"]["courier_alone"]
            server.go.release()
            done = desk("job", "step", "j1", env=paid(desk))
            assert (done.code, len(server.requests)) == ((0, 11)[number - 1], number)
            assert "concluded what an earlier step had left in flight; nothing was asked" in done.err
    summaries = [entry["response"].get("summary_for_supervisor") for entry in desk.history()[1:]]
    assert summaries == ["Made it.", "Seen it."]
    assert desk("job", "verify", "j1").code == 0
