"""`logist job activate|approve|reject|suspend|resume|cancel|fail|resubmit`: what stewards decide."""

from __future__ import annotations

import subprocess

import pytest
from syrupy.assertion import SnapshotAssertion

from logist.store import JobDir
from tests.cli.desk import Desk, answer


@pytest.fixture
def approvable(desk: Desk) -> Desk:
    desk.create()
    assert desk("job", "run", "j1").code == 11
    return desk


def status(desk: Desk, job_id: str = "j1") -> str:
    return str(desk.state(job_id)["status"])


def test_a_decision_says_where_the_job_stands(approvable: Desk, snapshot: SnapshotAssertion) -> None:
    ran = approvable("job", "approve", "j1", "--note", "Well done.")
    assert approvable.shown(ran) == snapshot
    assert status(approvable) == "SUCCESS"
    assert approvable.history()[-1]["steward"] == {"name": "ada", "note": "Well done.", "via": "pipe"}


def test_activate(desk: Desk) -> None:
    desk.create("j1", "--draft")
    assert desk("job", "activate", "j1").code == 0
    assert status(desk) == "PENDING"


def test_a_draft_without_a_prompt_is_not_activated(desk: Desk) -> None:
    assert desk("job", "create", "--id", "j1", "--draft").code == 0
    before = desk.history()
    ran = desk("job", "activate", "j1")
    assert (ran.code, ran.out) == (8, "")
    assert "logist job config" in ran.err
    assert desk.history() == before


def test_reject_wants_a_note_and_sends_it_back(approvable: Desk) -> None:
    assert approvable("job", "reject", "j1").err.startswith("error: Missing option '--note'.")
    assert approvable("job", "reject", "j1", "--note", " ").err.startswith(
        "error: Invalid value for '--note': must not be empty"
    )
    assert approvable("job", "reject", "j1", "--note", "Add a test.").code == 0
    assert status(approvable) == "PENDING"
    assert "Add a test." in approvable("job", "preview", "j1").out


def test_suspend_and_resume(approvable: Desk) -> None:
    assert approvable("job", "suspend", "j1").code == 0
    assert status(approvable) == "SUSPENDED"
    assert approvable("job", "step", "j1").code == 8
    assert approvable("job", "resume", "j1").code == 0
    assert status(approvable) == "APPROVAL_REQUIRED"


@pytest.mark.parametrize(("verb", "ended"), [("cancel", "CANCELED"), ("fail", "FAILED")])
def test_the_end_is_the_end(approvable: Desk, verb: str, ended: str) -> None:
    assert approvable("job", verb, "j1").code == 0
    assert status(approvable) == ended
    before = approvable.tree()
    for args in (
        ["approve"],
        ["reject", "--note", "x"],
        ["resubmit"],
        ["suspend"],
        ["resume"],
        ["cancel"],
        ["fail"],
        ["activate"],
        ["step"],
        ["run"],
        ["poststep", "--response-string", "x"],
        ["poststep", "--response-string", "x", "--dry-run"],
        ["role", "Planner"],
        ["role", "--reset"],
    ):
        ran = approvable("job", args[0], "j1", *args[1:])
        assert (ran.code, ran.out) == (8, ""), args
        assert ran.err.startswith("error: ")
        assert ran.err.count("\n") == 1
    after = approvable.tree()
    assert {n for n in after if after[n] != before.get(n)} <= {"jobs/j1/lock"}


def test_the_help_of_a_note_says_who_reads_it(desk: Desk) -> None:
    from logist.core.machine.kinds import PROMPTS_NOTE

    kinds = [
        *("activate", "approve", "reject", "suspend", "resume", "cancel", "fail"),
        *("resubmit", "restep", "rerun"),
    ]
    for kind in kinds:
        read = "added to the next prompt" in " ".join(desk("job", kind, "--help").out.split())
        assert read is (kind in PROMPTS_NOTE), kind


def test_what_the_state_does_not_allow_names_what_it_does(approvable: Desk) -> None:
    ran = approvable("job", "resubmit", "j1")
    assert (ran.code, ran.out) == (8, "")
    assert "can't resubmit: the job is APPROVAL_REQUIRED (logist job approve --job j1" in ran.err
    in_json = approvable("job", "resubmit", "j1", "--json")
    assert (in_json.code, in_json.json["data"]) == (8, None)
    assert in_json.json["diagnostics"][0]["code"] == "refused"


def test_resubmit_has_it_tried_again(desk: Desk) -> None:
    desk.script(answer("?"), answer())
    desk.create()
    assert desk("job", "step", "j1").code == 3
    ran = desk("job", "resubmit", "j1", "--note", "In JSON.", "--to", "task")
    assert (ran.code, status(desk)) == (0, "PENDING")
    assert desk.history()[-1]["command"] == {"step": "task", "note": "In JSON."}
    assert desk("job", "step", "j1").code == 0


def test_resubmit_for_review(desk: Desk) -> None:
    desk.script(answer("?"), answer())
    desk.create()
    desk("job", "step", "j1")
    assert desk("job", "resubmit", "j1", "--review").code == 0
    assert status(desk) == "REVIEW_REQUIRED"
    assert desk("job", "step", "j1").code == 11


def test_resubmit_to_a_step_that_is_not_there(desk: Desk) -> None:
    desk.script(answer("?"))
    desk.create()
    desk("job", "step", "j1")
    ran = desk("job", "resubmit", "j1", "--to", "deploy")
    assert (ran.code, ran.out) == (2, "")
    assert "unknown step 'deploy' in this job (the only step is 'task')" in ran.err
    assert status(desk) == "STUCK"


@pytest.mark.parametrize(
    "args",
    [
        ["step"],
        ["approve"],
        ["cancel"],
        ["config", "--set", "rank=1"],
        ["rerun"],
        ["restep", "--to", "2"],
        ["poststep", "--response-string", "x"],
        ["role", "Planner"],
    ],
)
def test_a_job_that_is_locked(approvable: Desk, args: list[str]) -> None:
    job = JobDir.open(approvable.jobs, "j1")
    with job.hold_lock(command="job step", since="2026-01-02T03:04:05Z"):
        before = approvable.tree()
        ran = approvable("job", args[0], "j1", *args[1:])
        assert (ran.code, ran.out) == (8, "")
        assert ran.err.startswith(f"error: {job.path}: the job is busy: job step (pid ")
        assert "--wait SECONDS" in ran.err
        assert ran.err.count("\n") == 1
        assert approvable.tree() == before
        for reading in ("status", "show", "history", "verify", "replay", "preview", "config"):
            assert approvable("job", reading, "j1").code in (0, 11)


def test_an_unknown_job_is_unknown_to_every_command(desk: Desk) -> None:
    from logist.cli.main import JOB

    more = {
        "poststep": ["--response-string", "x"],
        "role": ["Planner"],
        "reject": ["--note", "x"],
        "restep": ["--to", "2"],
        "rank": ["1"],
        "export": ["--fixture", "f"],
        "scrub": ["--pattern", "x", "--yes"],
    }
    for name in sorted(set(JOB) - {"create", "list", "import", "unpack"}):
        for job_id, told, fix in (
            ("nope", "job 'nope' not found", "there are no jobs here: run the command in the directory"),
            ("../x", "invalid job id '../x'", "to see all jobs, run: logist job list"),
        ):
            ran = desk("job", name, job_id, *more.get(name, []))
            assert (ran.code, ran.out) == (2, ""), name
            assert told in ran.err
            assert fix in ran.err
            assert ran.err.count("\n") == 1
    assert list(desk.jobs.iterdir()) == []


def read_review_hash(desk: Desk, job_id: str = "j1") -> str:
    return str(desk("job", "diff", job_id, "--json").json["data"]["review_hash"])


def test_an_approval_records_the_work_it_accepts(approvable: Desk) -> None:
    current = read_review_hash(approvable)
    assert approvable("job", "approve", "j1").code == 0
    entry = approvable.history()[-1]
    assert entry["command"] == {"review_hash": current, "seen": False}
    assert entry["steward"]["via"] == "pipe"
    assert "checkpoint_after" not in entry


def test_edits_are_approved_only_if_they_were_seen(approvable: Desk) -> None:
    before = read_review_hash(approvable)
    for number in range(8):
        (approvable.job() / "workspace" / f"{number}.txt").write_text("by hand\n", "utf-8")
    history = approvable.history()
    ran = approvable("job", "approve", "j1")
    assert (ran.code, ran.out) == (8, "")
    assert "created 0.txt, created 1.txt, created 2.txt, created 3.txt, created 4.txt and 3 more" in ran.err
    assert "files have changed since the last checkpoint and its checks: " in ran.err
    assert "logist job diff --job j1 3.." in ran.err
    ran = approvable("job", "approve", "j1", "--seen", before)
    assert ran.code == 8
    assert "the work has changed since you saw it: files;" in ran.err
    assert approvable.history() == history
    seen = read_review_hash(approvable)
    assert approvable("job", "approve", "j1", "--seen", seen).code == 0
    entry = approvable.history()[-1]
    assert entry["command"] == {"review_hash": seen, "seen": True}
    assert approvable.state()["checkpoint"] == entry["checkpoint_after"] == entry["checkpoint_before"]
    stat = approvable("job", "diff", "j1", "0..4", "--name-only").out
    assert stat.splitlines() == [f"{number}.txt" for number in range(8)]
    assert approvable("job", "verify", "j1").code == 0
    assert approvable("job", "replay", "j1").code == 0


def test_a_hash_names_what_has_changed(approvable: Desk) -> None:
    seen = read_review_hash(approvable)
    assert approvable("job", "suspend", "j1").code == 0
    assert approvable("job", "resume", "j1").code == 0
    ran = approvable("job", "approve", "j1", "--seen", seen)
    assert ran.code == 8
    assert "revision 3 -> 5 (" in ran.err
    assert approvable("job", "approve", "j1", "--seen", "x").code == 2
    approvable.create("j2")
    assert approvable("job", "run", "j2").code == 11
    ran = approvable("job", "approve", "j2", "--seen", seen)
    assert "it belongs to another job" in ran.err


def test_a_decision_for_a_revision(approvable: Desk) -> None:
    history = approvable.history()
    ran = approvable("job", "reject", "j1", "--note", "x", "--revision", "2")
    assert (ran.code, ran.out) == (8, "")
    assert "the job has changed since revision 2: #3 ask" in ran.err
    ran = approvable("job", "reject", "j1", "--note", "x", "--revision", "4")
    assert "the job has no revision 4 yet: it is at 3" in ran.err
    assert approvable("job", "approve", "j1", "j2", "--revision", "3").code == 2
    assert approvable("job", "approve", "j1", "j2", "--seen", "x").code == 2
    assert approvable("job", "cancel", "j1", "--yes", "--revision", "3").code == 2
    assert approvable.history() == history
    assert approvable("job", "reject", "j1", "--note", "x", "--revision", "3").code == 0


def test_several_jobs_are_decided_one_by_one(approvable: Desk) -> None:
    approvable.create("j2")
    approvable.create("j3")
    assert approvable("job", "run", "j3").code == 11
    ran = approvable("job", "approve", "j1", "j2", "gone", "j3", "j1")
    assert ran.code == 2  # of 2 and 8, as `logist run` chooses
    assert ran.out == "j1 is SUCCESS\nj3 is SUCCESS\n"
    assert [line.split(": ")[:2] for line in ran.err.splitlines()] == [["error", "j2"], ["error", "gone"]]
    assert "error: gone: job 'gone' not found (" in ran.err  # the id once, and no path before it


def test_the_jobs_are_read_from_standard_input(approvable: Desk) -> None:
    approvable.create("j2")
    ran = approvable("job", "cancel", "--stdin", "--json", stdin="j1\n\n  j2 \nj1\n")
    assert [(row["job"], row["result"]["status"], row["error"]) for row in ran.json["data"]] == [
        ("j1", "CANCELED", None),
        ("j2", "CANCELED", None),
    ]
    ran = approvable("job", "cancel", "--stdin", "--json", stdin="j1\n")
    assert (ran.code, ran.json["data"][0]["exit_code"], ran.json["data"][0]["result"]) == (8, 8, None)
    assert approvable("job", "cancel", "--stdin", stdin="").code == 0
    assert approvable("job", "cancel", "j1", "--stdin", stdin="j1\n").code == 2


@pytest.mark.deep
def test_one_of_many_processes_decides_about_a_revision(approvable: Desk) -> None:
    """32 clients decide at once; each waits for the others."""
    args = ("job", "reject", "j1", "--note", "Again.", "--revision", "3", "--wait", "60")
    clients = [
        approvable.started(*args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(32)
    ]
    errors = [client.communicate()[1].decode() for client in clients]
    codes = sorted(client.returncode for client in clients)
    assert codes == [0, *[8] * 31], errors
    assert sum("the job has changed since revision 3: #4 reject" in error for error in errors) == 31
    assert [entry["kind"] for entry in approvable.history()].count("reject") == 1
