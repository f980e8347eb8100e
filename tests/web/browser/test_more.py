"""What a person can do besides a decision, under "More" and from the history, in a real browser with the mouse, with JavaScript and without."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests import support
from tests.cli.desk import Desk, answer, command
from tests.cli.test_interrupted import Slow, paid
from tests.cli.test_progress import DONE, WRITES, prepare
from tests.web.browser.conftest import Sit, SitAt
from tests.web.running_server import RunningServer

Json = dict[str, Any]
SOON = 10_000
"""Milliseconds: whatever the machine does besides, a page has heard of a change by then."""
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def open_more(page: Page, title: str) -> Locator:
    """Open what stands behind a title under "More"."""
    page.locator("details.more > summary").click()
    return open_action(page, title)


def open_action(page: Page, title: str) -> Locator:
    """Open what stands behind a title that is in view, and return it."""
    summary = page.locator("details.choice > summary").filter(has_text=re.compile(f"^{re.escape(title)}$"))
    summary.click()
    return summary.locator("xpath=..")


def press(place: Page | Locator, button: str) -> None:
    place.get_by_role("button", name=button, exact=True).click()


def add_note(page: Page) -> None:
    form = open_more(page, "Add a note")
    form.get_by_label("Note").fill("Ask Bo first.")
    press(form, "Add the note")


def suspend(page: Page) -> None:
    form = open_more(page, "Suspend the job")
    form.get_by_label("Note, if you want").fill("Not now.")
    press(form, "Suspend")


def resume(page: Page) -> None:
    page.get_by_label("Note for the agent").first.fill("Now.")
    press(page, "Continue")


def change_limits(page: Page) -> None:
    form = open_more(page, "Change the limits")
    form.get_by_label("Runs of agents").fill("33")
    form.get_by_label("Time that agents work").fill("12.5")
    press(form, "Change the limits")


def change_limits_and_continue(page: Page) -> None:
    form = open_more(page, "Change the limits")
    form.get_by_label("Runs of agents").fill("4")
    press(form, "Change the limits and continue")


def switch_role(page: Page) -> None:
    form = open_more(page, "Switch the role that does the work")
    form.get_by_label("Role").select_option("Planner")
    form.get_by_label("Note, if you want").fill("Plan first.")
    press(form, "Switch the role")


def change_rank(page: Page) -> None:
    form = open_more(page, "Change its position in the queue")
    form.get_by_label("Rank").fill("-5")
    press(form, "Change the rank")


def change_tags(page: Page) -> None:
    form = open_more(page, "Change its tags")
    expect(form.get_by_label("Tags")).to_have_value("later")
    form.get_by_label("Tags").fill("soon, easy")
    press(form, "Change the tags")


def activate(page: Page) -> None:
    press(page, "Start")


def fail(page: Page) -> None:
    form = open_more(page, "Mark the job as failed")
    form.get_by_label("Note, if you want").fill("It can't be done.")
    press(form, "Mark as failed")


def cancel(page: Page) -> None:
    form = open_more(page, "Cancel the job")
    form.get_by_label("Note, if you want").fill("Nobody needs it.")
    press(form, "Cancel the job")


def start_over(page: Page) -> None:
    form = open_more(page, "Start the job over")
    expect(form.get_by_label("Reset the workspace")).to_be_checked()
    form.get_by_label("Copy the evidence files").check()
    press(form, "Start over")


def write_answer(page: Page) -> None:
    form = open_more(page, "Write the answer yourself, instead of the agent")
    form.get_by_label("Answer", exact=True).fill(command(summary="I did it by hand."))
    press(form, "Record this answer")


ACTIONS: dict[str, tuple[str, Callable[[Page], None], str, str, Json]] = {
    "note": (
        "pending",
        add_note,
        "The note is in the history of pending",
        "note",
        {"note": "Ask Bo first."},
    ),
    "suspend": ("pending", suspend, "pending is now SUSPENDED", "suspend", {"note": "Not now."}),
    "resume": ("suspended", resume, "suspended is now PENDING", "resume", {"note": "Now."}),
    "limits": ("pending", change_limits, "The limits of pending are changed", "spec", {}),
    "limits, and continue": ("halted", change_limits_and_continue, "halted is now PENDING", "resume", {}),
    "role": (
        "pending",
        switch_role,
        "The role Planner does the work of pending",
        "role",
        {"note": "Plan first."},
    ),
    "tags": ("pending", change_tags, "The tags of pending: soon, easy", "spec", {}),
    "activate": ("draft", activate, "draft is now PENDING", "activate", {}),
    "fail": ("approval", fail, "approval is now FAILED", "fail", {"note": "It can't be done."}),
    "cancel": ("approval", cancel, "approval is now CANCELED", "cancel", {"note": "Nobody needs it."}),
    "start over": ("approval", start_over, "approval was started over: it is now PENDING", "rerun", {}),
    "answer": ("pending", write_answer, "pending is now REVIEW_REQUIRED", "ask", {}),
}
"""The job, what a person does, what the page says then, the kind of interaction and the person's part in it."""
STATE: dict[str, Json] = {
    "role": {"agent_role": "Planner"},
    "tags": {"tags": ["soon", "easy"]},
    "start over": {"status": "PENDING"},
}
"""Fields of the job's state then."""


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("has_script", [True, False], ids=["script", "plain"])
def test_an_action_under_more(desk: Desk, sit_at: SitAt, action: str, has_script: bool) -> None:
    job_id, act, said, kind, steward = ACTIONS[action]
    person = sit_at(job_id, java_script_enabled=has_script)
    person.go_to_job(job_id)
    before = len(desk.history(job_id))
    act(person.page)
    person.expect_message(said)
    added = desk.history(job_id)[before:]
    assert added[-1]["kind"] == kind
    if steward:
        assert added[-1]["steward"] | steward | {"name": "ada"} == added[-1]["steward"]
    state = desk.state(job_id)
    assert state | STATE.get(action, {}) == state
    assert desk("job", "verify", job_id).code == 0


def test_the_limits_that_were_typed_are_those_of_the_job(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("pending")
    person.go_to_job("pending")
    change_limits(person.page)
    person.expect_message("The limits of pending are changed")
    limits = desk.state("pending")["limits"]
    assert (limits["max_allowed_iterations"], limits["time_threshold_minutes"]) == (33, 12.5)
    form = open_more(person.page, "Change the limits")
    form.get_by_label("Runs of agents").fill("many")
    press(form, "Change the limits")
    expect(person.page.get_by_role("alert")).to_contain_text("expected a number, got: 'many'")
    expect(person.page.get_by_label("Runs of agents")).to_have_value("many")
    person.forgive("400")
    assert desk.state("pending")["limits"] == limits


def test_a_job_moves_in_the_queue(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("pending")
    person.go_to_job("pending")
    change_rank(person.page)
    person.expect_message("The rank of pending is now -5")
    assert desk("job", "list", "--json").json["data"][0]["rank"] == -5


def test_what_was_reset_with_a_job_that_starts_over_is_kept_where_the_page_says(
    desk: Desk, sit_at: SitAt
) -> None:
    person = sit_at("approval")
    assert (desk.job("approval") / "workspace" / "a.txt").exists()
    person.go_to_job("approval")
    start_over(person.page)
    person.expect_message("approval was started over")
    assert not (desk.job("approval") / "workspace" / "a.txt").exists()
    kept = list(desk.job("approval").rglob("attachments/**/a.txt"))
    assert [each.read_text("utf-8") for each in kept] == ["new line\n"]


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "plain"])
def test_a_job_is_snoozed_and_shown_again(desk: Desk, sit_at: SitAt, has_script: bool) -> None:
    person = sit_at("approval", java_script_enabled=has_script)
    entry = person.page.locator('.entry[data-job="approval"]')
    expect(entry).to_be_visible()
    person.go_to_job("approval")
    form = open_more(person.page, "Snooze")
    form.get_by_label("Until").fill("2h")
    press(form, "Hide it")
    person.expect_message("approval is snoozed until")
    assert "approval" not in desk("inbox", "--list").out
    person.page.get_by_role("link", name="Inbox").first.click()
    expect(person.page.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
    expect(entry).to_be_hidden()
    person.go_to_job("approval")
    press(open_more(person.page, "Show it in the inbox again"), "Show it again")
    person.expect_message("approval is in the inbox again")
    person.go("/")
    expect(entry).to_be_visible()


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "plain"])
def test_a_fork_opens_the_copy(desk: Desk, sit_at: SitAt, has_script: bool) -> None:
    person = sit_at("approval", java_script_enabled=has_script)
    person.go_to_job("approval")
    form = open_more(person.page, "Fork: continue in a copy")
    form.get_by_label("Id of the new job").fill("copy")
    form.get_by_label("Last interaction to copy").fill("2")
    press(form, "Fork")
    person.expect_message("copy was forked from approval at interaction 2")
    expect(person.page.get_by_role("heading", level=1)).to_contain_text("copy")
    assert (desk.job("copy") / "workspace" / "a.txt").read_text("utf-8") == "new line\n"
    assert desk.state("approval")["status"] == "APPROVAL_REQUIRED"
    assert desk("job", "verify", "copy").code == 0


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "plain"])
def test_a_person_goes_back_from_the_history(desk: Desk, sit_at: SitAt, has_script: bool) -> None:
    person = sit_at("approval", java_script_enabled=has_script)
    page = person.page
    person.go_to_job("approval")
    page.get_by_role("navigation", name="Job").get_by_role("link", name="History").click()
    expect(page.locator(".chain .good")).to_be_visible()
    page.locator("tbody").get_by_role("link", name="3", exact=True).click()
    expect(page.get_by_role("heading", level=2)).to_contain_text("Interaction 3")
    page.get_by_role("link", name="← 2").click()
    form = open_action(page, "Go back to before this interaction")
    expect(form).to_contain_text("it undoes interactions 2 to 3")
    form.get_by_label("Note for the agent").fill("Begin with a test.")
    press(form, "Go back to before interaction 2")
    person.expect_message("approval is as it was before interaction 2: PENDING")
    added = desk.history("approval")[-1]
    assert (added["kind"], added["steward"]["note"]) == ("restep", "Begin with a test.")
    assert not (desk.job("approval") / "workspace" / "a.txt").exists()
    assert desk("job", "verify", "approval").code == 0


def test_a_person_forks_from_the_history(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("approval")
    person.go("/jobs/approval/history/1")
    expect(person.page.get_by_text("Go back to before this interaction")).to_have_count(0)
    form = open_action(person.page, "Fork: continue in a copy")
    expect(form.get_by_label("Last interaction to copy")).to_have_value("1")
    form.get_by_label("Id of the new job").fill("anew")
    press(form, "Fork")
    person.expect_message("anew was forked from approval at interaction 1")
    assert desk.state("anew")["status"] == "PENDING"
    assert not (desk.job("anew") / "workspace" / "a.txt").exists()


def make_finished(desk: Desk, job_id: str = "finished") -> None:
    """Create a job whose work is accepted, and not merged yet."""
    support.make_repository(desk.place / "repo")
    desk.settings("review: {enabled: false}\napproval: none\n")
    desk.script(answer(command(evidence_files=["a.txt"]), files={"a.txt": "<b>one</b>\n"}))
    desk.create(job_id, "--repo", "repo")
    assert desk("job", "run", job_id).code == 0
    assert desk.state(job_id)["status"] == "SUCCESS"


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "plain"])
def test_a_merge_is_shown_before_it_is_made(desk: Desk, sit_at: SitAt, has_script: bool) -> None:
    make_finished(desk)
    person = sit_at(java_script_enabled=has_script)
    person.go_to_job("finished")
    press(person.page, "See what would be merged")
    expect(person.page.get_by_role("heading", name="What would be merged")).to_be_visible()
    expect(person.page.locator("pre")).to_contain_text("+<b>one</b>")
    merged = desk.place / "repo" / "a.txt"
    assert not merged.exists()
    press(person.page, "Merge")
    person.expect_message("merged into")
    person.expect_message("To undo: git")
    assert merged.read_text("utf-8") == "<b>one</b>\n"
    assert desk.state("finished")["merge"] == "merged"
    expect(person.page.get_by_text("Merge the work")).to_have_count(0)


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "plain"])
def test_an_agent_is_stopped_only_with_the_tick(desk: Desk, sit: Sit, has_script: bool) -> None:
    with Slow(DONE) as model:
        prepare(desk, model)
        step = desk.started("job", "step", "j1", env=paid(desk), **QUIET)
        model.wait_for(1, 60)
        with RunningServer(desk) as server:
            person = sit(server, java_script_enabled=has_script)
            person.go_to_job("j1")
            expect(person.page.get_by_role("heading", name="What the agent does")).to_be_visible()
            form = open_more(person.page, "Suspend the job")
            press(form, "Suspend")  # the browser asks for the tick
            assert form.get_by_label("Stop the agent").evaluate("field => !field.validity.valid")
            assert step.poll() is None
            form.get_by_label("Stop the agent").check()
            press(form, "Suspend")
            person.expect_status("j1", "SUSPENDED")
            step.wait(support.CRASHED)
            person.leave()
            server.expect_said("stopping the agent (courier pid ")
    assert desk.state()["status"] == "SUSPENDED"
    assert desk("job", "verify", "j1").code == 0


def test_the_page_shows_live_what_an_agent_does(desk: Desk, sit: Sit) -> None:
    with Slow(WRITES, DONE) as model:
        prepare(desk, model)
        with RunningServer(desk) as server:
            person = sit(server)
            with person.page.expect_response("**/events*"):
                person.go_to_job("j1")
            step = desk.started("job", "step", "j1", env=paid(desk), **QUIET)
            model.wait_for(1, 60)
            news = person.page.locator("#news")
            expect(news).to_be_visible(timeout=SOON)
            with person.page.expect_response("**/events*"):
                news.get_by_role("link", name="Show").click()
            lines = person.page.locator("#tail li")
            expect(lines).to_have_count(1)
            expect(lines).to_contain_text("waiting for the answer")
            model.go.release()
            expect(lines.filter(has_text="write_file hello.txt")).to_have_count(1, timeout=SOON)
            before = lines.all_inner_texts()
            assert len(before) == len(set(before))
            model.go.release()
            expect(person.page.locator("#progress")).to_have_text("The agent has ended.", timeout=SOON)
            assert step.wait(support.CRASHED) == 11
            person.leave()


def test_an_answer_is_checked_while_a_person_types_it(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("pending")
    person.go_to_job("pending")
    before = desk.tree()
    form = open_more(person.page, "Write the answer yourself, instead of the agent")
    field = form.get_by_label("Answer", exact=True)
    said = form.get_by_role("status")
    field.fill("")
    field.press_sequentially('{"action"')
    expect(said.locator(".bad").first).to_contain_text("invalid answer")
    field.fill(command(evidence_files=["gone.txt"]))
    expect(said.locator(".bad")).to_have_text(
        [
            "Evidence is missing: COMPLETED. pending would be REVIEW_REQUIRED",
            "Evidence file not found: gone.txt",
        ]
    )
    field.fill(command("STUCK", "Which port?"))
    expect(said.locator(".good")).to_have_text("Valid: STUCK. pending would be STUCK")
    assert desk.history("pending") == desk.history("pending")[:1]
    assert {name: data for name, data in desk.tree().items() if name.startswith("jobs")} == {
        name: data for name, data in before.items() if name.startswith("jobs")
    }
    press(form, "Record this answer")
    person.expect_status("pending", "STUCK")


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "plain"])
@pytest.mark.parametrize("job_id", ["pending", "invalid"])
def test_a_button_checks_an_answer_first(desk: Desk, sit_at: SitAt, job_id: str, has_script: bool) -> None:
    person = sit_at(job_id, java_script_enabled=has_script)
    person.go_to_job(job_id)

    def find_form() -> Locator:
        fields = person.page.locator("textarea[data-validate]")
        return person.page.locator("form").filter(has=fields)

    if job_id == "pending":
        open_more(person.page, "Write the answer yourself, instead of the agent")
    else:
        person.page.locator("summary").filter(has_text="write the answer yourself").click()
    history = desk.history(job_id)
    find_form().get_by_label("Answer", exact=True).fill("I did it.")
    press(find_form(), "Check it first")
    expect(find_form().locator(".checked .bad").first).to_contain_text("invalid answer")
    expect(find_form().get_by_label("Answer", exact=True)).to_have_value("I did it.")
    good = command(summary="I did it by hand.")
    find_form().get_by_label("Answer", exact=True).fill(good)
    press(find_form(), "Check it first")
    expect(find_form().locator(".checked .good").first).to_contain_text("would be REVIEW_REQUIRED")
    assert desk.history(job_id) == history
    press(find_form(), "Record this answer")
    person.expect_status(job_id, "REVIEW_REQUIRED")
    assert desk.history(job_id)[-1]["simulated"]
