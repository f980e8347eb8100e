"""The records of runs: `logist runs list` and `runs show`, whatever ended the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from logist.store.run_records import JobRest, JobStart, RunEnd, RunRecorder, RunStart
from tests import support
from tests.cli.desk import Desk, Json
from tests.cli.terminal import Terminal
from tests.cli.test_gc import small_disk
from tests.cli.test_interrupted import Slow, paid
from tests.cli.test_progress import DONE, prepare
from tests.torture.disk_mounts import Filler


@pytest.fixture
def server() -> Iterator[Slow]:
    with Slow(DONE, DONE, DONE, DONE) as server:
        yield server


def records(desk: Desk) -> list[Path]:
    return sorted((desk.home / "runs").glob("*.jsonl"))


def events(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def started(desk: Desk, *options: str) -> subprocess.Popen[bytes]:
    return desk.started(
        "run", "--parallel", "1", *options, env=paid(desk), stdout=-1, stderr=-1, process_group=0
    )


def latest(desk: Desk) -> Json:
    row: Json = desk("runs", "list", "--limit", "1", "--json").json["data"][0]
    return row


def test_a_run_that_began_no_job_leaves_nothing(desk: Desk) -> None:
    desk.create("draft", "--draft")
    ran = desk("run", "--json")
    assert (ran.code, ran.json["data"]["run"]) == (0, None)
    assert not (desk.home / "runs").exists()
    assert ": no runs yet (to run every ready job: logist run)" in desk("runs", "list").err
    shown = desk("runs", "show")
    assert (shown.code, shown.err) == (
        2,
        f"error: {desk.home}/runs: no runs yet (to run every ready job: logist run)\n",
    )


def test_a_record_says_what_each_job_did(desk: Desk) -> None:
    desk.create("a", "--no-review")
    desk.create("b", "--no-review", "--approval", "none")
    desk.create("c", "--rank", "9")
    (desk.job("c") / "job.yaml").write_text("prompt: [\n", "utf-8")
    data = desk("run", "--parallel", "1", "--for", "90m", "--json").json["data"]
    [path] = records(desk)
    lines = events(path)
    assert [(line["event"], line.get("job")) for line in lines] == [
        ("run_begun", None),
        *(("job_begun", "a"), ("job_rested", "a"), ("job_begun", "b"), ("job_rested", "b")),
        *(("job_begun", "c"), ("job_rested", "c"), ("run_ended", None)),
    ]
    assert lines[0]["arguments"] == ["--parallel", "1", "--for", "90m", "--json"]
    assert lines[0]["run"] == data["run"] == path.stem
    assert (lines[2]["status"], lines[2]["exit_code"], lines[2]["waits"]) == (
        "APPROVAL_REQUIRED",
        11,
        "approval",
    )
    assert lines[2]["next_command"].startswith("logist job approve --job a")
    assert (lines[4]["status"], lines[4]["waits"], lines[4]["next_command"]) == ("SUCCESS", "", "")
    assert (lines[6]["status"], lines[6]["exit_code"]) == ("error", 5)
    assert (lines[7]["why"], lines[7]["exit_code"], lines[7]["jobs"]) == ("nothing_ready", 5, 3)
    assert lines[7]["cost_microcents"] == sum(line.get("cost_microcents", 0) for line in lines[:7])
    assert data["cost_cents"] * 1_000_000 + data["cost_microcents"] == lines[7]["cost_microcents"]
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_costs_of_a_run_are_those_of_its_calls(desk: Desk, server: Slow) -> None:
    prepare(desk, server, "a", "b")
    server.go.release(9)
    data = desk("run", "--json", env=paid(desk)).json["data"]
    spent = desk("budget", "history", "--by", "run", "--json").json["data"]["rows"]
    assert [(row["name"], row["cost_cents"], row["cost_microcents"]) for row in spent] == [
        (data["run"], data["cost_cents"], data["cost_microcents"])
    ]
    assert data["cost_microcents"] > 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_prints_its_table_and_records_its_end(
    desk: Desk, server: Slow, number: int, code: int
) -> None:
    prepare(desk, server, "a", "b")
    with started(desk) as running:
        server.wait_for(1)
        running.send_signal(number)
        out, _ = running.communicate(timeout=support.CRASHED)
    assert running.returncode == code
    assert any(line.startswith("a\t") for line in out.decode().splitlines())
    row = latest(desk)
    assert (row["ended"], row["exit_code"], row["job_count"]) == ("stopped", code, 1)
    if number == signal.SIGINT:  # what was recorded of the agent's work counts
        [shown] = [line.split("\t") for line in out.decode().splitlines() if line.startswith("a\t")]
        assert shown[1] == "STUCK"
        assert shown[5].startswith("logist job resubmit --job a")
        assert "jobs: 1 (1 STUCK)" in out.decode()
        usage = desk.history("a")[-1]["usage"]
        cost = usage["cost_cents"], usage["cost_microcents"]
        assert (row["cost_cents"], row["cost_microcents"]) == cost != (0, 0)
    name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    assert f"stopped by {name}" in desk("runs", "list").out
    server.go.release(9)
    again = desk("run", env=paid(desk))
    # After Ctrl-C, the agent has ended without an answer, so that a person has to say whether the call was paid.
    first = "STUCK" if number == signal.SIGINT else "APPROVAL_REQUIRED"
    assert again.code == (3 if number == signal.SIGINT else 11)
    assert [desk.state(each)["status"] for each in "ab"] == [first, "APPROVAL_REQUIRED"]


def test_a_running_run_and_a_killed_one(desk: Desk, server: Slow) -> None:
    prepare(desk, server, "a", "b")
    with started(desk) as running:
        server.wait_for(1)
        assert latest(desk)["ended"] == "running"
        shown = desk("runs", "show")
        assert "still running" in shown.out
        assert shown.out.splitlines()[-1].startswith("a\trunning\t")
        running.kill()
    row = latest(desk)
    assert (row["ended"], row["exit_code"], row["job_count"]) == ("killed", None, 1)
    assert "killed" in desk("runs", "list").out
    assert desk("runs", "show").out.splitlines()[-1].startswith("a\tinterrupted\t")
    [path] = records(desk)
    with path.open("ab") as file:
        file.write(b'{"event":"job_rested","job":"a","sta')  # a line that was cut off
    assert (desk("runs", "show").err, latest(desk)["ended"]) == ("", "killed")
    server.go.release(9)
    assert desk("run", env=paid(desk)).code == 11
    # Runs that begin in the same second are listed in no particular order.
    ends = {row["ended"] for row in desk("runs", "list", "--json").json["data"]}
    assert ends == {"nothing_ready", "killed"}
    assert len(server.requests) == 2
    assert desk("doctor").code == 0


def test_the_agents_of_a_killed_run_do_not_keep_its_record(desk: Desk, server: Slow) -> None:
    """The courier of a call lives on, and must not have inherited the lock."""
    prepare(desk, server, "a")
    with started(desk) as running:
        server.wait_for(1)
        running.kill()
        running.wait()
        assert "progress" in desk("job", "status", "a").out
        assert latest(desk)["ended"] == "killed"


def test_lines_that_are_damaged_are_left_out(desk: Desk) -> None:
    desk.create("a", "--no-review")
    assert desk("run").code == 11
    [path] = records(desk)
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b'{"event":"job_rested","job":7}\n[]\n\xff\n{"event":"later"}\n'
    path.write_bytes(lines[0] + damaged + b"".join(lines[1:]))
    shown = desk("runs", "show")
    assert (shown.code, "a\tAPPROVAL_REQUIRED" in shown.out) == (0, True)
    assert shown.err == f"warning: {path.stem}: 3 lines of the record can't be read and are left out\n"
    path.write_bytes(b"")
    assert [row["ended"] for row in desk("runs", "list", "--json").json["data"]] == ["killed"]
    path.unlink()
    path.mkdir()
    assert "can't read its record" in desk("runs", "list").err
    assert desk("runs", "show").code == 1


def test_a_run_is_named_by_the_beginning_or_the_end_of_its_id(desk: Desk) -> None:
    ids = ["2026-11-26T23:00:01-aaaa", "2026-11-26T23:00:02-aaab", "2025-01-01T00:00:00-bbbb"]
    (desk.home / "runs").mkdir()
    for each in ids:
        line = {"event": "run_begun", "run": each, "at": "2026-11-26T22:00:01Z"}
        (desk.home / "runs" / f"{each}.jsonl").write_text(json.dumps(line) + "\n")
    for text, meant in (
        ("bbbb", ids[2]),
        ("2025", ids[2]),
        ("2026-11-26T23:00:02", ids[1]),
        (ids[0], ids[0]),
    ):
        assert desk("runs", "show", text, "--json").json["data"]["run"] == meant
    assert desk("runs", "show", "--json").json["data"]["run"] == ids[1]
    several = desk("runs", "show", "2026")
    assert several.err == (
        "error: 2026: 2 runs match this id (type more of the id; to see all runs: logist runs list)\n"
    )
    unknown = desk("runs", "show", "../x")
    assert (unknown.code, unknown.err) == (
        2,
        "error: ../x: unknown run (to see all runs: logist runs list)\n",
    )


def test_a_record_that_can_not_be_written_stops_nothing(desk: Desk) -> None:
    for job_id in ("a", "b"):
        desk.create(job_id, "--no-review", "--approval", "none")
    (desk.home / "runs").write_text("")
    ran = desk("run", "--parallel", "1")
    assert (ran.code, ran.err.count("can't write the record of this run")) == (0, 1)
    assert f"{desk.home}/runs/" in ran.err
    assert "the run continues" in ran.err


def test_on_a_full_disk_a_run_says_so_once_and_the_next_one_continues(
    tmp_path: Path, run_logist: support.RunLogist
) -> None:
    with small_disk(tmp_path) as disk:
        desk = Desk(disk / "project", run_logist)
        desk.settings("min_free_bytes: 0\n")
        for job_id in ("a", "b"):
            desk.create(job_id, "--no-review", "--approval", "none", "--no-repo")
        filler = Filler(disk / "filler")
        filler.fill()
        ran = desk("run", "--parallel", "1")
        assert ran.code == 1
        assert ran.err.count("can't write the record of this run") == 1
        assert "No space left on device" in ran.err
        filler.remove()
        assert list((desk.home / "runs").glob("*.jsonl")) == []
        again = desk("run", "--parallel", "1")
        assert (again.code, again.out.splitlines()[-1]) == (0, "jobs: 2 (2 SUCCESS)"), again.err
        assert latest(desk)["job_count"] == 2


def test_gc_removes_records_of_runs_that_ended_before(desk: Desk, server: Slow) -> None:
    prepare(desk, server, "a", "b")
    server.go.release(1)
    with started(desk, "--max-jobs", "1") as done:
        done.wait(support.CRASHED)
    [old] = records(desk)
    with started(desk) as running:
        server.wait_for(2)
        [lives] = set(records(desk)) - {old}
        for path in (old, lives):
            os.utime(path, (0, 0))
        planned = desk("gc", "--older-than", "1d", "--dry-run", "--json").json["data"]["freed"]
        assert planned["runs"] > 0
        assert set(records(desk)) == {old, lives}
        ran = desk("gc", "--older-than", "1d")
        assert (ran.code, "\trecords of runs\n" in ran.out) == (0, True)
        assert records(desk) == [lives]
        running.kill()
    os.utime(lives)
    assert desk("gc", "--older-than", "1d", "--json").json["data"]["freed"]["runs"] == 0
    os.utime(lives, (0, 0))
    assert desk("gc", "--older-than", "1d", "--json").json["data"]["freed"]["runs"] > 0
    assert records(desk) == []


def test_with_jobs_elsewhere_the_record_is_beside_them(desk: Desk, tmp_path: Path) -> None:
    jobs = tmp_path / "there"
    made = desk("job", "create", "--id", "a", "--prompt", "x", "--no-review", "--jobs-dir", str(jobs))
    assert made.code == 0, made.err
    ran = desk("run", "--jobs-dir", str(jobs))
    assert (ran.code, not (desk.home / "runs").exists()) == (11, True)
    assert f"logist job approve --jobs-dir {jobs} --job a" in ran.out
    assert len(list((jobs / ".runs").glob("*.jsonl"))) == 1
    assert [
        row["job_count"] for row in desk("runs", "list", "--jobs-dir", str(jobs), "--json").json["data"]
    ] == [1]
    assert desk("job", "list", "--jobs-dir", str(jobs)).out.startswith("a\t")


def test_no_link_is_followed(desk: Desk, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (desk.home / "runs").symlink_to(elsewhere)
    desk.create("a", "--no-review")
    ran = desk("run")
    assert (ran.code, "can't write the record of this run" in ran.err) == (11, True)
    assert list(elsewhere.iterdir()) == []
    assert "no runs yet" in desk("runs", "list").err


def test_a_terminal_has_the_next_command_below_each_job(desk: Desk) -> None:
    desk.create("a", "--no-review")
    desk.create("b", "--no-review", "--approval", "none")
    with Terminal(desk, "run", "--parallel", "1", columns=100) as terminal:
        assert terminal.wait() == 11
        lines = [line.rstrip() for line in terminal.screen.splitlines()]
    head = next(number for number, line in enumerate(lines) if line.startswith("JOB "))
    assert lines[head].split() == ["JOB", "STATUS", "COST", "TIME", "WAITS", "FOR"]
    assert lines[head + 1].split()[:2] == ["a", "APPROVAL_REQUIRED"]
    assert lines[head + 2].startswith("  logist job approve --job a")
    assert lines[head + 3].split()[:2] == ["b", "SUCCESS"]
    assert lines[head + 5] == "jobs: 2 (1 APPROVAL_REQUIRED, 1 SUCCESS)"


def test_a_long_table_names_the_command_for_the_rest(desk: Desk) -> None:
    for number in range(23):
        desk.create(f"j{number:02}", "--no-review", "--approval", "none")
    ran = desk("run")
    *rows, totals, last = ran.out.splitlines()[-22:]
    assert len([row for row in rows if "\tSUCCESS\t" in row]) == 20
    run_id = totals.split()[1].rstrip(":")
    assert totals.endswith(f"; 3 more jobs: logist runs show {run_id}")
    assert last == "jobs: 23 (23 SUCCESS)"
    assert len([row for row in desk("runs", "show", run_id).out.splitlines() if "\tSUCCESS\t" in row]) == 23


def record_run(desk: Desk, count: int) -> str:
    """The record of a run of so many jobs; the third waits for approval, and the last could not be continued."""
    at = "2026-01-02T03:04:05Z"
    recorder = RunRecorder(str(desk.home / "runs"), RunStart("2026-01-02T03:04:05-a", at), pytest.fail)
    for number in range(count):
        recorder.write(JobStart(f"j{number}", at))
        rest = JobRest(f"j{number}", at, "SUCCESS", 0, 1)
        if number == 2:
            rest = rest._replace(status="APPROVAL_REQUIRED", exit_code=11, waits="approval")
        if number == count - 1:
            rest = rest._replace(status="error", exit_code=10, waits="damaged")
        recorder.write(rest)
    recorder.write(RunEnd(at, "nothing_ready", 10, count))
    recorder.close()
    return "2026-01-02T03:04:05-a"


def test_a_run_of_many_jobs_is_shown_on_a_terminal_without_most_of_them(desk: Desk) -> None:
    run_id = record_run(desk, 10_000)
    with Terminal(desk, "runs", "show") as terminal:
        assert terminal.wait() == 0
        shown = terminal.seen
    assert len(shown.splitlines()) < 65
    assert "1 APPROVAL_REQUIRED, 9,998 SUCCESS, 1 error" in shown
    assert shown.index("j9999") < shown.index("j2 ") < shown.index("j0 ")
    assert f"9,950 more jobs: logist runs show {run_id} | less" in shown
    assert len(desk("runs", "show").out.splitlines()) == 10_000 + 5


def test_a_limit_shows_first_what_needs_something(desk: Desk) -> None:
    run_id = record_run(desk, 30)
    lines = desk("runs", "show", "--limit", "3").out.splitlines()
    assert [line.split("\t")[0] for line in lines[-4:-1]] == ["j29", "j2", "j0"]
    assert lines[-1] == f"27 more jobs: logist runs show {run_id} | less"
    data = desk("runs", "show", "--limit", "3", "--json").json["data"]
    assert ([row["job"] for row in data["jobs"]], data["job_count"]) == (["j29", "j2", "j0"], 30)
