"""`logist run` that ends at a time, after so many jobs, or runs only some of them; real processes and clocks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests import support
from tests.cli.desk import Desk, Json, answer
from tests.cli.test_interrupted import Slow, paid
from tests.cli.test_progress import DONE, prepare

SECONDS = 6
"""A length of a run that is enough to begin its first job on a slow machine."""
STEPPED = """\
import sys, time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from logist.cli.main import main
from logist.jobs.base import project_opening
from logist.jobs.base.project import Clock

step = Path(sys.argv.pop(1))


def now():
    return datetime.now(UTC) + timedelta(hours=float(step.read_text()))


project_opening.create_clock = lambda: Clock(now, time.monotonic)
main(sys.argv[1:])
"""
"""Logist with a wall clock that a file sets: `main.py FILE ARGUMENTS`."""


@pytest.fixture
def server() -> Iterator[Slow]:
    with Slow(DONE, DONE, DONE, DONE) as server:
        yield server


def last_record(desk: Desk) -> list[Json]:
    path = max((desk.home / "runs").glob("*.jsonl"))
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--until", "7am"], "--until: not a time of the day: '7am' (use HH:MM, such as 07:00 or 23:30)"),
        (["--until", "24:00"], "--until: not a time of the day: '24:00' (use HH:MM, such as 07:00 or 23:30)"),
        (["--until", ""], "--until: not a time of the day: '' (use HH:MM, such as 07:00 or 23:30)"),
        (["--for", "8"], "--for: not a duration: '8' (use hours, minutes or both, such as 8h, 90m or 1h30m)"),
        (["--for", "0h"], "--for: not a duration: '0h' (use hours, minutes or both, such as 8h, 90m or 1h30m)"),
        (["--for", "-1h"], "--for: not a duration: '-1h' (use hours, minutes or both, such as 8h, 90m or 1h30m)"),
        (["--max-jobs", "0"], "Invalid value for '--max-jobs': 0 is not in the range x>=1. (logist run --help)"),
        (["--tag", " "], "Invalid value for '--tag': must not be empty (logist run --help)"),
        (["--status", "STUCK"], "Invalid value for '--status': 'STUCK' is not one of 'PENDING', 'REVIEW_REQUIRED'. (logist run --help)"),
    ],
)  # fmt: skip
def test_a_wrong_limit_is_refused_in_one_line(desk: Desk, options: list[str], error: str) -> None:
    desk.create()
    ran = desk("run", *options)
    assert (ran.code, ran.out, ran.err) == (2, "", f"error: {error}\n")
    assert desk.state()["status"] == "PENDING"


def test_a_run_begins_only_so_many_jobs_the_first_by_rank(desk: Desk) -> None:
    for job_id, rank in (("c", "1"), ("a", "3"), ("b", "2"), ("d", "4")):
        desk.create(job_id, "--rank", rank, "--no-review", "--approval", "none")
    ran = desk("run", "--max-jobs", "2", "--json")
    data = ran.json["data"]
    assert (ran.code, data["ended"], data["left"]) == (7, "max_jobs", 2)
    assert {row["job"] for row in data["jobs"]} == {"b", "c"}
    [told] = [each for each in ran.json["diagnostics"] if each["code"] == "left"]
    assert told["message"] == "--max-jobs is reached: 2 ready jobs left"
    rest = desk("run", "--max-jobs", "2", "--json")
    assert (rest.code, rest.json["data"]["ended"], rest.json["data"]["left"]) == (0, "nothing_ready", 0)


def test_a_job_and_its_child_jobs_count_as_one(desk: Desk) -> None:
    (desk.place / "inner.yaml").write_text("name: I\nsteps:\n- {id: s, prompt: x}\n")
    (desk.place / "w.yaml").write_text("name: W\nsteps:\n- {id: o, stepType: subflow, subflowId: inner}\n")
    for job_id in ("j1", "j2"):
        made = desk(
            "job", "create", "--id", job_id, "--workflow", "w.yaml", "--approval", "none", "--tag", "x"
        )
        assert made.code == 0, made.err
    desk.create("other", "--rank", "-5")
    ran = desk("run", "--max-jobs", "1", "--tag", "x", "--status", "pending", "--json")
    assert (ran.code, ran.json["data"]["left"]) == (7, 1)
    assert {row["job"] for row in ran.json["data"]["jobs"]} == {"j1", "j1--2-1"}
    assert desk.state("j1")["status"] == "SUCCESS"
    assert desk.state("other")["status"] == "PENDING"


def test_only_jobs_with_a_tag_are_run_and_count(desk: Desk) -> None:
    desk.script(answer("?"))
    desk.create("stuck")
    assert desk("job", "step", "stuck").code == 3
    desk.script(answer())
    desk.create("plain", "--no-review", "--approval", "none")
    desk.create("tagged", "--tag", "nightly", "--no-review")
    ran = desk("run", "--tag", "nightly")
    assert (ran.code, ran.err) == (11, "")
    assert [desk.state(each)["status"] for each in ("plain", "tagged")] == ["PENDING", "APPROVAL_REQUIRED"]
    again = desk("run", "--tag", "nightly", "--json")
    assert [row["job"] for row in again.json["data"]["waiting"]] == ["tagged"]
    (desk.job("stuck") / "state.json").write_text("{", "utf-8")
    assert desk("run", "--tag", "nightly").code == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tag", "nightyl"], "no job has the tag nightyl"),
        (["--status", "REVIEW_REQUIRED"], "no job is REVIEW_REQUIRED"),
        (["--status", "review_required", "--status", "PENDING"], "no job is PENDING or REVIEW_REQUIRED"),
        (["--tag", "nightly"], ""),
        (["--tag", "nightly", "--status", "REVIEW_REQUIRED"], "no job is REVIEW_REQUIRED"),
    ],
)
def test_a_selection_of_no_job_is_reported(desk: Desk, options: list[str], message: str) -> None:
    """It may be a typing error; the run has done nothing, and exits with 0 as always then."""
    desk.create("ended", "--tag", "nightly", "--no-review", "--approval", "none")
    assert desk("run").code == 0
    ran = desk("run", *options)
    shown = f"warning: {message} (to see all jobs: logist job list)\n" if message else ""
    assert (ran.code, ran.out, ran.err) == (0, "no ready jobs\n", shown)


def test_a_job_is_not_run_by_the_command_for_all(desk: Desk) -> None:
    desk.create("a")
    ran = desk("run", "a")
    assert (ran.code, ran.err) == (
        2,
        "error: logist run takes no job, because it runs every ready one: a (to run one job: logist job run a)\n",
    )
    assert desk.state("a")["revision"] == 1


def test_a_status_is_named_as_it_is_shown(desk: Desk) -> None:
    for args in (("run", "--status", "stuck"), ("job", "list", "--status", "broken")):
        ran = desk(*args)
        assert ran.code == 2
        assert f"'{args[-1]}' is not one of " in ran.err
        assert "'PENDING', 'REVIEW_REQUIRED'" in ran.err
        assert "pending" not in ran.err


def test_only_jobs_in_a_status_are_begun(desk: Desk) -> None:
    for job_id in ("worker", "reviewer"):
        desk.create(job_id, "--approval", "none")
    assert desk("job", "step", "reviewer").code == 0
    ran = desk("run", "--status", "review_required", "--json")
    assert (ran.code, [row["job"] for row in ran.json["data"]["jobs"]]) == (0, ["reviewer"])
    assert desk("run", "--status", "PENDING", "--json").json["data"]["jobs"][0]["interactions"] == 2


def test_a_job_with_a_better_rank_that_is_made_meanwhile_is_next(desk: Desk, server: Slow) -> None:
    prepare(desk, server, "a", "b")
    with desk.started("run", "--parallel", "1", env=paid(desk), stdout=-3, stderr=-3) as running:
        server.wait_for(1)
        desk.create("first", "--rank", "-1")
        time.sleep(1.1)  # a list of ready jobs is used for a second
        server.go.release(3)
        assert running.wait(support.CRASHED) == 11
    begun = [line["job"] for line in last_record(desk) if line["event"] == "job_begun"]
    assert begun == ["a", "first", "b"]


def test_when_the_time_is_over_the_running_step_ends_and_no_other_begins(desk: Desk, server: Slow) -> None:
    """The run is stopped for longer than its time, as a machine that is suspended: real time counts."""
    prepare(desk, server, "a", "b")
    options = ("--parallel", "1", "--for", f"{SECONDS}s")
    with desk.started("run", *options, env=paid(desk), stdout=-1, stderr=-1) as running:
        server.wait_for(1)
        running.send_signal(signal.SIGSTOP)
        server.go.release(3)
        time.sleep(SECONDS)
        running.send_signal(signal.SIGCONT)
        out, err = running.communicate(timeout=support.CRASHED)
    assert (running.returncode, len(server.requests)) == (7, 1)
    assert [desk.state(each)["status"] for each in ("a", "b")] == ["APPROVAL_REQUIRED", "PENDING"]
    assert out.decode().splitlines()[-1] == "jobs: 1 (1 APPROVAL_REQUIRED)"
    assert err.decode().splitlines()[-1] == (
        "warning: its time is over: 1 ready job left (to continue: logist run)"
    )
    end = last_record(desk)[-1]
    assert (end["event"], end["why"], end["exit_code"], end["left"]) == ("run_ended", "time", 7, 1)
    assert desk("run", env=paid(desk)).code == 11
    assert len(server.requests) == 2


@pytest.mark.parametrize(("hours", "requests"), [(30.0, 1), (-30.0, 2)], ids=["forward", "back"])
def test_a_clock_that_is_set_moves_the_time_of_the_day_at_once(
    desk: Desk, server: Slow, hours: float, requests: int
) -> None:
    prepare(desk, server, "a", "b")
    step, program = desk.place / "step", desk.place / "main.py"
    step.write_text("0")
    program.write_text(STEPPED)
    far = time.strftime("%H:%M", time.localtime(time.time() + 12 * 3600))
    arguments = ("run", "--until", far, "--for", "20h", "--parallel", "1")
    environment = support.process_environment() | paid(desk)
    environment["PYTHONPATH"] += os.pathsep + str(support.ROOT)
    with subprocess.Popen(
        [sys.executable, str(program), str(step), *arguments],
        cwd=desk.place,
        env=environment,
        stdout=-1,
        stderr=-1,
    ) as running:
        while not server.requests:
            assert running.poll() is None
        step.write_text(str(hours))
        server.go.release(9)
        _, err = running.communicate(timeout=support.CRASHED)
    code = 7 if requests == 1 else 11
    assert (running.returncode, len(server.requests)) == (code, requests), err


def test_a_watch_ends_at_its_time(desk: Desk) -> None:
    desk.settings("poll_interval_seconds: 0.05\n")
    desk.create("a", "--approval", "none")
    ran = desk.process("run", "--watch", "--for", f"{SECONDS}s", "--json")
    data = ran.json["data"]
    assert (ran.code, data["ended"], data["interrupted"]) == (0, "time", False)
    assert [row["status"] for row in data["jobs"]] == ["SUCCESS"]


def test_a_watch_ends_after_so_many_jobs(desk: Desk) -> None:
    desk.settings("poll_interval_seconds: 0.05\n")
    desk.create("a", "--approval", "none")
    ran = desk("run", "--watch", "--max-jobs", "1", "--json")
    assert (ran.code, ran.json["data"]["ended"], ran.json["data"]["left"]) == (0, "max_jobs", 0)


def test_a_run_says_when_it_will_end(desk: Desk) -> None:
    desk.create("a", "--no-review", "--approval", "none")
    ran = desk("run", "--until", "07:00")
    line = ran.err.splitlines()[0]
    assert " no more steps begin after " in line
    assert " 07:00 (in " in line


def test_a_job_that_can_not_be_continued_is_recorded_once_by_a_watch(desk: Desk) -> None:
    desk.settings("poll_interval_seconds: 0.05\n")
    desk.create("bad")
    (desk.job("bad") / "job.yaml").write_text("prompt: [\n", "utf-8")
    ran = desk.process("run", "--watch", "--for", f"{SECONDS}s")
    assert (ran.code, ran.err.count("error: bad: ")) == (5, 1)
    assert [line["event"] for line in last_record(desk)] == [
        *("run_begun", "job_begun", "job_rested", "run_ended"),
    ]
