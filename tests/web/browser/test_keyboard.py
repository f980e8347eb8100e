"""Everything with the keyboard, and nothing but the keyboard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.cli.desk import Desk
from tests.web.browser.person import Person
from tests.web.example_jobs import EXAMPLES, IN_DOUBT

Sit = Callable[..., Person]

STUCK: dict[str, tuple[tuple[str, ...], str]] = {
    "question": (("r", "sqlite", "Tab", "Enter"), "PENDING"),
    "invalid": (("r", "Try it.", "Tab", "Enter"), "PENDING"),
    "attempts": (("r", "Tab", "Enter"), "PENDING"),
    "review": (("a", "It is fine.", "Tab", "Enter"), "SUCCESS"),
    "permission": (("x", "Worker", "Tab", "Enter"), "PENDING"),
    IN_DOUBT: (("r", "Tab", "Enter"), "PENDING"),
    "branch": (("r", "Tab", "Enter"), "PENDING"),
    "share": (("f",), "WAITING"),
}
"""What to press and type on the page of each job, and its status then."""


def press(page: Page, *keys: str) -> None:
    for key in keys:
        if len(key) == 1 or key in ("Tab", "Enter", "Escape", "Space"):
            page.keyboard.press(key)
        else:
            page.keyboard.type(key)


def test_eight_stuck_jobs_from_the_inbox_without_a_mouse(desk: Desk, sit_at: Sit) -> None:
    person = sit_at(*STUCK)
    page = person.page
    for left in range(len(STUCK), 0, -1):
        expect(page.locator(".entries .entry")).to_have_count(left)
        press(page, "j", "Enter")
        page.wait_for_url("**/jobs/*")
        job_id = page.url.rpartition("/")[2]
        keys, status = STUCK[job_id]
        press(page, *keys)
        person.expect_status(job_id, status)
        press(page, "i")
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    assert desk.history("question")[-1]["steward"]["note"] == "sqlite"
    assert desk.history(IN_DOUBT)[-1]["command"]["doubt"] == "retry"
    assert desk.state("permission")["agent_role"] == "Worker"


def test_one_key_approves_and_the_page_says_what_it_did(desk: Desk, sit_at: Sit) -> None:
    person = sit_at("approval", "question")
    person.go_to_job("approval")
    press(person.page, "a")
    person.expect_status("approval", "SUCCESS")
    assert desk.state("approval")["status"] == "SUCCESS"
    press(person.page, "s")  # skips to what still waits
    expect(person.page.get_by_role("heading", level=1)).to_contain_text("question")


def test_a_key_that_is_held_down_decides_once_and_nothing_on_the_next_page(desk: Desk, sit_at: Sit) -> None:
    person = sit_at("approval", "plan")
    person.go_to_job("approval")
    for _ in range(5):
        person.page.keyboard.down("a")  # after the first one, these are repetitions
    person.expect_status("approval", "SUCCESS")
    assert [entry["kind"] for entry in desk.history("approval")].count("approve") == 1
    assert desk.state("plan")["status"] == "APPROVAL_REQUIRED"


def test_keys_move_through_the_inbox(person: Person) -> None:
    page = person.page
    names = page.locator(".entries .entry .name").all_inner_texts()
    press(page, "j", "j", "k", "j")
    expect(page.locator(".entry.chosen .name")).to_have_text(names[1])
    expect(page.locator(":focus .name")).to_have_text(names[1])  # so that a screen reader reads it
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(names[1])


def test_approve_in_the_inbox_opens_the_job_and_decides_nothing_unseen(desk: Desk, sit_at: Sit) -> None:
    person = sit_at("approval")
    press(person.page, "j", "a")
    expect(person.page.get_by_role("heading", level=1)).to_contain_text("approval")
    expect(person.page.get_by_role("button", name="approve: accept the work")).to_be_focused()
    assert desk.state("approval")["status"] == "APPROVAL_REQUIRED"
    press(person.page, "Enter")
    person.expect_status("approval", "SUCCESS")


def test_keys_are_letters_while_one_types(desk: Desk, sit_at: Sit) -> None:
    person = sit_at("approval")
    person.go_to_job("approval")
    press(person.page, "r", "a raw idea? no / yes", "Escape")
    expect(person.page.get_by_label("What is wrong")).to_have_value("a raw idea? no / yes")
    expect(person.page.locator("dialog[open]")).to_have_count(0)
    assert desk.state("approval")["status"] == "APPROVAL_REQUIRED"


@pytest.mark.parametrize("modifier", ["Control", "Meta", "Alt"])
def test_the_browsers_own_keys_decide_nothing(desk: Desk, sit_at: Sit, modifier: str) -> None:
    person = sit_at("approval")
    person.go_to_job("approval")
    person.page.keyboard.press(f"{modifier}+a")
    person.page.reload()
    assert desk.state("approval")["status"] == "APPROVAL_REQUIRED"


def test_search_and_the_list_of_keys(person: Person) -> None:
    page = person.page
    press(page, "?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    press(page, "Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    press(page, "/", "canceled", "Enter")
    expect(page.locator("tbody .entry")).to_have_count(1)
    press(page, "j", "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("canceled")


def test_the_first_tab_leads_past_the_navigation(person: Person) -> None:
    press(person.page, "Tab", "Enter")
    assert person.page.url.endswith("#main")


@pytest.mark.parametrize("job_id", EXAMPLES)
def test_each_key_that_a_page_names_is_of_one_decision(person: Person, job_id: str) -> None:
    person.go_to_job(job_id)
    forms = person.page.locator("form[data-key]")
    keys = forms.evaluate_all("forms => forms.map(each => [each.dataset.key, each.decision.value])")
    assert len({key for key, _ in keys}) == len({name for _, name in keys})
