"""The history of a job on the page, and the page of each interaction."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logist.core.history import fold
from logist.jobs.base.stored_records import dump_state, parse_interaction
from logist.store import JobDir
from logist.web.history_view import MOST_VERIFIED, PAGE_SIZE
from tests.cli.desk import Desk, answer, command
from tests.cli.test_interrupted import paid
from tests.cli.test_progress import DONE, calling, prepare
from tests.loopback import Loopback
from tests.support import RunLogist
from tests.web.action_page import ActionPage, strip_tags, write_file

HOSTILE = "<script>alert(1)</script>\u202e"


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    return Desk(tmp_path, cli)


def list_numbers(page: str) -> list[int]:
    return [int(each) for each in re.findall(r'<a class="open" href="[^"]*/history/(\d+)"', page)]


def test_the_history_lists_who_did_what_the_latest_first(desk: Desk) -> None:
    verdict = {"verdict": "FAIL", "issues": [{"description": "No tests."}], "suggestions": []}
    desk.script(answer(command("COMPLETED", HOSTILE)), answer(command(output=verdict)), answer("no command"))
    desk.create()
    page = ActionPage(desk)
    desk("job", "run", "j1")
    page.do("role", entered="Planner")
    page.do("note", entered="Ask <b>Bob</b>.")
    shown = page.get("/jobs/j1/history").text
    assert list_numbers(shown) == [6, 5, 4, 3, 2, 1]
    assert "<script>alert" not in shown
    assert "U+202E" in shown
    text = strip_tags(shown)
    assert "verified: 6 interactions" in text
    assert "Ask <b>Bob</b>." in text
    assert "role Worker → Planner" in text
    assert re.search(r"Supervisor \d{4}-\d\d-\d\d \d\d:\d\d COMPLETED, verdict FAIL", text)
    assert re.search(r"Worker [-0-9]+ [:0-9]+ no valid answer", text)
    assert "pending → review required" in text
    assert 'aria-current="page">History' in shown


def test_a_damaged_history_is_not_called_verified(desk: Desk) -> None:
    desk.create()
    page = ActionPage(desk)
    desk("job", "run", "j1")
    page.do("note", entered="harmless")
    objects = desk.job() / "git" / "objects"
    objects.rename(objects.with_name("lost"))
    objects.mkdir()
    shown = page.get("/jobs/j1/history")
    assert shown.status_code == 200
    text = strip_tags(shown.text)
    assert "The files of this job don't verify" in text
    assert "not found in git" in text
    assert "verified: " not in text
    file = desk.job() / "jobHistory.json"
    file.write_text(file.read_text("utf-8").replace("harmless", "harmful!"), "utf-8")
    response = page.get("/jobs/j1/history")
    assert response.status_code == 500
    assert "files are damaged" in strip_tags(response.text)


def grow_history(desk: Desk, count: int) -> None:
    """Repeat the last interaction, as after many answers, until there are so many."""
    job = JobDir.open(desk.jobs, "j1")
    loaded = job.load()
    last = list(job.read_entries())[-1]
    entry = {name: value for name, value in last.items() if name not in ("previous", "checksum")}
    with job.hold_lock(command="test", since="2026-01-01T00:00:00Z"):
        entries = [{**entry, "sequence": number} for number in range(loaded.position.sequence + 1, count + 1)]
        appended = job.append_entries(loaded.position, entries)
        state = fold.fold(parse_interaction(each) for each in job.read_entries())
        job.write_state(dump_state(state, appended.position))


def test_a_long_history_has_pages_and_is_verified_on_request(desk: Desk) -> None:
    desk.create()
    page = ActionPage(desk)
    page.do("note", entered="again")
    count = MOST_VERIFIED + 7
    grow_history(desk, count)
    shown = page.get("/jobs/j1/history").text
    assert list_numbers(shown) == list(range(count, count - PAGE_SIZE, -1))
    assert "Verify all files of this job" in shown
    assert "verified: " not in shown
    second = page.get("/jobs/j1/history?page=2").text
    assert list_numbers(second)[0] == count - PAGE_SIZE
    last = page.get("/jobs/j1/history?page=9999").text
    assert list_numbers(last) == list(range(count % PAGE_SIZE, 0, -1))
    assert f"verified: {count} interactions" in strip_tags(page.get("/jobs/j1/history?verify=1").text)
    for wrong in ("x", "-1", "", "1e3"):
        assert "page 1 of" in page.get(f"/jobs/j1/history?page={wrong}").text


def test_an_interaction_shows_everything_that_was_recorded(desk: Desk) -> None:
    tools = calling("write_file", path="hello.txt", content=f"hi {HOSTILE}")
    with Loopback(tools, DONE) as server:
        prepare(desk, server)
        assert desk.process("job", "step", "j1", env=paid(desk)).code == 11
    page = ActionPage(desk, env=paid(desk))
    shown = page.get("/jobs/j1/history/2").text
    text = strip_tags(shown)
    assert "Interaction 2: Worker, COMPLETED" in text
    assert "3,000 tokens in, 300 out" in text
    assert "write_file × 1" in text
    assert "Changed files (1) created hello.txt" in text
    assert "What the agent did (2 turns)" in text
    assert "hi <script>alert(1)</script>" in text
    assert "<script>alert" not in shown
    assert "role:Worker" in text
    assert "Do it." in text
    assert "“" not in shown.partition("Answer</h3>")[2][:10]
    decision = strip_tags(page.get("/jobs/j1/history/1").text)
    assert "The spec of the job from here on" in decision
    assert "Go back to before this interaction" not in decision
    for wrong in ("0", "99", "x", "-1"):
        assert page.get(f"/jobs/j1/history/{wrong}").status_code in (404, 200 if wrong == "0" else 404)


def test_a_long_answer_is_cut_until_a_person_asks_for_all_of_it(desk: Desk) -> None:
    long = "x" * 50_000 + "END\n" + command("STUCK")
    desk.script(answer(long))
    desk.create()
    desk("job", "run", "j1")
    page = ActionPage(desk)
    shown = page.get("/jobs/j1/history/2").text
    assert "END" not in shown
    assert re.search(r'href="\?whole=1">Show all 50,\d\d\d characters', shown)
    assert "END" in page.get("/jobs/j1/history/2?whole=1").text


def test_a_person_goes_back_from_the_page_of_an_interaction(desk: Desk) -> None:
    desk.script(answer(command("STUCK")))
    desk.create()
    page = ActionPage(desk)
    write_file(desk, "by-hand.txt", "one")
    desk("job", "run", "j1")
    write_file(desk, "by-hand.txt", "two")
    page.do("note", entered="hm")
    shown = page.get("/jobs/j1/history/2").text
    text = strip_tags(shown)
    assert "it undoes interactions 2 to 3" in text
    assert "Nothing is deleted" in text
    revision = re.search(r'name="revision" value="(\d+)"', shown)
    assert revision
    form = shown.partition("/act/restep")[2].partition("</form>")[0]
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\d+)"', form))
    assert fields == {"revision": "3", "to": "2"}
    response = page.post("/jobs/j1/act/restep", **fields)
    assert response.status_code == 303
    assert (desk.job() / "workspace" / "by-hand.txt").read_text("utf-8") == "one"
    assert desk.state()["status"] == "PENDING"
    assert page.get("/jobs/j1/act/restep").status_code == 405


def test_reading_changes_nothing(desk: Desk) -> None:
    desk.create()
    page = ActionPage(desk)
    page.get("/")
    before = desk.tree()
    for path in ("/history", "/history?verify=1", "/history/1", "/history/1?whole=1"):
        assert page.get(f"/jobs/j1{path}").status_code == 200
    assert desk.tree() == before
