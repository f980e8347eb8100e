"""What a person sees while an agent works, and what Ctrl-C and --detach say and do; real programs and terminals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from logist.store import JobDir
from logist.store.progress import MOST_BYTES, NAME, Activity, ActivityRecord, ProgressWriter
from tests.cli.desk import Desk, Json, command
from tests.cli.terminal import CTRL_C, Terminal
from tests.cli.test_interrupted import MODELS, Slow, courier_held, paid
from tests.cli.test_planted_files import huge, limited, link_to_device, pipe
from tests.loopback import Loopback

SETTINGS = MODELS.replace(" &model", "") + "review: {enabled: false}\n"


def calling(name: str, **arguments: object) -> Json:
    """An answer of the model that calls a tool."""
    return {
        "calls": [{"name": name, "args": arguments, "id": f"call-{name}"}],
        "usage": {"input": 1000, "output": 100},
    }


WRITES = calling("write_file", path="hello.txt", content="hi")
DONE: Json = {"text": command(), "usage": {"input": 2000, "output": 200}}


def prepare(desk: Desk, server: Loopback, *jobs: str) -> None:
    desk.settings(SETTINGS.replace("{url}", server.url))
    for job_id in jobs or ("j1",):
        desk.create(job_id)


def read_progress(desk: Desk, job_id: str = "j1") -> Json:
    progress: Json = desk("job", "status", job_id, "--json").json["data"]["progress"]
    return progress


def mask_seconds(text: str) -> str:
    return re.sub(r"\b\d+ s\b", "N s", text)


def test_a_terminal_has_a_live_line_that_is_gone_at_the_end(desk: Desk) -> None:
    with Slow(WRITES, DONE) as server:
        prepare(desk, server)
        with Terminal(desk, "job", "step", "j1", env=paid(desk)) as terminal:
            terminal.wait_for("j1: Worker, turn 1 (")
            shown = desk("job", "status", "j1")
            assert "\n  progress: Worker, turn 1 (" in shown.out
            assert "up to $0.0" in shown.out
            assert "in flight): waiting for the answer\n" in shown.out
            assert "next: logist job tail --job j1 to wait and watch the agent, or: " in shown.out
            server.go.release()
            server.wait_for(2)
            terminal.wait_for("j1: Worker, turn 2 (")
            progress = read_progress(desk)
            assert (progress["turn"], progress["input_tokens"], progress["output_tokens"]) == (2, 1000, 100)
            assert (progress["cost_microcents"], progress["role"]) == (70_000, "Worker")
            server.go.release()
            assert terminal.wait() == 11
        assert "\x1b[?25l" not in terminal.raw  # a killed command can't show the cursor again
        assert "turn" not in terminal.screen
        assert "asking Worker (openai/model)\n#2 Worker: COMPLETED" in terminal.screen
    assert not (desk.job() / "inflight").exists()
    assert desk("job", "verify", "j1").code == 0


def test_a_pipe_has_one_line_per_event(desk: Desk) -> None:
    with Loopback(WRITES, DONE) as server:
        prepare(desk, server)
        done = desk.process("job", "step", "j1", env=paid(desk))
    assert done.code == 11
    lines = mask_seconds(done.err).splitlines()
    amounts = "N s, 1,000 tokens in, 100 out, $0.0007"
    assert lines[0] == "asking Worker (openai/model)"
    assert re.fullmatch(
        r"j1: Worker, turn 1 \(N s, up to \$0\.\d+ in flight\): waiting for the answer", lines[1]
    )
    assert lines[2] == f"j1: Worker, turn 1 ({amounts}): answered"
    assert lines[3] == f"j1: Worker, turn 1 ({amounts}): write_file hello.txt"
    assert lines[4].startswith(f"j1: Worker, turn 2 ({amounts}, up to $0.0")
    assert lines[5] == "j1: Worker, turn 2 (N s, 3,000 tokens in, 300 out, $0.0021): answered"
    assert lines[6:] == []


@pytest.mark.parametrize("words", [("job", "step", "j1"), ("job", "run", "j1"), ("run",)])
def test_quiet_and_json_show_no_progress(desk: Desk, words: tuple[str, ...]) -> None:
    with Loopback(WRITES, DONE) as server:
        prepare(desk, server)
        done = desk.process(*words, "--quiet", env=paid(desk))
        assert (done.code, "APPROVAL_REQUIRED" in done.out) == (11, True)
        assert [line for line in done.err.splitlines() if "waiting" not in line] == []
        assert "turn" not in done.err
        assert "asking" not in done.err
        desk.create("j2")
        assert (
            "turn"
            not in desk.process(
                *words[:-1], *(("j2",) if len(words) > 1 else ("run",)), "--json", env=paid(desk)
            ).err
        )


def test_a_run_has_a_line_per_job(desk: Desk) -> None:
    with Slow(DONE) as server:
        prepare(desk, server, "j1", "j2")
        with Terminal(desk, "run", "--parallel", "2", env=paid(desk)) as terminal:
            server.wait_for(2)
            terminal.wait_for("j1: Worker, turn 1 (")
            terminal.wait_for("j2: Worker, turn 1 (")
            server.go.release(2)
            assert terminal.wait() == 11
        assert "turn" not in terminal.screen
        assert terminal.screen.count(" Worker: COMPLETED") == 2


def test_tail_follows_a_job_until_it_is_idle(desk: Desk) -> None:
    with Slow(WRITES, DONE) as server:
        prepare(desk, server)
        step = desk.started(
            "job", "step", "j1", env=paid(desk), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        server.wait_for(1)
        tail = desk.started("job", "tail", "j1", stdout=subprocess.PIPE)
        with Terminal(desk, "job", "tail", "j1") as terminal:
            terminal.wait_for("j1: Worker, turn 1 (")
            assert tail.stdout is not None
            assert b"Worker, turn 1 (" in tail.stdout.readline()
            server.go.release(2)
            assert terminal.wait() == 0
        with tail.stdout as pipe:
            out = pipe.read().decode()
        assert (step.wait(), tail.wait()) == (11, 0)
    assert "): write_file hello.txt\n" in out
    assert out.endswith('next: logist job approve --job j1, or: logist job reject --job j1 --note "..."\n')
    assert "): write_file hello.txt\n" in terminal.screen
    assert "j1: Worker, turn" not in terminal.screen


def test_ctrl_c_in_tail_stops_only_tail(desk: Desk) -> None:
    with Slow(DONE) as server:
        prepare(desk, server)
        step = desk.started(
            "job", "step", "j1", env=paid(desk), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        server.wait_for(1)
        with Terminal(desk, "job", "tail", "j1") as terminal:
            terminal.wait_for("turn 1 (")
            terminal.type(CTRL_C)
            assert terminal.wait() == 130
        assert "stopped watching; the agent continues its work" in terminal.screen
        assert "j1 is RUNNING\n" in terminal.screen
        server.go.release()
        assert step.wait() == 11


def test_tail_without_an_agent(desk: Desk) -> None:
    desk.create()
    done = desk("job", "tail", "j1")
    assert (done.code, done.out, done.err) == (
        0,
        "j1 is PENDING\nnext: logist job step --job j1\n",
        "no agent is working\n",
    )


def test_ctrl_c_says_what_it_costs(desk: Desk) -> None:
    with Slow(WRITES, DONE) as server:
        prepare(desk, server)
        with Terminal(desk, "job", "step", "j1", env=paid(desk)) as terminal:
            server.go.release()
            server.wait_for(2)
            terminal.wait_for("turn 2 (")
            terminal.type(CTRL_C)
            assert terminal.wait() == 130
        screen = terminal.screen.replace("^C", "")
        assert "stopping the agent and recording its results so far; press Ctrl-C again" in screen
        costs = (
            r"booked: \$0\.0007 for 1 answer; in flight: up to \$0\.0\d+, in doubt if the answer doesn't arrive "
            r"within 3 seconds; unpaid: all later requests, which are not sent"
        )
        assert re.search(costs, screen), screen
        assert "j1 is now STUCK (in doubt: " in screen
        assert not re.search(r"^j1: Worker, turn", screen, re.M)
    assert len(server.requests) == 2


def test_a_second_ctrl_c_leaves_the_terminal_usable(desk: Desk) -> None:
    with Slow(DONE) as server:
        prepare(desk, server)
        with Terminal(desk, "job", "step", "j1", env=paid(desk)) as terminal:
            terminal.wait_for("turn 1 (")
            with courier_held(desk):
                terminal.type(CTRL_C)
                terminal.wait_for("unpaid: ")
                terminal.type(CTRL_C)
                assert terminal.wait() == 130
        assert "\x1b[?25l" not in terminal.raw
        assert "an agent may still be working: the next `logist job step`" in terminal.seen
        assert desk("job", "step", "j1", env=paid(desk)).code == 3
    assert len(server.requests) == 1


@pytest.mark.parametrize("words", ["step", "run"])
def test_a_detached_agent_is_collected_by_the_next_command(desk: Desk, words: str) -> None:
    with Slow(DONE) as server:
        prepare(desk, server)
        done = desk.process("job", words, "j1", "--detach", env=paid(desk))
        assert done.code == 0
        assert "the agent continues in the background; the next step waits for its answer" in done.err
        assert done.out.endswith("j1 is PENDING\nnext: logist job step --job j1\n")
        server.wait_for(1)
        assert read_progress(desk)["activity"] == "asked"
        again = desk.process("job", words, "j1", "--detach", env=paid(desk))
        assert (again.code, "the job is busy: an agent" in again.err) == (8, True)
        server.go.release()
        done = desk.process("job", words, "j1", env=paid(desk))
        assert done.code == 11
        assert "recorded the outcome of an interrupted step" in done.err or words == "run"
    assert len(server.requests) == 1
    assert [entry["kind"] for entry in desk.history()] == ["create", "ask"]


def test_an_agent_program_shows_its_last_line(desk: Desk) -> None:
    program = desk.place / "agent.py"
    program.write_text(
        "import os, sys, time\n"
        "print('reading the tests', flush=True)\n"
        f"while not os.path.exists('go'): time.sleep(0.05)\n"
        f"print({command()!r})\n",
        "utf-8",
    )
    described = {"argv": [sys.executable, str(program), "{endpoint}"], "output": "text", "metered": False}
    desk.settings(
        SETTINGS.replace("{url}", "http://127.0.0.1:9/v1")
        + f"agents: {{fake: {json.dumps(described)}}}\nsandbox: {{mode: 'off'}}\nallow_unknown_price: true\n"
    )
    desk.create()
    assert desk("trust", "--yes").code == 0
    with Terminal(desk, "job", "step", "j1", "--agent", "fake", env=paid(desk)) as terminal:
        terminal.wait_for('): working "reading the tests"')
        (desk.job() / "workspace" / "go").touch()
        terminal.wait()
    assert "Worker: COMPLETED" in terminal.screen


def working(desk: Desk) -> JobDir:
    """A job with an ask in flight."""
    desk.create()
    job = JobDir.open(desk.jobs, "j1")
    job.begin_exchange(1, {})
    return job


def garbage(path: Path) -> None:
    path.write_bytes(
        b'{"activity":"tool","turn":1e999}\n\xff\xfe{{{{\n[]\n{"activity":3}\n"x"\n' + b"[" * 100_000
    )


def directory(path: Path) -> None:
    path.mkdir()


def sparse(path: Path) -> None:
    huge(path)


@pytest.mark.parametrize("plant", [pipe, link_to_device, sparse, garbage, directory])
def test_no_command_hangs_on_a_planted_file(desk: Desk, plant: Callable[[Path], None]) -> None:
    job = working(desk)
    plant(job.inflight / NAME)
    with job.hold_lock(command="job step", since="2026-01-02T03:04:05Z"):
        shown = limited(desk, "job", "status", "j1")
        assert (shown.code, shown.err, "j1 is RUNNING\n" in shown.out) == (0, "", True)
        assert "progress:" not in shown.out
        terminal = Terminal(desk, "job", "tail", "j1")
        terminal.wait_for("watching job step (pid ")
    with terminal:
        assert terminal.wait() == 0
    assert "j1 is PENDING\n" in terminal.screen
    verified = limited(desk, "job", "verify", "j1")
    assert (verified.code, NAME in verified.out + verified.err) == (0, False)


@pytest.mark.parametrize("plant", [pipe, link_to_device, garbage])
def test_the_courier_replaces_a_planted_file(desk: Desk, plant: Callable[[Path], None]) -> None:
    target = desk.place / "precious.txt"
    target.write_text("precious", "utf-8")
    with Slow(DONE) as server:
        prepare(desk, server)
        inflight = desk.job() / "inflight"
        inflight.mkdir()
        plant(inflight / NAME)
        (inflight / NAME).unlink()
        os.link(target, inflight / NAME)
        step = desk.started(
            "job", "step", "j1", env=paid(desk), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        server.wait_for(1)
        assert read_progress(desk)["activity"] == "asked"
        (inflight / NAME).unlink()  # nobody needs it
        assert desk("job", "status", "j1", "--json").json["data"]["progress"] is None
        server.go.release()
        assert step.wait() == 11
    assert target.read_text("utf-8") == "precious"


def test_what_a_killed_courier_left_is_no_damage(desk: Desk) -> None:
    job = working(desk)
    writer = ProgressWriter(job.inflight, lambda: 1.0, lambda: 1.0)
    for _ in range(MOST_BYTES // 100):
        writer.write(ActivityRecord(Activity.ANSWERING, words="w" * 200))
    assert (job.inflight / NAME).stat().st_size <= MOST_BYTES
    assert NAME not in desk("doctor").out
    assert desk("job", "verify", "j1").code == 0


def test_a_model_that_is_asked_again_is_told_what_was_wrong_and_so_is_the_person(desk: Desk) -> None:
    prose: Json = {"text": "I have done it.", "usage": {"input": 1000, "output": 100}}
    with Loopback(prose, DONE) as server:
        prepare(desk, server)
        desk.settings((desk.home / "config.yaml").read_text("utf-8") + "answers: {reask: 1}\n")
        with Terminal(desk, "job", "step", "j1", env=paid(desk)) as terminal:
            assert terminal.wait() == 11
    assert "#2 Worker: COMPLETED" in terminal.screen
    assert "asked again: no exit command" in terminal.screen
    assert "Your answer can't be used: no exit command" in server.requests[1].body["messages"][-1]["content"]
    assert desk("job", "verify", "j1").code == 0
    assert desk("job", "replay", "j1").code == 0
