"""`logist job run` and `logist run`."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pytest
from syrupy.assertion import SnapshotAssertion

from logist.cli import context
from logist.cli.commands.run import Left, _run_rounds
from logist.cli.show.run_display import RunDisplay
from logist.config.environment import Environment
from logist.core.model import Interaction
from logist.jobs.base.project import Clock, ProjectContext
from logist.jobs.base.result import CommandResult
from logist.jobs.job_queue import RUN, EndedJob, run_queue
from logist.jobs.run_selection import RunSelection
from logist.store import JobDir
from logist.store.lock import claim_for_run
from logist.store.provider_wait import ProviderWait
from logist.store.run_records import RunRecorder, RunStart
from tests.cli.desk import Desk, answer, command


def test_a_job_runs_until_it_waits(desk: Desk, snapshot: SnapshotAssertion) -> None:
    desk.script(answer(command("RETRY", summary="Again.")), answer(), answer())
    desk.create()
    ran = desk("job", "run", "j1")
    assert ran.code == 11
    assert desk.shown(ran) == snapshot


def test_one_document_at_the_end(desk: Desk) -> None:
    desk.create()
    ran = desk("job", "run", "j1", "--json")
    data = ran.json["data"]
    assert (ran.code, data["status"]) == (11, "APPROVAL_REQUIRED")
    assert [entry["sequence"] for entry in data["interactions"]] == [2, 3]


@pytest.mark.parametrize(
    ("said", "options", "code"),
    [
        (answer("?"), [], 3),
        (answer(), ["--no-review", "--approval", "none"], 0),
        (answer(), ["--no-review"], 11),
        (answer(), ["--max-allowed-iterations", "0"], 7),
        ({"error": {"kind": "auth", "message": "bad key"}}, [], 6),
    ],
)
def test_the_exit_code_tells_the_outcome(
    desk: Desk, said: dict[str, object], options: list[str], code: int
) -> None:
    desk.script(said, answer())
    desk.create("j1", *options)
    assert desk("job", "run", "j1").code == code


def test_a_draft_is_not_run(desk: Desk) -> None:
    desk.create("j1", "--draft")
    assert desk("job", "run", "j1").code == 8


def test_the_queue_runs_in_rank_order_until_nothing_is_ready(desk: Desk, snapshot: SnapshotAssertion) -> None:
    for job_id, rank in (("last", "9"), ("first", "-9"), ("middle", "0")):
        desk.create(job_id, "--rank", rank, "--no-review")
    desk.create("draft", "--draft")
    ran = desk("run", "--parallel", "1")
    assert ran.code == 11
    assert desk.shown(ran) == snapshot
    again = desk("run")
    assert (again.code, again.out) == (11, "no ready jobs: 3 jobs waiting (3 APPROVAL_REQUIRED)\n")


def test_several_at_a_time(desk: Desk) -> None:
    for n in range(5):
        desk.create(f"j{n}", "--approval", "none")
    ran = desk("run", "--parallel", "3")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "jobs: 5 (5 SUCCESS)")
    assert sorted(line.split()[2] for line in ran.out.splitlines() if " #2 " in line) == [
        f"j{n}" for n in range(5)
    ]


def test_one_broken_job_stops_no_other(desk: Desk) -> None:
    for job_id in ("damaged", "good", "spec", "stuck"):
        desk.create(job_id, "--approval", "none")
    (desk.job("damaged") / "state.json").write_text("{", "utf-8")
    (desk.job("spec") / "job.yaml").write_text("prompt: [\n", "utf-8")
    desk("job", "poststep", "stuck", "--response-string", "?")
    ran = desk("run")
    assert ran.code == 10
    assert desk.state("good")["status"] == "SUCCESS"
    assert ran.out.splitlines()[-1] == "jobs: 3 (1 SUCCESS, 2 errors)"
    errors = [line.partition(" error: ")[2] for line in ran.err.splitlines()]
    assert sorted(line.partition(": ")[0] for line in errors if line) == ["damaged", "spec"]


def test_the_queue_in_json(desk: Desk) -> None:
    desk.create("good", "--approval", "none")
    desk.create("spec")
    (desk.job("spec") / "job.yaml").write_text("prompt: [\n", "utf-8")
    ran = desk("run", "--json")
    assert (ran.code, ran.err) == (5, "")
    good, bad = sorted(ran.json["data"]["jobs"], key=lambda row: str(row["job"]))
    assert (good.pop("seconds") > 0) & (good.pop("begun_at") <= good.pop("rested_at"))
    assert good == {
        "job": "good",
        "status": "SUCCESS",
        "interactions": 2,
        "cost_cents": 0,
        "cost_microcents": 0,
        "waits": None,
        "exit_code": 0,
        "next_command": "logist job history --job good",
        "error": None,
    }
    assert (bad["job"], bad["exit_code"], bad["error"]["code"]) == ("spec", 5, "invalid_file")


def waits_for_approval(desk: Desk, job_id: str) -> None:
    desk.script(answer())
    desk.create(job_id, "--no-review")
    assert desk("job", "step", job_id).code == 11


def is_stuck(desk: Desk, job_id: str) -> None:
    desk.script(answer(command("STUCK", "Which?")))
    desk.create(job_id)
    assert desk("job", "step", job_id).code == 3


def is_halted(desk: Desk, job_id: str) -> None:
    desk.create(job_id, "--max-allowed-iterations", "0")
    assert desk("job", "step", job_id).code == 7


def is_damaged(desk: Desk, job_id: str) -> None:
    is_stuck(desk, job_id)
    state = desk.job(job_id) / "state.json"
    state.write_bytes(state.read_bytes().replace(b"Which?", b"What??"))
    (desk.job(job_id) / "damaged-on-purpose").touch()


WAITING = {10: is_damaged, 3: is_stuck, 7: is_halted, 11: waits_for_approval}


@pytest.mark.parametrize("code", WAITING)
def test_a_queue_in_which_every_job_waits_for_a_person_says_so(desk: Desk, code: int) -> None:
    """The exit code is the first of 10, 3, 7, 11 that applies; nothing is written."""
    applies = list(WAITING)[list(WAITING).index(code) :]
    for each in reversed(applies):
        WAITING[each](desk, f"j{each}")
    desk.create("draft", "--draft")
    before = desk.tree()
    ran = desk("run", "--json")
    rows = {row["job"]: row for row in ran.json["data"]["waiting"]}
    assert (ran.code, ran.json["data"]["jobs"]) == (code, [])
    assert {job: row["exit_code"] for job, row in rows.items()} == {f"j{each}": each for each in applies}
    assert all(f"--job {job}" in row["next_command"] for job, row in rows.items() if job != "j10")
    text = desk("run")
    assert text.code == code
    assert text.out.startswith(f"no ready jobs: {len(applies)} job")
    assert all(f"warning: {job}: " in text.err for job in rows)
    assert desk.tree() == before


def test_what_waits_counts_though_other_jobs_were_run(desk: Desk) -> None:
    is_stuck(desk, "j1")
    desk.script(answer())
    desk.create("j2", "--no-review", "--approval", "none")
    ran = desk("run")
    assert (ran.code, desk.state("j2")["status"]) == (3, "SUCCESS")
    assert 'j1: STUCK, waits for a steward: Which? (logist job resubmit --job j1 --note "...")' in ran.err


def test_a_watch_that_is_ended_says_what_waits(desk: Desk) -> None:
    is_stuck(desk, "j1")
    desk.script(answer())
    desk.create("j2", "--no-review")
    watching = desk.started("run", "--watch", "--json", stdout=subprocess.PIPE)
    while desk.state("j2")["status"] == "PENDING":
        assert watching.poll() is None
    watching.send_signal(signal.SIGTERM)
    out, _ = watching.communicate()
    data = json.loads(out)["data"]
    assert watching.returncode == 143
    assert {row["job"] for row in data["waiting"]} == {"j1", "j2"}


def test_a_run_that_is_stopped_before_it_runs_a_job_does_not_say_that_none_is_ready(desk: Desk) -> None:
    log = desk.place / "log"
    options = ("--watch", "--log-file", str(log))
    watching = desk.started("run", *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not log.exists() or "run_begun" not in log.read_text("utf-8"):  # it handles signals before that
        assert watching.poll() is None
    watching.send_signal(signal.SIGINT)
    out, _ = watching.communicate()
    assert (watching.returncode, out) == (130, b"stopped before a job was run\n")


def test_a_job_at_which_another_works_is_passed_over(desk: Desk) -> None:
    desk.create("busy")
    desk.create("free", "--approval", "none")
    with JobDir.open(desk.jobs, "busy").hold_lock(command="job step", since="now"):
        ran = desk("run")
    assert (ran.code, desk.state("free")["status"]) == (0, "SUCCESS")
    assert "busy: skipped: the job is busy" in ran.err
    assert desk.state("busy")["status"] == "PENDING"


def test_a_job_that_waits_for_a_stuck_one_is_told_though_nothing_is_ready(desk: Desk) -> None:
    (desk.place / "inner.yaml").write_text("name: I\nsteps:\n- {id: s, prompt: x}\n")
    (desk.place / "w.yaml").write_text("name: W\nsteps:\n- {id: o, stepType: subflow, subflowId: inner}\n")
    desk.script(answer("?"))
    assert desk("job", "create", "--id", "j1", "--workflow", "w.yaml", "--approval", "none").code == 0
    assert desk("run").code == 3
    again = desk("run")
    assert (again.code, again.out) == (3, "no ready jobs: 1 job waiting (1 WAITING)\n")
    assert (
        again.err
        == "warning: j1: waiting for 1 of 1 child jobs: j1--2-1 (STUCK) (logist job status --job j1)\n"
    )
    assert desk("job", "step", "j1").code == 3
    told = desk("run", "--json").json["diagnostics"]
    assert [(each["code"], each["target"]) for each in told] == [("waiting", "j1")]
    assert desk("job", "cancel", "j1").code == 0
    assert desk("run").code == 0


@pytest.mark.parametrize("args", [["--parallel", "0"], ["--parallel", "many"], ["--agent", "oracle"]])
def test_wrong_options(desk: Desk, args: list[str]) -> None:
    assert desk("run", *args).code == 2


@pytest.mark.deep
def test_watch_goes_on_until_it_is_interrupted(desk: Desk) -> None:
    desk.settings("poll_interval_seconds: 0.05\n")
    desk.script(answer(), answer(command(output={"verdict": "PASS"})))
    desk.create("one", "--approval", "none")
    started = desk.started("run", "--watch", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    while b" one #3 " not in started.stdout.readline():
        pass
    desk.create("two", "--approval", "none")
    while b" two #3 " not in started.stdout.readline():
        pass
    started.send_signal(signal.SIGINT)
    rest, told = started.communicate()
    assert (started.returncode, told) == (130, b"")
    assert rest.endswith(b"jobs: 2 (2 SUCCESS)\n")
    assert desk("job", "verify", "two").code == 0


@pytest.mark.deep
def test_interrupted_in_json_is_still_one_document(desk: Desk) -> None:
    desk.settings("poll_interval_seconds: 0.05\n")
    desk.create("one", "--approval", "none")
    started = desk.started("run", "--watch", "--json", stdout=subprocess.PIPE)
    while desk.state("one")["status"] != "SUCCESS":
        assert started.poll() is None
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate()
    assert (started.returncode, json.loads(out)["data"]["interrupted"]) == (130, True)


def asked_in(left: Left, project: ProjectContext, rounds: int) -> list[int]:
    """The rounds of a watching queue, from 1, in which its one job was asked."""
    asked = []
    for number in range(1, rounds + 1):
        for ended in run_queue(project, 1, lambda result: None, leave=left.start_round()):
            left.record_end(ended)
            asked.append(number)
    return asked


@pytest.mark.parametrize("kind", ["auth", "bad_request", "refused"])
def test_a_job_whose_provider_is_out_is_left_for_a_while(
    desk: Desk, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.settings("poll_interval_seconds: 60\n")
    desk.script({"error": {"kind": kind, "message": "no"}})
    desk.create()
    monkeypatch.chdir(desk.place)
    project = context.open_project(Environment(dict(os.environ) | desk.env))
    left = Left(project)
    assert asked_in(left, project, 160) == [1, 14, 39, 88, 149]  # 12, 24, 48, then 60: an hour
    desk("job", "rank", "j1", "3")
    assert asked_in(left, project, 14) == [1, 14]
    (desk.job() / "state.json").unlink()  # the history says that nothing has changed
    assert asked_in(left, project, 1) == []


def test_a_provider_that_is_back_is_asked_as_ever(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    out = {"error": {"kind": "auth", "message": "no"}}
    desk.script(out, answer(), out, answer())
    desk.create()
    monkeypatch.chdir(desk.place)
    project = context.open_project(Environment(dict(os.environ) | desk.env))
    assert asked_in(Left(project), project, 30) == [1, 14, 27]
    assert desk.state()["status"] == "APPROVAL_REQUIRED"


def test_watch_passes_it_over(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.script({"error": {"kind": "auth", "message": "no"}})
    desk.create()
    monkeypatch.chdir(desk.place)
    environment = Environment(dict(os.environ) | desk.env)
    seconds = count(step=1000)  # every look at the clock ends a pause
    project = replace(
        context.open_project(environment),
        clock=Clock(now=lambda: datetime.now(UTC), monotonic=lambda: float(next(seconds))),
        stopping=lambda: 130 if next(seconds) > 1_000_000 else 0,
    )
    recorder = RunRecorder(str(desk.home / "runs"), RunStart("today"), pytest.fail)
    _run_rounds(project, 1, True, RunDisplay(environment, project, recorder, quiet=True), RUN, RunSelection())
    asked = [entry for entry in desk.history() if entry["kind"] == "ask"]
    assert 2 < len(asked) < 10


def count_results() -> int:
    """How many results of jobs, and interactions, are in memory."""
    gc.collect()
    return sum(isinstance(each, CommandResult | EndedJob | Interaction) for each in gc.get_objects())


def test_a_run_keeps_little_of_each_job(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it needs hardly more memory for ten thousand jobs than for ten."""
    desk.script(*[answer()] * 3)
    for number in range(12):
        desk.create(f"j{number}", "--no-review", "--approval", "none")
    monkeypatch.chdir(desk.place)
    environment = Environment(dict(os.environ) | desk.env)
    project = context.open_project(environment)
    recorder = RunRecorder(str(desk.home / "runs"), RunStart("today"), pytest.fail)
    display = RunDisplay(environment, project, recorder, quiet=False)
    before = count_results()
    _run_rounds(project, 4, False, display, RUN, RunSelection())
    assert [end and end.status for end in display.begun.values()] == ["SUCCESS"] * 12
    assert len({id(end) for end in display.begun.values()}) == 1, "one object for all equal ends"
    assert count_results() <= before
    work = display.read_work(display.begun)
    assert [(each.job, each.interactions) for each in work] == [(job, 1) for job in display.begun]
    recorder.close()


def test_two_runs_share_the_jobs_and_each_reports_its_own(desk: Desk) -> None:
    most = 40
    lines = [
        ["job", "create", "--id", f"j{number}", "--prompt", "x", "--approval", "none"]
        for number in range(most)
    ]
    assert all(desk(*line).code == 0 for line in lines)
    runs = [desk.started("run", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    printed = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0], printed
    rows = [json.loads(out)["data"]["jobs"] for out, _ in printed]
    own = [{row["job"] for row in each} for each in rows]
    assert all(own)
    assert own[0] & own[1] == set()
    assert len(own[0] | own[1]) == most
    assert {row["status"] for each in rows for row in each} == {"SUCCESS"}
    assert sum(row["interactions"] for each in rows for row in each) == 2 * most
    assert {len(desk.history(job_id)) for job_id in own[0] | own[1]} == {3}


def test_a_job_of_another_run_is_left_to_it_also_between_its_steps(desk: Desk) -> None:
    desk.create("theirs")
    desk.create("free", "--approval", "none")
    claim = claim_for_run(desk.job("theirs"))
    assert claim is not None
    ran = desk("run")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "jobs: 1 (1 SUCCESS)")
    assert "left to another `logist run` that works on them: 1 job\n" in ran.err
    assert desk.state("theirs")["status"] == "PENDING"
    claim.release()
    assert desk("run").code == 11


def test_a_run_does_not_wait_for_the_provider_of_a_job_that_another_run_has(desk: Desk) -> None:
    desk.create("theirs")
    job = JobDir.open(desk.jobs, "theirs")
    wait = ProviderWait("p", revision=1, began=time.time(), began_monotonic=time.monotonic(), pause=3600.0)
    with job.hold_lock(command="test", since="now"):
        job.write_wait(wait)
    claim = claim_for_run(desk.job("theirs"))
    assert claim is not None
    ran = desk("run", "--wait", "7200")
    assert ran.code == 6  # it waits for its provider; this run ended all the same
    claim.release()


def test_a_watch_writes_its_heartbeat_survives_a_hangup_without_terminal_and_ends_by_sigterm(
    desk: Desk,
) -> None:
    desk.create()
    file = desk.place / "logist.prom"
    watching = desk.started(
        *("run", "--watch", "--heartbeat", str(file), "--json"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not (file.exists() and "logist_run_steps_total 2\n" in file.read_text()):
        assert watching.poll() is None
        time.sleep(0.05)
    watching.send_signal(signal.SIGHUP)
    desk.create("j2")
    while "logist_run_steps_total 4\n" not in file.read_text():
        assert watching.poll() is None
        time.sleep(0.05)
    assert "logist_run_up 1\n" in file.read_text()
    watching.send_signal(signal.SIGTERM)
    out, _ = watching.communicate()
    assert (watching.returncode, len(json.loads(out)["data"]["jobs"])) == (143, 2)
    assert "logist_run_up 0\n" in file.read_text()


def test_a_job_whose_end_a_killed_run_has_recorded_is_no_error(desk: Desk) -> None:
    """What it has left in flight is removed."""
    desk.create("j1", "--no-review", "--approval", "none")
    desk("run")
    ((desk.home / "jobs" / "j1") / "inflight").mkdir()
    ran = desk("run", "--json")
    assert (ran.code, [job["status"] for job in ran.json["data"]["jobs"]]) == (0, ["SUCCESS"])
    assert not ((desk.home / "jobs" / "j1") / "inflight").exists()
