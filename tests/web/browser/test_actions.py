"""Each decision, made in a real browser with the mouse: what the page offers, what it says then, and what is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests import support
from tests.cli.desk import Desk, answer
from tests.web.browser.person import Person
from tests.web.example_jobs import COMMIT, IN_DOUBT

Sit = Callable[..., Person]
Json = dict[str, Any]


def press(page: Page, button: str) -> None:
    page.get_by_role("button", name=button).click()


def open_choice(page: Page, text: str) -> None:
    """Open a decision that needs more than a click."""
    page.locator("summary").filter(has_text=text).click()


def approve(page: Page) -> None:
    press(page, "approve: accept the work")


def reject(page: Page) -> None:
    page.get_by_label("What is wrong").fill("Add a test.\nThen say so.")
    press(page, "Send back")


def choose_option(page: Page) -> None:
    press(page, "sqlite: a file")


def reply(page: Page) -> None:
    page.get_by_label("Your answer").fill("Neither: use files.")
    press(page, "Send the reply")


def try_again(page: Page) -> None:
    page.get_by_label("Note for the agent").first.fill("Try it.")
    page.locator("button.main").first.click()


def override(page: Page) -> None:
    page.get_by_label("Reason").fill("It is fine.")
    press(page, "Accept in spite of the review")


def repeat_review(page: Page) -> None:
    press(page, "repeat only the review")


def raise_limit(page: Page) -> None:
    page.get_by_label("New limit in runs (now 0)").fill("7")
    press(page, "Raise and continue")


def answer_by_hand(page: Page) -> None:
    open_choice(page, "write the answer yourself")
    field = page.get_by_label("Answer", exact=True)
    field.fill(field.input_value().replace('supervisor": ""', 'supervisor": "I did it by hand."'))
    press(page, "Record this answer")


def say_charged(page: Page) -> None:
    press(page, "It was charged, or I don't know")


def say_not_charged(page: Page) -> None:
    press(page, "It was not charged")


def cancel(page: Page) -> None:
    open_choice(page, "More")
    open_choice(page, "cancel the job")
    press(page, "Cancel the job")


def finish_by_hand(page: Page) -> None:
    page.get_by_label("Result as JSON").fill('{"ok": true}')
    press(page, "Done")


def refuse_by_hand(page: Page) -> None:
    page.get_by_label("Why not").fill("The logs are gone.")
    page.get_by_role("button", name="Not possible", exact=True).click()


def end_wait(page: Page) -> None:
    press(page, "try again: the next run calls the provider")


def continue_at(page: Page) -> None:
    page.get_by_label("Step to continue at").select_option("ask")
    press(page, "Try again")


def continue_without(page: Page) -> None:
    press(page, "continue with the results that there are")


def carry_out(page: Page) -> None:
    press(page, "approve the plan: the role Actor carries it out next")


def switch_role(page: Page) -> None:
    open_choice(page, "try again with another role")
    page.get_by_label("Role", exact=True).first.select_option("Worker")
    press(page, "Switch and try again")


ACTIONS: dict[str, tuple[str, Callable[[Page], None], str, str]] = {
    "approve": ("approval", approve, "SUCCESS", "approve"),
    "reject": ("approval", reject, "PENDING", "reject"),
    "choose an option": ("question", choose_option, "PENDING", "resubmit"),
    "reply": ("question", reply, "PENDING", "resubmit"),
    "resubmit": ("attempts", try_again, "PENDING", "resubmit"),
    "override": ("review", override, "SUCCESS", "approve"),
    "review again": ("review", repeat_review, "REVIEW_REQUIRED", "resubmit"),
    "raise a limit": ("halted", raise_limit, "PENDING", "resume"),
    "answer in a role's place": ("invalid", answer_by_hand, "REVIEW_REQUIRED", "ask"),
    "in doubt, charged": (IN_DOUBT, say_charged, "PENDING", "resubmit"),
    "in doubt, not charged": (IN_DOUBT, say_not_charged, "PENDING", "resubmit"),
    "cancel": ("draft", cancel, "CANCELED", "cancel"),
    "manual step": ("manual", finish_by_hand, "PENDING", "approve"),
    "manual step not possible": ("manual", refuse_by_hand, "STUCK", "reject"),
    "continue at a step": ("branch", continue_at, "PENDING", "resubmit"),
    "continue without children": ("share", continue_without, "WAITING", "resubmit"),
    "carry out a plan": ("plan", carry_out, "PENDING", "approve"),
    "another role": ("permission", switch_role, "PENDING", "resubmit"),
}
"""The job, what a person does on its page, its status then, and the kind of interaction that is recorded."""
RECORDED: dict[str, Json] = {
    "approve": {"command": {"seen": True}},
    "reject": {"steward": {"name": "ada", "note": "Add a test.\nThen say so."}},
    "choose an option": {"steward": {"name": "ada", "note": "sqlite"}},
    "reply": {"steward": {"name": "ada", "note": "Neither: use files."}},
    "resubmit": {"steward": {"name": "ada", "note": "Try it."}},
    "override": {"command": {"override": True}},
    "review again": {"command": {"review": True}},
    "answer in a role's place": {"simulated": True},
    "in doubt, charged": {"command": {"doubt": "assume_paid"}},
    "in doubt, not charged": {"command": {"doubt": "retry"}},
    "manual step": {"command": {"output": {"ok": True}}},
    "manual step not possible": {"steward": {"note": "The logs are gone."}},
    "continue at a step": {"command": {"step": "ask"}},
    "continue without children": {"command": {"force": True}},
}
"""Fields of what is recorded then."""


@pytest.mark.parametrize("action", ACTIONS)
def test_a_decision(desk: Desk, sit_at: Sit, action: str) -> None:
    job_id, act, status, kind = ACTIONS[action]
    person = sit_at(job_id)
    person.go_to_job(job_id)
    before = len(desk.history(job_id))
    act(person.page)
    person.expect_status(job_id, status)
    added = desk.history(job_id)[before:]
    assert added[-1]["kind"] == kind
    for name, value in RECORDED.get(action, {}).items():
        entry = added[-1][name]
        assert (entry | value if isinstance(value, dict) else value) == entry
    assert desk.state(job_id)["status"] == status
    assert desk("job", "verify", job_id).code == 0


def test_a_provider_is_tried_again(desk: Desk, sit_at: Sit) -> None:
    person = sit_at("provider")
    person.go_to_job("provider")
    end_wait(person.page)
    person.expect_status("provider", "PENDING")
    assert not (desk.job("provider") / "provider-wait.json").exists()
    desk.script(answer(), answer())
    assert desk("job", "step", "provider").code == 0


def test_a_merge_conflict_is_merged_after_it_is_resolved(desk: Desk, sit_at: Sit) -> None:
    again = "merge again, after you have resolved the conflicts"
    person = sit_at("conflict")
    person.go_to_job("conflict")
    press(person.page, again)
    expect(person.page.get_by_role("alert")).to_contain_text("merge conflict with main in: a.txt")
    person.forgive("409")
    assert desk.state("conflict")["status"] == "STUCK"
    (desk.place / "repo" / "a.txt").write_text("old\n", "utf-8")
    support.git(desk.place / "repo", *COMMIT, "resolved")
    press(person.page, again)
    person.expect_status("conflict", "SUCCESS")
    assert (desk.place / "repo" / "a.txt").read_text("utf-8") == "by the agent\n"


INVALID: dict[str, tuple[str, Callable[[Page], None], str]] = {
    "no number": (
        "halted",
        lambda page: page.get_by_label("New limit").fill("many"),
        "expected a number above 0",
    ),
    "no JSON": (
        "manual",
        lambda page: page.get_by_label("Result").fill("{oops"),
        "the result is not valid JSON",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_value_decides_nothing_and_is_kept(desk: Desk, sit_at: Sit, case: str) -> None:
    job_id, fill, told = INVALID[case]
    person = sit_at(job_id)
    person.go_to_job(job_id)
    before = desk.history(job_id)
    for details in person.page.locator("details.choice:not([open]) > summary").all():
        if details.is_visible():
            details.click()
    fill(person.page)
    typed = person.page.locator(":focus").input_value()
    person.page.locator(":focus").evaluate("field => field.form.requestSubmit()")
    expect(person.page.get_by_role("alert")).to_contain_text(told)
    assert desk.history(job_id) == before
    assert typed in [
        each.input_value() for each in person.page.locator(".choice [name=entered]:not(button)").all()
    ]
    person.forgive("40")
