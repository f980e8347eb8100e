"""With JavaScript off, the page reads and decides as with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.cli.desk import Desk
from tests.web.browser.person import Person
from tests.web.browser.test_actions import ACTIONS

Sit = Callable[..., Person]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_decision(desk: Desk, sit_at: Sit, action: str) -> None:
    job_id, act, status, kind = ACTIONS[action]
    person = sit_at(job_id, java_script_enabled=False)
    person.page.get_by_role("link", name="Jobs", exact=True).click()
    person.page.locator("tbody").get_by_role("link", name=job_id, exact=True).click()
    act(person.page)
    person.expect_status(job_id, status)
    assert desk.history(job_id)[-1]["kind"] == kind
    assert desk.state(job_id)["status"] == status


def test_reading_and_searching(sit_at: Sit) -> None:
    person = sit_at("approval", "question", java_script_enabled=False)
    page = person.page
    page.get_by_role("searchbox").fill("question")
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("tbody .entry")).to_have_count(1)
    page.get_by_role("link", name="question", exact=True).click()
    expect(page.get_by_text("Which database?")).to_be_visible()
    page.get_by_role("link", name="Next that waits: approval").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("approval")


def test_what_others_decided_is_said_when_one_decides(desk: Desk, sit_at: Sit) -> None:
    person = sit_at("approval", java_script_enabled=False)
    person.go_to_job("approval")
    person.page.get_by_label("What is wrong").fill("My long note.")
    assert desk("job", "approve", "approval").code == 0
    person.page.get_by_role("button", name="Send back").click()
    expect(person.page.get_by_text("ada decided: approve")).to_be_visible()
    expect(person.page.get_by_text("My long note.")).to_be_visible()
    assert desk.history("approval")[-1]["kind"] == "approve"
    person.forgive("409")
