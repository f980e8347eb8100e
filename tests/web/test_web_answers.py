"""An answer in an agent's place: checked while a person types it, and recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.desk import Desk, answer, command
from tests.support import RunLogist
from tests.web.action_page import ActionPage, strip_tags, write_file

ASKS_JSON = {"Accept": "application/json"}


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    made = Desk(tmp_path, cli)
    made.create()
    return made


@pytest.fixture
def page(desk: Desk) -> ActionPage:
    return ActionPage(desk)


def check(page: ActionPage, text: str) -> tuple[bool, str]:
    """Return what the page says of an answer, as its script asks."""
    response = page.post("/jobs/j1/validate", headers=ASKS_JSON, revision=page.revision(), entered=text)
    assert response.status_code == 200, response.text
    found = response.json()
    return found["is_valid"], " | ".join(found["lines"])


def test_a_check_says_what_the_answer_would_do_and_records_nothing(desk: Desk, page: ActionPage) -> None:
    write_file(desk, "hello.txt", "hi\n")
    before = desk.tree()
    assert check(page, command(evidence_files=["hello.txt"])) == (
        True,
        "Valid: COMPLETED. j1 would be REVIEW_REQUIRED",
    )
    assert check(page, command("STUCK", "Which port?")) == (True, "Valid: STUCK. j1 would be STUCK")
    is_valid, said = check(page, command(evidence_files=["hello.txt", "gone.txt"]))
    assert not is_valid
    assert "Evidence file not found: gone.txt" in said
    assert desk.tree() == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{\n  "action": "COMPLETED",\n  "evidence_files": [],\n}',
            "comma before the closing bracket (see line 4, column 1)",
        ),
        ("{\n  'action': 1\n}", "(see line 2, column 3)"),
        ('{"action": "COMPLETED"}', "summary_for_supervisor"),
        ("I am done.", "invalid answer: "),
        ("", "invalid answer: "),
        ("\ud800", "invalid answer: "),
    ],
)
def test_an_error_has_the_words_of_the_terminal_and_its_line(
    page: ActionPage, text: str, expected: str
) -> None:
    is_valid, said = check(page, text.encode("utf-8", "replace").decode())
    assert not is_valid
    assert expected in said
    assert "j1 would be STUCK" in said


def test_the_words_are_those_of_the_terminal(desk: Desk, page: ActionPage) -> None:
    text = '{"action": "DONE", "evidence_files": "x", "summary_for_supervisor": ""}'
    _, said = check(page, text)
    ran = desk("job", "poststep", "j1", "--response-string", text, "--dry-run")
    reason = said.partition(" | ")[0]
    assert " ".join(reason.split()) in " ".join(ran.out.split())


def test_without_a_script_a_button_checks_and_keeps_the_text(desk: Desk, page: ActionPage) -> None:
    text = command("STUCK", "<b>Why?</b>")
    response = page.post("/jobs/j1/validate", revision=page.revision(), entered=text)
    assert response.status_code == 200
    assert "Valid: STUCK. j1 would be STUCK" in strip_tags(response.text)
    assert "&lt;b&gt;Why?&lt;/b&gt;" in response.text
    assert "<b>Why?" not in response.text
    assert desk.state()["revision"] == 1
    page.do("note", entered="news")
    stale = page.post("/jobs/j1/validate", revision="1", entered=text)
    assert "The job has changed since you looked at it" in strip_tags(stale.text)
    assert page.get("/jobs/j1/validate").status_code == 405


def test_a_person_does_a_step_and_its_review(desk: Desk, page: ActionPage) -> None:
    write_file(desk, "hello.txt", "hi\n")
    assert (
        page.do("answer", entered=command(evidence_files=["hello.txt"])) == "Done: j1 is now REVIEW_REQUIRED"
    )
    entry = desk.history()[-1]
    assert (entry["simulated"], entry["steward"]["name"]) == (True, "ada")
    shown = page.get("/jobs/j1").text
    assert "&#34;verdict&#34;: &#34;PASS&#34;" in shown
    verdict = {"verdict": "PASS", "issues": [], "suggestions": []}
    assert page.do("answer", entered=command(output=verdict)) == "Done: j1 is now APPROVAL_REQUIRED"
    assert "answer" not in page.list_actions()


def test_an_answer_is_not_recorded_for_a_job_that_accepts_none(desk: Desk, page: ActionPage) -> None:
    desk.script(answer(), answer())
    assert desk("job", "run", "j1").code == 11
    is_valid, said = check(page, command())
    assert not is_valid
    assert "can't accept an answer: the job is APPROVAL_REQUIRED" in said
    assert page.act("answer", entered=command()).status_code == 409


def test_a_stuck_job_has_its_answer_checked_too(desk: Desk, page: ActionPage) -> None:
    desk.script(answer("no command"))
    assert desk("job", "run", "j1").code == 3
    shown = page.get("/jobs/j1").text
    assert 'data-validate="' in shown
    text = command("RETRY", "Not yet.")
    response = page.post("/jobs/j1/validate", revision=page.revision(), decision="answer", entered=text)
    assert "Valid: RETRY" in strip_tags(response.text)
    assert "Not yet." in response.text
