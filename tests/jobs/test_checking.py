"""Checks that are commands: real ones, which pass, fail, hang, crash, flood and meddle."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from logist.agents import checks
from logist.config.settings import Settings
from logist.core.model import CheckResult, Kind, Status
from logist.core.model.commands import ResubmitCommand
from logist.errors import Stopped
from logist.jobs.setup import check_commands
from logist.jobs.steward.steward_decisions import record_decision
from logist.jobs.turn import check_runs
from tests.jobs.bench import Bench, Json, answer, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_recovery import left_in_flight, response

WORK = answer(files={"a.txt": "made\n"})
PASSES = answer(command(output={"verdict": "PASS", "issues": [], "suggestions": []}))


def only(**check: Any) -> Json:
    """A config with one check of the project's own."""
    return {"review": {"checks": {"ours": {"severity": "error", **check}}}}


def checked(bench: MakeBench, settings: Json, *after: Json, work: Json = WORK, **spec: Any) -> Bench:
    b = bench([work, *after], settings)
    b.create(**spec)
    b.step()
    return b


def result(b: Bench) -> Json:
    (found,) = b.state().checks or [CheckResult()]
    return found.model_dump(mode="json")


WAYS: dict[str, tuple[Json, Json]] = {
    "passes": ({"command": ["true"]}, {"outcome": "passed", "exit_code": 0, "command": "true"}),
    "fails": (
        {"command": "echo out; echo err >&2; exit 3"},
        {"outcome": "failed", "exit_code": 3, "output": "out\n--- standard error ---\nerr"},
    ),
    "is missing": (
        {"command": ["no-such-program", "a b"]},
        {
            "outcome": "not_run",
            "reason": "no-such-program: program not found",
            "command": "no-such-program 'a b'",
        },
    ),
    "hangs": (
        {"command": "echo begun; sleep 60", "timeout_minutes": 0.05},
        {"outcome": "timeout", "output": "begun", "reason": "stopped after 3 seconds"},
    ),
    "crashes": (
        {"command": ["sh", "-c", "kill -SEGV $$"]},
        {"outcome": "failed", "reason": "killed by signal 11 (SIGSEGV)", "exit_code": None},
    ),
}


def test_how_a_check_comes_out(bench: MakeBench) -> None:
    checks = {name: {"severity": "error", **check} for name, (check, _) in WAYS.items()}
    b = checked(bench, {"review": {"checks": checks}})
    found = {each.check: each for each in b.state().checks or []}
    for name, (_, expected) in WAYS.items():
        dumped = found[name].model_dump(mode="json")
        assert {field: dumped.get(field) for field in expected} == expected, name
        assert dumped["severity"] == "error"
        assert f"running the check {name}" in b.said
    assert b.history()[-1].observed.checks == list(found.values())  # type: ignore[union-attr]
    assert b.state().status is Status.REVIEW_REQUIRED


def test_a_check_sees_the_work_and_a_failure_is_in_both_prompts(bench: MakeBench) -> None:
    b = checked(bench, only(command="cat a.txt; pwd; exit 1"), PASSES, WORK, PASSES)
    told = b.step().entries[0].request.prompt
    assert "- ours (error): the check failed (exit status 1)" in told
    assert "made\n.\n" in told
    state = b.state()
    assert (state.status, state.place.attempts, state.reason) == (Status.PENDING, 1, "blocked by ours")
    assert state.last is not None
    assert state.last.verdict == "FAIL"
    again = b.step().entries[0].request.prompt
    assert "## The review sent the work back" in again
    assert "- error (ours): the check failed (exit status 1)" in again
    assert "made\n.\n" in again
    assert str(b.workspace()) not in told + again


@pytest.mark.parametrize(
    ("mode", "severity", "status"),
    [
        ("strict", "warning", Status.PENDING),
        ("normal", "warning", Status.APPROVAL_REQUIRED),
        ("yolo", "warning", Status.SUCCESS),
    ],
)
def test_a_failed_check_blocks_by_mode(bench: MakeBench, mode: str, severity: str, status: Status) -> None:
    settings = only(command="exit 1", severity=severity)
    settings["review"]["mode"] = mode
    b = checked(bench, settings, PASSES)
    assert b.step().state.status is status
    assert b.state().findings == [
        {"check": "ours", "severity": severity, "message": "the check failed (exit status 1)"}
    ]


@pytest.mark.deep
def test_a_flood_is_heard_to_its_end_and_little_of_it_kept(bench: MakeBench) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    b = checked(bench, only(command="head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo the end"))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    found = result(b)
    assert found["outcome"] == "passed"
    assert found["output"].endswith("x\nthe end")
    assert len(found["output"]) == check_commands.SHOWN
    assert grown < 30_000  # KiB
    assert not list(b.folder().glob("inflight*"))


def test_what_a_check_changes_is_undone_also_for_the_next_one(bench: MakeBench) -> None:
    meddles = "echo more >> a.txt; mkdir -p d/e; touch d/e/f; mkfifo p; rm -rf .git; chmod 0 d"
    settings = {"review": {"checks": {"one": {"command": meddles}, "two": {"command": "ls; cat a.txt"}}}}
    b = checked(bench, settings)
    one, two = b.state().checks or []
    assert (one.outcome, two.output) == ("passed", "a.txt\nmade")
    assert sorted(os.listdir(b.workspace())) == [".git", "a.txt"]
    assert b.history()[-1].observed.changes[0].path == "a.txt"  # type: ignore[union-attr]
    assert not (b.folder() / "restoring").exists()


def test_a_check_reaches_nothing_beside_and_its_secrets_and_colours_are_taken_out(bench: MakeBench) -> None:
    key = "sk-" + "ant-api03-" + "A1b2C3d4E5f6G7h8" * 6
    one = "cat ../jobHistory.json; ls ..; touch ../state.json; env"
    two = f"printf '\\033[31mred\\033[0m {key[:20]}'; printf '{key[20:]}'"
    b = checked(bench, {"review": {"checks": {"one": {"command": one}, "two": {"command": two}}}})
    outputs = [found.output or "" for found in b.state().checks or []]
    assert '"kind"' not in outputs[0]
    assert "LOGIST_RUN_ID=j-2-" in outputs[0]
    assert outputs[1].startswith("red ")
    assert key not in (b.folder() / "jobHistory.json").read_text("utf-8")


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        ({"review": False, "approval": "end"}, {}),
        ({}, {"enabled": False}),
    ],
    ids=["no review", "switched off"],
)
def test_nothing_is_run_where_it_decides_nothing(bench: MakeBench, spec: Json, settings: Json) -> None:
    b = checked(bench, only(command="exit 1", **settings), **spec)
    assert b.state().checks is None
    assert not b.history()[-1].observed.checks  # type: ignore[union-attr]


@pytest.mark.parametrize("action", ["RETRY", "STUCK"])
def test_nothing_is_run_for_work_that_is_not_done(bench: MakeBench, action: str) -> None:
    b = checked(bench, only(command="exit 1"), work=answer(command(action)))
    assert b.state().checks is None


def test_an_answer_that_is_given_is_checked_too(bench: MakeBench) -> None:
    b = bench([], only(command="exit 1"))
    b.create()
    assert b.give(command(), dry_run=True).state.checks is None
    assert b.give(command()).state.checks is not None
    assert result(b)["exit_code"] == 1
    assert not (b.folder() / "inflight").exists()


def test_what_a_person_sends_to_the_review_is_checked_after_it(bench: MakeBench) -> None:
    stuck = answer(command("STUCK"))
    b = checked(bench, only(command="test -e mended"), PASSES, PASSES, work=stuck)
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(review=True))
    assert b.step().state.status is Status.PENDING
    assert result(b)["outcome"] == "failed"


def test_old_results_do_not_outlive_what_a_person_did(bench: MakeBench) -> None:
    b = checked(bench, only(command="test -e mended"), answer(command("STUCK")), PASSES)
    b.step()
    (b.workspace() / "mended").touch()
    record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(review=True))
    assert b.state().checks is None
    assert b.step().state.status is Status.APPROVAL_REQUIRED
    assert result(b)["outcome"] == "passed"


def in_flight(b: Bench) -> Bench:
    """A job with a paid answer on disk, which nobody has looked at, and the work that goes with it."""
    b.create()
    job, _ = left_in_flight(b)
    (b.workspace() / "a.txt").write_text("made\n", "utf-8")
    job.mark_sent(1)
    job.save_response(1, response(command(evidence=["a.txt"])))
    return b


def other(b: Bench, settings: Json) -> None:
    b.change(settings=Settings.model_validate(settings))


def test_only_commands_of_the_config_of_now_are_run(bench: MakeBench) -> None:
    b = in_flight(bench([], only(command="exit 0")))
    other(b, {})
    b.step()
    found = result(b)
    assert (found["outcome"], found["reason"]) == ("not_run", "the config no longer has a command for it")


@pytest.mark.parametrize("kind", [Kind.CANCEL, Kind.SUSPEND])
def test_nobody_who_ends_a_job_waits_for_its_checks(bench: MakeBench, kind: Kind) -> None:
    b = in_flight(bench([WORK, PASSES], only(command="touch ran; sleep 60")))
    record_decision(b.project, "j", kind)
    assert (result(b)["outcome"], result(b)["reason"]) == ("not_run", check_runs.STOPPING)
    assert b.state().usage.cumulative_cost == 3
    if kind is Kind.SUSPEND:  # what was not run is run after the review
        record_decision(b.project, "j", Kind.RESUME)
        other(b, only(command="test -e a.txt"))
        assert b.step().state.status is Status.APPROVAL_REQUIRED
        assert result(b)["outcome"] == "passed"


def test_a_check_that_stops_the_process_that_runs_it_ends(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "OVERTIME", 0.5)
    command = "trap '' TERM; kill -STOP $PPID; sleep 1000 & sleep 1000"
    b = checked(bench, {**only(command=command, timeout_minutes=0.05), "sandbox": {"mode": "off"}})
    assert result(b)["outcome"] == "not_run"
    assert result(b)["reason"] == "the process that ran the command ended: killed by signal 9"


def killed_while_checking(b: Bench) -> None:
    """A stepper that is killed, as by the kernel, in the middle of a check."""
    pid = os.fork()
    if not pid:
        try:
            b.step()
        finally:
            os._exit(1)
    try:
        for _ in range(3000):
            if (b.workspace() / "begun").exists():
                return
            time.sleep(0.01)
        raise AssertionError("the check did not begin")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_kill_in_the_middle_of_a_check_pays_nothing_twice_and_takes_it_back(bench: MakeBench) -> None:
    b = in_flight(bench([], only(command="echo $$ > begun; echo worse > a.txt; sleep 60 & sleep 60")))
    killed_while_checking(b)
    assert b.state().revision == 1
    # The processes of the check may still be there: the next step ends them before it puts the workspace back.
    other(b, only(command="ls; cat a.txt"))
    entries = b.step().entries
    assert [entry.kind for entry in entries] == [Kind.ASK]
    assert result(b)["output"] == "a.txt\nmade"
    state = b.state()
    assert (state.revision, state.asked, state.usage.cumulative_cost) == (2, 1, 3)
    assert sorted(os.listdir(b.workspace())) == [".git", "a.txt"]
    assert not (b.folder() / "restoring").exists()
    assert not list(b.folder().glob("*inflight*"))


def test_a_kill_leaves_nothing_of_what_an_agent_in_place_did(bench: MakeBench) -> None:
    work = answer(files={"a.txt": "made\n", "b.txt": "once\n"})
    b = bench([work, PASSES], only(command="touch begun; sleep 60"))
    b.create()
    killed_while_checking(b)
    b.script({}, [WORK, PASSES])
    other(b, only(command="ls"))
    b.step()
    assert result(b)["output"] == "a.txt"


def test_a_stop_ends_the_check_and_the_next_step_runs_it_again(bench: MakeBench) -> None:
    b = in_flight(bench([], only(command="touch begun; sleep 60")))
    b.change(stopping=lambda: 130 if (b.workspace() / "begun").exists() else 0)
    with pytest.raises(Stopped, match="the agent is not called again"):
        b.step()
    assert b.state().revision == 1
    b.change(stopping=lambda: 0)
    other(b, only(command="ls"))
    b.step()
    assert (result(b)["outcome"], result(b)["output"]) == ("passed", "a.txt")
    assert b.state().asked == 1


def test_in_a_workflow_the_steps_are_checked_that_are_reviewed(bench: MakeBench, tmp_path: Path) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text("name: Two\nsteps:\n  - {id: one, prompt: A.}\n  - {id: two, prompt: B., review: true}\n")
    b = bench([], only(command="test -e mended"))
    b.follow(flow, steps={"one": [WORK], "two": [WORK, PASSES, answer(files={"mended": ""}), PASSES]})
    b.step()
    assert (b.state().step, b.state().checks) == ("two", None)
    b.step()
    b.step()
    state = b.state()
    assert (state.status, state.step, state.place.attempts) == (Status.PENDING, "two", 1)
    assert state.output_of == "two"
    assert b.run().state.status is Status.SUCCESS
    assert [found.outcome for found in b.state().checks or []] == ["passed"]
