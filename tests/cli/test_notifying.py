"""Notifications, with the program itself: kills, trust, and `logist run`."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from logist.store.lock import claim_for_run
from tests.cli.desk import Desk, answer


def test_a_notification_lost_to_a_kill_is_sent_by_the_next_run(desk: Desk, tmp_path: Path) -> None:
    killed, heard = tmp_path / "killed", tmp_path / "heard"
    hook = f"[ -e {killed} ] || {{ touch {killed}; kill -9 $PPID; exit; }}; cat >> {heard}"
    desk.settings(json.dumps({"notify": {"stuck": hook}}))
    assert desk("trust", "--yes").code == 0
    desk.script(answer("?"))
    desk.create()
    assert desk.process("job", "step", "j1").code in (-9, 137)
    assert (desk.state()["status"], heard.exists()) == ("STUCK", False)
    assert desk("run").code == 3
    assert json.loads(heard.read_text())["id"] == "j1.2.stuck"
    assert desk("run").code == 3
    assert len(heard.read_text().splitlines()) == 1


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_a_signal_loses_no_notification(desk: Desk, tmp_path: Path, name: str) -> None:
    """The hook that the command runs does not hear the event: the next command sends it."""
    stopped, heard = tmp_path / "stopped", tmp_path / "heard"
    waits = f"echo $$ > {stopped}; kill -{name} $PPID; exec sleep 600"
    hook = f"[ -e {stopped} ] || {{ {waits}; }}; cat >> {heard}"
    desk.settings(json.dumps({"notify": {"done": hook}}))
    assert desk("trust", "--yes").code == 0
    desk.create()
    desk.create("j2")
    desk.process("job", "cancel", "j1")
    assert desk.state()["status"] == "CANCELED"
    assert desk("job", "suspend", "j2").code == 0
    assert [json.loads(line)["id"] for line in heard.read_text().splitlines()] == ["j1.2.done"]
    with suppress(ProcessLookupError):  # the command ends its hook, but not if the signal ends it at once
        os.kill(int(stopped.read_text()), signal.SIGKILL)


def test_hooks_of_a_project_need_trust(desk: Desk, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    desk.create()
    desk.settings(json.dumps({"notify": {"done": f"cat >> {heard}"}}))
    ran = desk("job", "cancel", "j1", "--yes")
    assert (ran.code, heard.exists()) == (0, False)
    assert "the notify.done command did not run: " in ran.err
    assert "`notify.done` can run programs" in ran.err
    desk.settings("notify: {timeout_seconds: 5}\n")
    desk.create("j2")
    desk.script(answer("?"))
    assert desk("job", "step", "j2").code == 3


def test_a_run_says_once_that_the_queue_is_empty(desk: Desk, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    desk.settings(json.dumps({"notify": {"queue_empty": f"cat >> {heard}"}}))
    assert desk("trust", "--yes").code == 0
    desk.script(answer("?"))
    desk.create()
    assert desk("run").code == 3
    assert desk("run").code == 3
    (event,) = map(json.loads, heard.read_text().splitlines())
    assert (event["event"], event["waiting"]) == ("queue_empty", {"STUCK": 1})


def test_the_queue_is_not_empty_while_another_run_works(desk: Desk, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    desk.settings(json.dumps({"notify": {"queue_empty": f"cat >> {heard}"}}))
    assert desk("trust", "--yes").code == 0
    desk.create("theirs")
    desk.create("ours", "--approval", "none")
    claim = claim_for_run(desk.job("theirs"))
    assert claim is not None
    assert desk("run").code == 0
    assert not heard.exists()
    claim.release()
    assert desk("run").code == 11
    assert len(heard.read_text().splitlines()) == 1
