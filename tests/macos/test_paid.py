"""Paid calls on an emulated Mac: through a courier, killed, interrupted, and by two commands at once."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.cli.desk import command
from tests.loopback import Loopback
from tests.macos.mac import Mac


@contextmanager
def model(mac: Mac, *answers: dict[str, Any]) -> Iterator[Loopback]:
    """A model on this machine, and a job that asks it."""
    with Loopback(*answers) as server:
        assert mac.run("init").code == 0
        mac.use_model(server.url)
        for role in ("Worker", "Supervisor"):
            changed = mac.run("role", "set", role, "permissions", "[read_files, write_files, create_files]")
            assert changed.code == 0, changed.err
        created = mac.run("job", "create", "--id", "j1", "--no-repo", "--prompt", "Do it.")
        assert created.code == 0, created.err
        yield server


def wait_for(is_true: Callable[[], object]) -> None:
    until = time.monotonic() + support.CRASHED
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.02)


def kinds(mac: Mac) -> list[str]:
    return [entry["kind"] for entry in mac.history()]


def test_worker_and_reviewer_are_asked_by_couriers(mac: Mac) -> None:
    with model(mac, {"text": command()}, {"text": command()}) as server:
        done = mac.run("run")
        assert (done.code, mac.state()["status"]) == (11, "APPROVAL_REQUIRED"), (done, mac.courier_log())
        assert len(server.requests) == 2
    assert mac.run("job", "verify", "j1").code == 0
    assert mac.run("job", "replay", "j1").code == 0
    assert mac.courier_log() == ""


def test_a_model_works_on_files(mac: Mac) -> None:
    calls = [
        {"name": "create_file", "args": {"path": "src/made.txt", "content": "one\n"}},
        {"name": "edit_file", "args": {"path": "src/made.txt", "old": "one", "new": "two"}},
        {"name": "search", "args": {"pattern": "two"}},
        {"name": "read_file", "args": {"path": "src/made.txt"}},
    ]
    end = {"text": command(evidence_files=["src/made.txt"])}
    with model(mac, *({"text": "", "calls": [each]} for each in calls), end) as server:
        done = mac.run("job", "step", "j1")
        assert done.code == 0, (done, mac.courier_log())
        assert mac.history()[-1]["response"]["tools"] == {each["name"]: 1 for each in calls}
        offered = {tool["function"]["name"] for tool in server.requests[0].body["tools"]}
        assert "execute_command" not in offered
        told = [message["content"] for message in server.requests[-1].body["messages"]]
    assert "src/made.txt" in told[-3]
    assert "two" in told[-1]
    assert (mac.jobs / "j1" / "workspace" / "src" / "made.txt").read_text("utf-8") == "two\n"
    assert mac.run("job", "replay", "j1").code == 0


def test_a_command_that_is_killed_during_a_call_loses_and_repeats_nothing(mac: Mac) -> None:
    gate = threading.Event()
    with model(mac, {"text": command(summary="Late."), "gate": gate}, {"text": command()}) as server:
        killed = mac.start("job", "step", "--job", "j1")
        wait_for(lambda: server.requests)
        killed.kill()
        killed.wait()
        gate.set()
        done = mac.run("job", "step", "--job", "j1")
        assert done.code == 0, done
        assert len(server.requests) == 1
    assert mac.state()["last"]["summary"] == "Late."
    assert mac.state()["usage"]["cumulative_cost_microcents"] > 0


def test_ctrl_c_ends_the_agent_and_books_its_call(mac: Mac) -> None:
    with model(mac, {"text": command(), "delay": 600}) as server:
        stepping = mac.start("job", "step", "--job", "j1", stderr=subprocess.PIPE)
        wait_for(lambda: server.requests)
        stepping.send_signal(signal.SIGINT)
        _, errors = stepping.communicate(timeout=60)
        assert stepping.returncode == 130, errors
        assert b"stopping the agent" in errors
        assert len(server.requests) == 1
        assert mac.run("job", "status", "j1").code == 0
    assert mac.state()["usage"]["cumulative_cost_microcents"] > 0, mac.history()


@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="no ps")
def test_a_steward_cancels_while_an_agent_works(mac: Mac) -> None:
    with model(mac, {"text": command(), "delay": 600}) as server:
        stepping = mac.start("job", "step", "--job", "j1")
        wait_for(lambda: server.requests)
        stepping.terminate()
        assert stepping.wait(60) == 143
        busy = mac.run("job", "step", "--job", "j1", "--wait", "0", "--response-string", command())
        status = mac.run("job", "status", "j1")
        assert "courier pid" in status.out, (status, busy)
        canceled = mac.run("job", "cancel", "j1", "--yes", "--note", "No.")
        assert canceled.code == 0, canceled
        assert len(server.requests) == 1
    assert mac.state()["status"] == "CANCELED"
    assert mac.state()["usage"]["cumulative_cost_microcents"] > 0


def test_two_commands_on_one_job(mac: Mac) -> None:
    gate = threading.Event()
    with model(mac, {"text": command(), "gate": gate}, {"text": command()}) as server:
        stepping = mac.start("job", "step", "--job", "j1")
        wait_for(lambda: server.requests)
        busy = mac.run("job", "cancel", "j1", "--note", "No.")
        assert busy.code == 8, busy
        assert f"job step (pid {stepping.pid}" in busy.err
        gate.set()
        assert stepping.wait(60) == 0
        assert len(server.requests) == 1


def test_two_runs_do_not_work_on_one_job(mac: Mac) -> None:
    with model(mac, {"text": command(), "delay": 2}, {"text": command()}) as server:
        first = mac.start("run")
        wait_for(lambda: server.requests)
        second = mac.run("run")
        assert second.code != 1, second
        assert first.wait(60) == 11
        assert len(server.requests) == 2
    assert mac.state()["status"] == "APPROVAL_REQUIRED"


@pytest.mark.deep
def test_a_courier_that_is_killed_leaves_its_call_in_doubt(mac: Mac) -> None:
    with model(mac, {"text": command(), "delay": 600}) as server:
        stepping = mac.start("job", "step", "--job", "j1")
        wait_for(lambda: server.requests)
        stepping.kill()
        stepping.wait()
        mac.kill_courier()
        done = mac.run("job", "step", "--job", "j1", "--wait", "5")
        assert len(server.requests) == 1
    assert done.code not in (0, 1), done
    assert mac.state()["usage"]["cumulative_cost_microcents"] > 0


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("delay", [0.15, 0.4, 0.2, 0.25, 0.3, 0.35, 0.5, 0.6, 0.7])
def test_killing_each_command_after_a_while_pays_nothing_twice(mac: Mac, delay: float) -> None:
    with model(mac, {"text": command()}, {"text": command()}) as server:
        for number in range(6):
            killed = mac.start("run")
            time.sleep(delay + number * 0.04)
            killed.kill()
            killed.wait()
        assert mac.run("run").code in (11, 0)
        assert (mac.state()["status"], len(server.requests)) == ("APPROVAL_REQUIRED", 2), mac.history()
    assert mac.run("job", "verify", "j1").code == 0
    assert mac.run("job", "replay", "j1").code == 0
