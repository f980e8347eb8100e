"""The review on the command line: what it found is shown, and a steward may override it."""

from __future__ import annotations

import json

import pytest

from tests import support
from tests.cli.desk import Desk, answer, command

ISSUE = {"check": "security", "severity": "error", "file": "a.txt", "line": 2, "message": "It\nleaks."}
REASON = "It is known, and harmless."


@pytest.fixture
def failed(desk: Desk) -> Desk:
    """A job whose check and review have failed."""
    desk.settings("review: {checks: {ours: {severity: warning, command: 'echo no; exit 4'}}}\n")
    verdict = {"verdict": "FAIL", "issues": [ISSUE]}
    desk.script(answer(), answer(command(summary="Not yet.", output=verdict)))
    assert desk("trust", "--yes").code == 0
    desk.create()
    assert desk("job", "step", "j1").code == 0
    return desk


def test_what_a_check_and_a_reviewer_found_is_shown(failed: Desk) -> None:
    shown = failed("job", "status", "j1").out
    assert "check ours: the check failed (exit status 4)" in shown
    assert "    output of ours:\n      | no\n" in shown
    assert failed("job", "step", "j1").code == 0
    shown = failed("job", "status", "j1").out
    assert "reason: Not yet. (blocked by security)" in shown
    assert "  finding: warning (ours): the check failed (exit status 4)\n" in shown
    assert "  finding: error (security, a.txt:2): It leaks.\n" in shown
    assert '    to override: logist job approve --job j1 --override "..."\n' in shown
    data = json.loads(failed("job", "status", "j1", "--json").out)["data"]
    assert [found["severity"] for found in data["findings"]] == ["warning", "error"]
    assert data["checks"][0]["output"] == "no"
    history = failed("job", "history", "j1").out
    assert "Supervisor: FAIL, REVIEW_REQUIRED -> PENDING" in history
    assert "   error (security, a.txt:2): It leaks." in history


def test_a_review_is_overridden_for_a_reason(failed: Desk) -> None:
    failed("job", "step", "j1")
    ran = failed("job", "approve", "j1", "--override", REASON)
    assert (ran.code, failed.state("j1")["status"]) == (0, "SUCCESS")
    assert "steward: approve, overriding the review, PENDING -> SUCCESS" in ran.out
    assert failed.history()[-1]["steward"] == {"name": "ada", "note": REASON, "via": "pipe"}
    assert failed("job", "replay", "j1").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--override", " "], "a reason is required"),
        (["--override", "a", "--note", "b"], "--override already gives the reason"),
    ],
)
def test_an_override_needs_its_reason_once(failed: Desk, words: list[str], told: str) -> None:
    ran = failed("job", "approve", "j1", *words)
    assert (ran.code, failed.state("j1")["status"]) == (2, "REVIEW_REQUIRED")
    assert told in ran.err


def test_where_there_is_no_review_there_is_nothing_to_override(desk: Desk) -> None:
    desk.create()
    ran = desk("job", "approve", "j1", "--override", REASON)
    assert ran.code == 8
    assert "can't override: the job has no review to override (logist job step" in ran.err


def test_a_job_may_have_a_mode_of_its_own(desk: Desk) -> None:
    desk.script(answer(), answer(command(output={"verdict": "PASS"})))
    desk.create("j1", "--review-mode", "yolo")
    assert desk("job", "run", "j1").code == 0
    assert desk.state("j1")["status"] == "SUCCESS"


def in_repository(desk: Desk) -> None:
    support.git(desk.place, "init", "--quiet", "--initial-branch", "main")
    support.git(desk.place, "commit", "--quiet", "--allow-empty", "--message", "first")


UNCHECKED = "results will be merged without approval, and no blocking check runs a command"


def test_work_that_only_agents_accept_is_merged_with_a_warning(desk: Desk) -> None:
    in_repository(desk)
    yolo = ("--review-mode", "yolo", "--id")
    made = desk("job", "create", "--prompt", "x", *yolo, "j1")
    assert (made.code, UNCHECKED in made.err) == (0, True)
    assert UNCHECKED not in desk("job", "create", "--prompt", "x", *yolo, "j2", "--approval", "end").err
    assert UNCHECKED not in desk("job", "create", "--prompt", "x", *yolo, "j3", "--no-repo").err
    assert UNCHECKED in desk("job", "config", "j2", "--unset", "approval").err
    assert UNCHECKED not in desk("job", "config", "j2", "--set", "title=t").err
    for args in (["config", "show"], ["doctor"], ["job", "create", "--prompt", "x"]):
        assert UNCHECKED not in "".join(desk(*args)[1:]), args
    desk.settings("review: {mode: yolo}\n")
    assert UNCHECKED in desk("trust", "--yes").err
    for args in (["config", "show"], ["doctor"], ["job", "create", "--prompt", "x"]):
        assert UNCHECKED in "".join(desk(*args)[1:]), args
    desk.settings("review: {mode: yolo, checks: {build_passes: {command: 'true'}}}\n")
    assert UNCHECKED not in desk("trust", "--yes").err
    assert UNCHECKED not in desk("job", "create", "--prompt", "x").err


def test_auto_merge_false_keeps_the_mode_yolo_from_merging(desk: Desk) -> None:
    in_repository(desk)
    desk.settings("review: {mode: yolo, auto_merge: false}\n")
    assert desk("trust", "--yes").code == 0
    desk.script(answer(), answer(command(output={"verdict": "PASS"})))
    desk.create("j1")
    assert desk("job", "run", "j1").code == 0
    state = desk.state("j1")
    assert (state["status"], state["merges"], state["merge"]) == ("SUCCESS", None, None)
    assert "merge" not in [entry["kind"] for entry in desk.history("j1")]
