"""Comments on lines, what the changes are compared with, the workflow and the costs, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.cli.desk import Desk
from tests.web.browser.conftest import Sit, SitAt
from tests.web.browser.person import Person
from tests.web.example_jobs import make_approval
from tests.web.running_server import RunningServer

BOTH = pytest.mark.parametrize("has_script", [True, False], ids=["script", "plain"])


def press(person: Person, button: str) -> None:
    person.page.get_by_role("button", name=button, exact=True).click()


def leave_comment(person: Person, text: str) -> None:
    """Comment on the second line of src/b.py with the mouse."""
    lines = person.page.get_by_role("table", name="Changes of src/b.py")
    lines.get_by_role("link", name="2", exact=True).click()
    person.page.get_by_label("Comment on src/b.py, line 2").fill(text)
    press(person, "Add the comment")
    expect(person.page.locator(".remark").filter(has_text=text)).to_be_visible()


@BOTH
def test_comments_on_lines_go_with_what_is_sent_back(desk: Desk, sit: Sit, has_script: bool) -> None:
    make_approval(desk)
    with RunningServer(desk) as server:
        person = sit(server, java_script_enabled=has_script)
        person.go_to_job("approval")
        person.page.get_by_role("link", name="Changes", exact=True).click()
        leave_comment(person, "Return <b>2</b>, please.")
        leave_comment(person, "This one is wrong.")
        comments = person.page.get_by_role("region", name="2 comments on lines, not sent yet")
        wrong = comments.get_by_role("listitem").filter(has_text="This one is wrong.")
        wrong.get_by_role("button", name="Remove").click()
        expect(person.page.locator(".comments li")).to_have_count(1)
        person.leave()
    with RunningServer(desk, server.port) as again:  # the server was started again
        person = sit(again, java_script_enabled=has_script)
        person.go_to_job("approval")
        comments = person.page.get_by_role("region", name="1 comment on lines, not sent yet")
        expect(comments).to_contain_text("Return <b>2</b>, please.")
        comments.get_by_role("link", name="src/b.py, line 2").click()
        expect(person.page.locator(".remark")).to_contain_text("Return <b>2</b>, please.")
        person.page.get_by_label("What is wrong").fill("Nearly.")
        press(person, "Send back")
        person.expect_status("approval", "PENDING")
        expect(person.page.locator(".comments")).to_have_count(0)
        person.leave()
    previewed = desk("job", "preview", "approval")
    assert previewed.code == 0
    for said in ("Nearly.", "src/b.py, line 2", "return 1", "Return <b>2</b>, please."):
        assert said in previewed.out
    assert "This one is wrong." not in previewed.out


def test_what_the_changes_are_compared_with_is_chosen(sit_at: SitAt) -> None:
    person = sit_at("approval")
    page = person.page
    person.go("/jobs/approval/changes")
    scopes = page.get_by_role("navigation", name="What to compare")
    expect(scopes.locator("[aria-current]")).to_have_text("since the start")
    expect(page.locator(".files li")).to_have_count(2)
    scopes.get_by_role("link", name="since the last review").click()
    expect(scopes.locator("[aria-current]")).to_have_text("since the last review")
    expect(page.get_by_text("No files changed.")).to_be_visible()
    scopes.get_by_role("link", name="since the last approval").click()
    expect(scopes.locator("[aria-current]")).to_have_text("since the last approval")
    scopes.get_by_role("link", name="one column").click()
    expect(scopes.get_by_role("link", name="side by side")).to_be_visible()
    page.get_by_label("After interaction").fill("1")
    page.get_by_label("to", exact=True).fill("2")
    press(person, "Compare")
    expect(page.locator(".files li")).to_have_count(2)
    expect(page.locator(".diff.unified")).to_be_visible()
    expect(page.get_by_text("These are not the present files.")).to_be_visible()
    expect(page.get_by_label("What is wrong")).to_have_count(0)
    page.get_by_role("link", name="see all changes up to now").click()
    expect(page.get_by_label("What is wrong")).to_be_visible()


def test_the_workflow_shows_the_children_that_a_job_waits_for(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("parent")
    (child,) = desk.state("parent")["children"]
    person.go_to_job("parent")
    person.page.get_by_role("navigation", name="Job").get_by_role("link", name="Workflow").click()
    expect(person.page.locator(".drawing svg")).to_be_visible()
    expect(person.page.get_by_text("none of its 1 child job is open")).to_be_visible()
    person.page.get_by_text("The steps as a list").click()
    expect(person.page.locator('ol.steps [aria-current="step"]')).to_contain_text("sub")
    person.page.get_by_role("table").get_by_role("link", name=child).click()
    expect(person.page.get_by_role("heading", level=1)).to_contain_text(child)
    person.page.get_by_role("link", name="parent", exact=True).click()
    expect(person.page.get_by_role("heading", level=1)).to_contain_text("parent")


def test_the_costs_of_a_period_are_chosen(sit_at: SitAt) -> None:
    person = sit_at("approval", "failed")
    person.page.get_by_role("link", name="Costs", exact=True).click()
    page = person.page
    periods = page.locator(".filters")
    expect(periods.locator("[aria-current]")).to_have_text("30 days")
    for name in ("7 days", "90 days", "all days"):
        periods.get_by_role("link", name=name, exact=True).click()
        expect(periods.locator("[aria-current]")).to_have_text(name)
        expect(page.get_by_text("for 2 runs of agents; 1 job ended")).to_be_visible()
    chart = page.locator("section").filter(has=page.get_by_role("heading", name="Jobs that ended"))
    expect(chart.locator("svg")).to_be_visible()
    chart.get_by_text("The numbers as a table").click()
    expect(chart.get_by_role("table")).to_contain_text("1")
