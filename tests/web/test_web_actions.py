"""What a person can do on the page of a job, besides the decision that it waits for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import support
from tests.cli.desk import Desk, answer, command
from tests.support import RunLogist
from tests.web.action_page import ActionPage, strip_tags, write_file

STUCK = answer(command("STUCK", "Which port?"))


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    made = Desk(tmp_path, cli)
    made.create()
    return made


@pytest.fixture
def page(desk: Desk) -> ActionPage:
    return ActionPage(desk)


def test_a_note_is_recorded_and_moves_nothing(desk: Desk, page: ActionPage) -> None:
    assert page.do("note", entered="Ask Bob first.") == "The note is in the history of j1"
    entry = desk.history()[-1]
    assert (entry["kind"], entry["steward"]["note"]) == ("note", "Ask Bob first.")
    assert entry["steward"] == {"name": "ada", "note": "Ask Bob first.", "via": "page"}
    assert desk.state()["status"] == "PENDING"
    refused = page.act("note", entered="  ")
    assert refused.status_code == 400
    assert "the note is empty" in strip_tags(refused.text)


def test_a_stale_form_changes_nothing(desk: Desk, page: ActionPage) -> None:
    stale = page.revision()
    page.do("note", entered="first")
    before = desk.tree()
    for name in (
        "note",
        "suspend",
        "cancel",
        "fail",
        "limits",
        "role",
        "rank",
        "tags",
        "rerun",
        "fork",
        "answer",
    ):
        response = page.act(name, revision=stale, entered="second")
        assert response.status_code == 409, name
        assert "Nothing was decided" in strip_tags(response.text)
    assert desk.tree() == before


def test_an_action_that_the_state_forbids_is_refused(desk: Desk, page: ActionPage) -> None:
    offered = page.list_actions()
    assert not offered & {"activate", "resume", "snooze", "unsnooze", "look_at_merge", "merge"}
    before = desk.tree()
    for name in ("activate", "resume", "snooze", "look_at_merge", "merge", "unknown"):
        assert page.act(name).status_code == 409, name
    assert page.get("/jobs/j1/act/suspend").status_code == 405
    assert desk.tree() == before


def test_suspend_and_resume(desk: Desk, page: ActionPage) -> None:
    assert page.do("suspend", entered="Wait for the release.") == "Done: j1 is now SUSPENDED"
    assert "suspend" not in page.list_actions()
    assert page.do("resume", entered="Go on.") == "Done: j1 is now PENDING"
    kinds = [(entry["kind"], (entry["steward"] or {}).get("note")) for entry in desk.history()[-2:]]
    assert kinds == [("suspend", "Wait for the release."), ("resume", "Go on.")]


def test_a_draft_is_started(desk: Desk, page: ActionPage) -> None:
    desk.create("d1", "--draft")
    assert not page.list_actions("d1") & {"answer", "rerun"}
    assert page.do("activate", "d1") == "Done: d1 is now PENDING"


@pytest.mark.parametrize(("name", "status"), [("fail", "FAILED"), ("cancel", "CANCELED")])
def test_a_job_ends_and_only_what_is_possible_then_is_offered(
    desk: Desk, page: ActionPage, name: str, status: str
) -> None:
    assert page.do(name, entered="No longer needed.") == f"Done: j1 is now {status}"
    assert page.list_actions() == {"note", "rerun", "fork"}
    assert page.do("rerun", clean="yes") == "j1 was started over: it is now PENDING"
    assert desk.history()[-1]["command"]["clean_git"] is True


def test_the_limits_are_changed_one_by_one(desk: Desk, page: ActionPage) -> None:
    shown = page.get("/jobs/j1").text
    assert re.search(r'name="cost_threshold" value="1000"', shown)
    limits = {"time_threshold_minutes": "60", "max_allowed_iterations": "50", "max_attempts": "3"}
    assert page.do("limits", cost_threshold="2500.5", **limits) == "The limits of j1 are changed"
    assert desk.history()[-1]["command"] == {"changed": ["limits.cost_threshold"]}
    assert desk.state()["limits"]["cost_threshold"] == 2500.5
    for wrong in ("much", "nan", "-1", "inf"):
        response = page.act("limits", cost_threshold=wrong, **limits)
        assert response.status_code in (400, 500), wrong
        assert f'value="{wrong}"' in response.text
    assert desk.state()["limits"]["cost_threshold"] == 2500.5


def test_a_halted_job_continues_only_if_the_limit_is_high_enough(desk: Desk, page: ActionPage) -> None:
    assert desk("job", "config", "j1", "--set", "limits.max_allowed_iterations=0").code == 0
    assert desk("job", "run", "j1").code == 7
    limits = {"cost_threshold": "1000", "max_attempts": "3"}
    said = page.do("limits", time_threshold_minutes="90", max_allowed_iterations="0", **limits)
    assert said.startswith("The limits of j1 are changed, but it does not continue")
    assert desk.state()["status"] == "HALTED_ITERATION"
    said = page.do("limits", time_threshold_minutes="90", max_allowed_iterations="5", **limits)
    assert said == "Done: j1 is now PENDING"


def test_the_role_is_chosen_from_a_list_and_can_be_reset(desk: Desk, page: ActionPage) -> None:
    shown = page.get("/jobs/j1").text
    assert re.search(r'<option value="Worker" selected>Worker: ', shown)
    assert '<option value="Planner" >Planner: ' in shown
    assert page.do("role", entered="Planner") == "The role Planner does the work of j1 from the next step on"
    assert desk.state()["agent_role"] == "Planner"
    assert "already has the role Planner" in page.do("role", entered="Planner")
    assert page.do("role", entered="") == "The role Worker does the work of j1 from the next step on"
    response = page.act("role", entered="Nobody")
    assert response.status_code == 400
    assert "unknown role `Nobody`" in strip_tags(response.text)


def test_rank_and_tags(desk: Desk, page: ActionPage) -> None:
    assert page.do("rank", entered="-5") == "The rank of j1 is now -5"
    assert page.do("tags", entered="ui, urgent , ui,") == "The tags of j1: ui, urgent"
    state = desk.state()
    assert (state["rank"], state["tags"]) == (-5, ["ui", "urgent"])
    assert page.act("rank", entered="first").status_code == 400
    assert page.do("tags", entered="") == "The tags of j1: none"


def test_a_waiting_job_is_snoozed_and_shown_again(desk: Desk, page: ActionPage) -> None:
    desk.script(STUCK)
    assert desk("job", "run", "j1").code == 3
    history = (desk.job() / "jobHistory.json").read_bytes()
    assert page.do("snooze", entered="2h").startswith("j1 is snoozed until 20")
    assert "Hidden for now (1)" in page.read("/")
    assert page.do("unsnooze") == "j1 is in the inbox again"
    assert "Hidden for now" not in page.read("/")
    response = page.act("snooze", entered="yesterday")
    assert response.status_code == 400
    assert "not a time in the future: 'yesterday'" in strip_tags(response.text)
    assert (desk.job() / "jobHistory.json").read_bytes() == history


def test_a_fork_opens_the_new_job(desk: Desk, page: ActionPage) -> None:
    assert page.do("note", entered="one") != ""
    response = page.act("fork", at="1", id="copy", entered="Try it another way.")
    assert response.headers["location"] == f"{page.base}/jobs/copy"
    assert "copy was forked from j1 at interaction 1" in page.read("/jobs/copy")
    assert [entry["kind"] for entry in desk.history("copy")] == ["create", "fork"]
    taken = page.act("fork", at="1", id="copy")
    assert taken.status_code == 409
    assert "copy" in strip_tags(taken.text)
    assert page.act("fork", at="99").status_code == 400
    assert page.act("fork", at="x").status_code == 400


def test_going_back_undoes_what_the_page_says(desk: Desk, page: ActionPage) -> None:
    desk.script(STUCK)
    assert desk("job", "run", "j1").code == 3
    assert page.do("restep", to="2") == "j1 is as it was before interaction 2: PENDING"
    assert desk.history()[-1]["command"]["to"] == 2
    assert page.act("restep", to="77").status_code == 400


def test_a_merge_shows_first_what_it_would_change(tmp_path: Path, cli: RunLogist, git_repo: Path) -> None:
    desk = Desk(git_repo, cli)
    desk.settings("review:\n  enabled: false\napproval: none\n")
    made = desk("job", "create", "--id", "m1", "--prompt", "Write a file.")
    assert made.code == 0, made.err
    write_file(desk, "new.txt", "<b>one</b>\ntwo\n", "m1")
    assert desk("job", "run", "m1").code == 0
    page = ActionPage(desk)
    assert "merge" not in page.list_actions("m1")
    before = support.tree(git_repo)
    shown = page.act("look_at_merge", "m1")
    assert shown.status_code == 200
    text = strip_tags(shown.text)
    assert "would be merged into" in text
    assert "new.txt +2 −0" in text
    assert "&lt;b&gt;one&lt;/b&gt;" in shown.text
    changed = {name for name, data in support.tree(git_repo).items() if before.get(name) != data}
    assert not [name for name in changed if ".git" in name or name == "new.txt"]
    assert page.get("/jobs/m1/act/merge").status_code == 405
    assert not (git_repo / "new.txt").exists()
    said = page.do("merge", "m1")
    assert "merged into" in said
    assert "To undo: git" in said
    assert (git_repo / "new.txt").read_text("utf-8") == "<b>one</b>\ntwo\n"
    assert "look_at_merge" not in page.list_actions("m1")


def test_a_merge_without_a_repository_says_what_to_type(desk: Desk, page: ActionPage) -> None:
    desk.settings("review:\n  enabled: false\napproval: none\n")
    assert desk("job", "run", "j1").code == 0
    response = page.act("look_at_merge")
    assert response.status_code == 409
    assert "logist job merge --job j1 --repo DIR" in strip_tags(response.text)


def test_every_field_has_a_label(desk: Desk, page: ActionPage) -> None:
    shown = page.get("/jobs/j1").text
    fields = re.findall(r'<(?:input|select|textarea) (?!type="hidden")[^>]*', shown)
    labels = set(re.findall(r'<label[^>]* for="([^"]+)"', shown))
    assert len(fields) > 15
    for field in fields:
        found = re.search(r'id="([^"]+)"', field)
        assert found is not None
        assert found[1] in labels, field
    assert " style=" not in shown
    assert len(re.findall("<script", shown)) == 1
