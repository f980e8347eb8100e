"""What a person sees while a provider is not available; the real program on a terminal and in a pipe."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logist.store import WAIT as NAME
from tests.cli.desk import Desk, Json
from tests.cli.terminal import CTRL_C, Terminal
from tests.cli.test_interrupted import paid
from tests.cli.test_planted_files import huge, link_to_device, pipe
from tests.cli.test_progress import DONE, SETTINGS
from tests.loopback import Loopback

BUSY: Json = {"status": 503, "message": "overloaded"}
LATER: Json = BUSY | {"headers": {"retry-after": "1200"}}


def prepare(desk: Desk, server: Loopback, **retries: float) -> None:
    lines = "".join(f"  {name}: {value}\n" for name, value in {"max_tries": 1, **retries}.items())
    desk.settings(SETTINGS.replace("{url}", server.url) + "retries:\n" + lines)
    desk.create()


def test_a_step_waits_visibly_and_continues(desk: Desk) -> None:
    with Loopback(BUSY, BUSY, DONE) as server:
        prepare(desk, server, backoff_seconds=1)
        with Terminal(desk, "job", "step", "j1", env=paid(desk)) as terminal:
            terminal.wait_for("waiting for openai at 127.0.0.1:")
            assert terminal.wait() == 11
        assert "waiting for" not in terminal.screen
        assert "#2 Worker: COMPLETED" in terminal.screen
    assert len(server.requests) == 3


def test_a_wrong_address_is_named_while_a_step_waits_and_at_its_end(desk: Desk) -> None:
    desk.settings(SETTINGS.replace("{url}", "http://127.0.0.1:1/v1") + "retries: {backoff_seconds: 100}\n")
    desk.create()
    message = "waiting for openai at 127.0.0.1:1 until "
    address = "can't connect to http://127.0.0.1:1/v1/chat/completions: [Errno 111] Connection refused; start the server, or check models."
    done = desk.process("job", "step", "j1", "--wait", "0", env=paid(desk))
    assert done.code == 6
    [line] = [line for line in done.err.splitlines() if line.startswith(message)]
    assert address in line
    # Turns before it may have been charged, so the line says no more than this.
    assert line.endswith("; no attempt was used, the call without an answer costs nothing")
    assert "(0 s): no answer" in done.err
    assert "answered" not in done.err
    (desk.job() / NAME).unlink()
    with Terminal(desk, "job", "step", "j1", "--wait", "300", env=paid(desk), columns=240) as terminal:
        terminal.wait_for(message)
        terminal.wait_for(address)


def test_a_step_that_would_wait_too_long_ends_with_6_and_every_command_shows_why(desk: Desk) -> None:
    with Loopback(LATER) as server:
        prepare(desk, server)
        for words in (("job", "step", "j1"), ("job", "run", "j1", "--wait", "0"), ("run",)):
            done = desk.process(*words, env=paid(desk))
            assert done.code == 6, done.err
            assert "PENDING" in done.out
            assert "openai at 127.0.0.1:" in done.err
            assert ", 503" in done.err
        assert len(server.requests) == 1
    shown = desk("job", "status", "j1")
    assert "\n  waiting for openai at 127.0.0.1:" in shown.out
    assert "; 1 try so far: " in shown.out
    wait = desk("job", "status", "j1", "--json").json["data"]["provider_wait"]
    assert (wait["tries"], wait["reason"], wait["gave_up"]) == (1, "503", False)
    listed = desk("job", "list")
    assert "j1: waits for openai at 127.0.0.1:" in listed.err
    assert desk("job", "list", "--json").json["data"][0]["provider_wait"] == wait
    assert len(desk.history()) == 1


def test_ctrl_c_ends_a_wait(desk: Desk) -> None:
    with Loopback(BUSY) as server:
        prepare(desk, server, backoff_seconds=20)
        with Terminal(desk, "job", "step", "j1", env=paid(desk)) as terminal:
            terminal.wait_for("waiting for openai at 127.0.0.1:")
            terminal.type(CTRL_C)
            assert terminal.wait() == 130
        assert "stopped waiting for openai" in terminal.seen
        assert "nothing was charged" in terminal.seen
    assert len(desk.history()) == 1


def test_a_watching_run_continues_by_itself(desk: Desk) -> None:
    with Loopback(BUSY, BUSY, DONE) as server:
        prepare(desk, server, backoff_seconds=0.1)
        desk.settings((desk.home / "config.yaml").read_text() + "poll_interval_seconds: 1\n")
        with Terminal(desk, "run", "--watch", env=paid(desk)) as terminal:
            terminal.wait_for("j1 #2 Worker: COMPLETED")
            terminal.type(CTRL_C)
            assert terminal.wait() == 130
    assert len(server.requests) == 3


@pytest.mark.parametrize("plant", [pipe, link_to_device, huge])
def test_a_planted_file_holds_up_no_command(desk: Desk, plant: Callable[[Path], None]) -> None:
    with Loopback(BUSY, DONE) as server:
        prepare(desk, server, backoff_seconds=0.1)
        plant(desk.job() / NAME)
        assert desk.process("job", "list").code == 0
        assert desk.process("job", "status", "j1").code == 0
        assert desk.process("job", "step", "j1", env=paid(desk)).code == 11
    assert not os.path.lexists(desk.job() / NAME)
