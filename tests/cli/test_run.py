"""`logist job run` and `logist run`."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest
from syrupy.assertion import SnapshotAssertion

from logist.store import JobDir
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
    assert desk("run") == (0, "nothing is ready\n", "")


def test_several_at_a_time(desk: Desk) -> None:
    for n in range(5):
        desk.create(f"j{n}", "--approval", "none")
    ran = desk("run", "--parallel", "3")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "jobs: 5 (5 SUCCESS)")
    assert sorted(line.split()[0] for line in ran.out.splitlines() if " #2 " in line) == [
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
    assert ran.out.splitlines()[-1] == "jobs: 3 (1 SUCCESS, 2 an error)"
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in sorted(errors)] == ["damaged", "spec"]


def test_the_queue_in_json(desk: Desk) -> None:
    desk.create("good", "--approval", "none")
    desk.create("spec")
    (desk.job("spec") / "job.yaml").write_text("prompt: [\n", "utf-8")
    ran = desk("run", "--json")
    assert (ran.code, ran.err) == (5, "")
    good, bad = sorted(ran.json["data"]["jobs"], key=lambda row: str(row["job"]))
    assert good == {
        "job": "good",
        "status": "SUCCESS",
        "interactions": 2,
        "exit_code": 0,
        "next_command": "logist job history --job good",
        "error": None,
    }
    assert (bad["job"], bad["exit_code"], bad["error"]["code"]) == ("spec", 5, "invalid_file")


def test_a_job_at_which_another_works_is_passed_over(desk: Desk) -> None:
    desk.create("busy")
    desk.create("free", "--approval", "none")
    with JobDir.open(desk.jobs, "busy").lock(command="job step", since="now"):
        ran = desk("run")
    assert (ran.code, desk.state("free")["status"]) == (0, "SUCCESS")
    assert "busy: passed over, the job is busy" in ran.err
    assert desk.state("busy")["status"] == "PENDING"


@pytest.mark.parametrize("args", [["--parallel", "0"], ["--parallel", "many"], ["--agent", "oracle"]])
def test_wrong_options(desk: Desk, args: list[str]) -> None:
    assert desk("run", *args).code == 2


def test_watch_goes_on_until_it_is_interrupted(desk: Desk) -> None:
    desk.settings("poll_interval_seconds: 0.05\n")
    desk.create("one", "--approval", "none")
    started = desk.started("run", "--watch", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    while not started.stdout.readline().startswith(b"one #3 "):
        pass
    desk.create("two", "--approval", "none")
    while not started.stdout.readline().startswith(b"two #3 "):
        pass
    started.send_signal(signal.SIGINT)
    rest, told = started.communicate()
    assert (started.returncode, told) == (130, b"")
    assert rest.endswith(b"jobs: 2 (2 SUCCESS)\n")
    assert desk("job", "verify", "two").code == 0


def test_interrupted_in_json_is_still_one_document(desk: Desk) -> None:
    desk.settings("poll_interval_seconds: 0.05\n")
    desk.create("one", "--approval", "none")
    started = desk.started("run", "--watch", "--json", stdout=subprocess.PIPE)
    while desk.state("one")["status"] != "SUCCESS":
        assert started.poll() is None
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate()
    assert (started.returncode, json.loads(out)["data"]["interrupted"]) == (130, True)
