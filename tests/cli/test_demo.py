"""`logist demo`: the whole story, as a newcomer sees it."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from logist.agents.sandbox import processes
from tests.support import CRASHED, RunLogist, logist_command, process_environment


@pytest.mark.deep
def test_the_demo_runs_and_leaves_its_directory(run_logist: RunLogist, tmp_path: Path) -> None:
    place = tmp_path / "demo"
    done = run_logist("demo", str(place))
    assert done.code == 0, done.err
    assert "No model is called: " in done.err
    for told in (
        "COMPLETED",
        "RETRY",
        "is STUCK",
        "is APPROVAL_REQUIRED",
        "is SUCCESS",
        "replay with the same result",
    ):
        assert told in done.err
    assert (place / ".logist" / "jobs" / "shout" / "workspace" / "test_greet.py").is_file()
    assert (place / "greet.py").read_text("utf-8").count("shout") == 0  # the repository is untouched
    for line in (line.strip() for line in done.out.splitlines() if line.startswith("  ")):
        if line.startswith(("cd", "ls")):
            continue
        words = shlex.split(line, comments=True)
        ran = subprocess.run(words, cwd=place, env=process_environment(), capture_output=True, check=False)
        assert ran.returncode == 0, line


def test_ctrl_c_lets_the_running_command_end_and_is_reported_once(tmp_path: Path) -> None:
    command = [*logist_command(), "demo", str(tmp_path / "demo")]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, env=process_environment(), text=True, start_new_session=True
    ) as demo:
        assert demo.stderr is not None
        while not demo.stderr.readline().startswith("# Create a project"):
            assert demo.poll() is None
        running = stop_a_child(demo)
        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does: all processes of the command get it
        time.sleep(0.2)  # who ended the command would do it now
        os.kill(running, signal.SIGCONT)
        said = demo.stderr.read()
        assert demo.wait(CRASHED) == 130
    *_, last = said.split("$ logist ")
    assert last.count("\n") >= 3, said  # the command itself, what it has printed, and the end of the demo
    assert said.endswith("error: stopped\n")
    assert (said.count("stopped"), "Traceback" in said) == (1, False)


def stop_a_child(demo: subprocess.Popen[str]) -> int:
    """Stop a command that the demo runs; return its pid."""
    while True:
        assert demo.poll() is None
        for child in processes.list_children(demo.pid):
            with suppress(ProcessLookupError):  # it has ended
                if os.getsid(child) != child:
                    continue  # it is about to leave the session of the demo, and Ctrl-C would still reach it
                os.kill(child, signal.SIGSTOP)
                while (found := processes.read_process(child)) and found.state not in "TZX":
                    time.sleep(0.01)
                if found and found.state == "T":
                    return child


def test_a_directory_that_is_not_empty_is_refused(run_logist: RunLogist, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = run_logist("demo", str(tmp_path))
    assert (done.code, "not empty" in done.err) == (2, True)


def test_the_page_has_no_directory_to_keep(run_logist: RunLogist) -> None:
    done = run_logist("demo", "--serve", "somewhere")
    assert (done.code, "can't use DIRECTORY and --serve together" in done.err) == (2, True)


@pytest.mark.deep
def test_the_page_of_the_examples_is_served_until_ctrl_c_and_leaves_nothing(tmp_path: Path) -> None:
    environment = process_environment() | {"TMPDIR": str(tmp_path)}
    command = [*logist_command(), "demo", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as demo:
        assert demo.stdout is not None
        told = [demo.stdout.readline() for _ in range(3)]
        address = told[0].split("http://")[1].split(". ")[0]
        host, port = address.split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
            assert b" 401 " in connection.recv(100)
        assert "/enter?key=" in told[1]
        [folder] = tmp_path.iterdir()
        assert str(folder) in told[2]
        demo.send_signal(signal.SIGINT)
        assert demo.wait(CRASHED) == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_the_examples_can_be_stopped_while_they_are_made(tmp_path: Path) -> None:
    environment = process_environment() | {"TMPDIR": str(tmp_path)}
    command = [*logist_command(), "demo", "--serve"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True) as demo:
        assert demo.stderr is not None
        assert "creating example jobs" in demo.stderr.readline()
        demo.send_signal(signal.SIGINT)
        assert demo.wait(CRASHED) == 130
        demo.stderr.read()
    assert list(tmp_path.iterdir()) == []
