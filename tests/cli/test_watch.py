"""`logist watch`, on real terminals."""

from __future__ import annotations

import signal
import subprocess

from tests.cli.desk import Desk, answer, command
from tests.cli.terminal import CTRL_C, Terminal
from tests.cli.test_interrupted import Slow, paid
from tests.cli.test_progress import DONE, WRITES, prepare

HOSTILE = "Which [red]one[/red]?\x1b[2J \x1b]8;;https://x.example\x07link"


def test_it_follows_the_jobs_until_q(desk: Desk) -> None:
    with Slow(WRITES, DONE) as server:
        prepare(desk, server, "j1", "waits")
        desk("job", "suspend", "waits")
        step = desk.started(
            "job", "step", "j1", env=paid(desk), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        server.wait_for(1)
        with Terminal(desk, "watch", "--interval", "0.2", columns=80) as terminal:
            terminal.wait_for("1 working, 1 waiting for you, 0 for an agent, 0 ended")
            terminal.wait_for("  Worker, turn 1 (")
            server.go.release(2)
            terminal.wait_for("0 working, 2 waiting for you")
            terminal.type(b"q")
            assert terminal.wait() == 0
        assert step.wait() == 11
    assert "\x1b[?25l" not in terminal.raw  # a killed command can't show the cursor again
    after = terminal.raw.rpartition("\x1b[?1049l")[2]
    assert "2 waiting for you" in after
    assert "stopped watching; the jobs are not affected" in after


def test_ctrl_c_and_sigterm_leave_the_terminal_as_it_was(desk: Desk) -> None:
    desk.create()
    with Terminal(desk, "watch", columns=60) as terminal:
        terminal.wait_for("press q")
        terminal.type(CTRL_C)
        assert terminal.wait() == 130
    assert terminal.raw.count("\x1b[?1049h") == terminal.raw.count("\x1b[?1049l") == 1
    with Terminal(desk, "watch", env={"NO_COLOR": "1"}) as terminal:
        terminal.wait_for("press q")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143
    assert "\x1b[?1049l" in terminal.raw
    assert "\x1b[1m" not in terminal.raw


def test_text_of_agents_is_neither_markup_nor_control(desk: Desk) -> None:
    desk.script(answer(command("STUCK", summary=HOSTILE)))
    desk.create()
    desk("job", "step", "j1")
    with Terminal(desk, "watch", columns=100) as terminal:
        terminal.wait_for("Which [red]one[/red]?[2J ]8;;https://x.examplelink")
        terminal.type(b"q")
        terminal.wait()
    assert "\x1b[2J" not in terminal.raw.partition("Which")[2].partition("link")[0]
    assert "\x1b]8" not in terminal.raw


def test_a_small_terminal_says_how_many_are_left_out(desk: Desk) -> None:
    for number in range(25):
        desk.create(f"job-{number}")
    with Terminal(desk, "watch", columns=60) as terminal:  # of 24 lines
        terminal.wait_for("and 6 more")
        terminal.type(b"q")
        assert terminal.wait() == 0


def test_elsewhere_it_prints_once(desk: Desk) -> None:
    desk.script(answer(command("STUCK", summary="Which one?")))
    desk.create("stuck")
    desk("job", "step", "stuck")
    desk.create("new")
    ran = desk("watch")
    rows = [line.split("\t") for line in ran.out.splitlines()]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("stuck", "STUCK (agent)", "Which one?"),
        ("new", "PENDING", ""),
    ]
    assert (ran.code, ran.err) == (0, "")
    seen = desk.on_terminal("watch", columns=60, env={"TERM": "dumb"})
    assert seen.startswith("0 working, 1 waiting for you, 1 for an agent, 0 ended")
    assert "\x1b" not in seen
    assert "\n  Which one?\n" in seen
    data = desk("watch", "--json").json["data"]
    assert (data["waiting_for_person"], data["jobs"][0]["activity"]) == (1, "Which one?")


def test_no_jobs(desk: Desk) -> None:
    ran = desk("watch")
    assert (ran.code, ran.out) == (0, "")
    assert 'no jobs found (logist job create --prompt "...")' in ran.err
