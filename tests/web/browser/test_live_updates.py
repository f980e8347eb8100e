"""Pages change by themselves when something else changes a job, and leave alone what a person reads or types."""

from __future__ import annotations

from playwright.sync_api import expect

from logist.web import served_project
from logist.web.pages import events
from tests import support
from tests.cli.desk import Desk, answer, command
from tests.cli.test_interrupted import MODELS, Slow, paid
from tests.web.browser.conftest import Sit, SitAt
from tests.web.browser.person import Person
from tests.web.example_jobs import make_approval
from tests.web.running_server import RunningServer

SOON = 10_000
"""Milliseconds: whatever the machine does besides, a page has heard of a change by then."""


def wait_for_stream(person: Person) -> None:
    """Load the page again, and wait until it listens."""
    with person.page.expect_response("**/events*"):
        person.page.reload()


def test_a_decision_in_a_terminal_appears_in_an_open_inbox(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("approval", "question")
    wait_for_stream(person)
    entry = person.page.locator('.entry[data-job="approval"]')
    before = entry.bounding_box()
    assert desk.process("job", "approve", "approval").code == 0
    expect(entry).to_have_class("entry gone", timeout=SOON)
    expect(person.page.locator("#waiting")).to_have_text("1")
    after = entry.bounding_box()
    assert before is not None
    assert after is not None
    assert (before["x"], before["y"]) == (after["x"], after["y"])


def test_a_page_hears_within_a_second_of_the_servers_time(desk: Desk, sit_at: SitAt) -> None:
    """No wall time is asserted: two looks of the server, and the event is there."""

    assert events.LOOK_SECONDS + served_project.FRESH_SECONDS < 1
    person = sit_at("question")
    wait_for_stream(person)
    assert desk.process("job", "resubmit", "question", "--note", "sqlite").code == 0
    expect(person.page.locator(".entry.gone")).to_have_count(1, timeout=SOON)


def test_new_jobs_are_announced_and_move_nothing(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("question")
    wait_for_stream(person)
    entry = person.page.locator(".entry")
    before = entry.bounding_box()
    make_approval(desk, "a-newer")
    news = person.page.locator("#news")
    expect(news).to_contain_text("1 new.", timeout=SOON)
    assert entry.bounding_box() == before
    news.get_by_role("link", name="Show").click()
    expect(person.page.locator(".entry")).to_have_count(2)


def test_what_one_reads_does_not_move_when_the_job_changes(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("approval")
    person.page.set_viewport_size({"width": 800, "height": 300})
    person.go_to_job("approval")
    wait_for_stream(person)
    person.page.mouse.wheel(0, 250)
    task = person.page.get_by_role("heading", name="Task")
    task.scroll_into_view_if_needed()
    before = task.bounding_box()
    assert desk.process("job", "reject", "approval", "--note", "No.").code == 0
    expect(person.page.locator("#news")).to_contain_text("This job has changed.", timeout=SOON)
    assert task.bounding_box() == before


def test_a_note_that_was_not_sent_survives_a_reload_and_a_change(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("approval")
    person.go_to_job("approval")
    field = person.page.get_by_label("What is wrong")
    field.fill("Half a thou")
    person.page.reload()
    expect(field).to_have_value("Half a thou")
    person.go("/")
    person.go_to_job("approval")
    expect(field).to_have_value("Half a thou")
    field.press("End")
    field.press_sequentially("ght.")
    person.page.get_by_role("button", name="Send back").click()
    person.expect_status("approval", "PENDING")
    assert desk.history("approval")[-1]["steward"]["note"] == "Half a thought."
    desk.script(answer(), answer(), answer(), answer())
    assert desk("job", "run", "approval").code == 11
    person.go_to_job("approval")
    expect(field).to_have_value("")  # it was sent


def test_a_note_survives_that_somebody_else_decided(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("approval")
    person.go_to_job("approval")
    person.page.get_by_label("What is wrong").fill("It lacks a test.")
    assert desk.process("job", "approve", "approval").code == 0
    person.page.get_by_role("button", name="Send back").click()
    expect(person.page.get_by_text("ada decided: approve")).to_be_visible()
    expect(person.page.get_by_text("It lacks a test.")).to_be_visible()
    person.forgive("409")


def test_a_note_survives_that_the_server_is_gone(desk: Desk, sit: Sit) -> None:
    make_approval(desk)
    with RunningServer(desk) as server:
        person = sit(server)
        person.go_to_job("approval")
        person.page.get_by_label("What is wrong").fill("It lacks a test.")
    person.page.get_by_role("button", name="Send back").click()
    person.page.wait_for_url("chrome-error://**")
    with RunningServer(desk, server.port) as again:
        person.enter(again.link)
        person.go_to_job("approval")
        expect(person.page.get_by_label("What is wrong")).to_have_value("It lacks a test.")
    person.may_fail = True


def test_an_empty_inbox_says_so_and_shows_what_runs(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at()
    expect(person.page.get_by_text("Nothing waits for you.")).to_be_visible()
    expect(person.page.get_by_text("There are no jobs yet.")).to_be_visible()
    desk.create("working")
    person.page.reload()
    expect(person.page.get_by_text("1 job could run: logist run")).to_be_visible()
    wait_for_stream(person)
    with Slow({"text": command(), "usage": {"input": 100, "output": 20}}) as model:
        desk.settings(MODELS.replace("{url}", model.url).replace(" &model", ""))
        running = desk.started("job", "step", "working", env=paid(desk))
        model.wait_for(1, 60)
        expect(person.page.get_by_role("heading", name="Running (1)")).to_be_visible(timeout=SOON)
        person.page.reload()
        section = person.page.get_by_role("region", name="Running (1)")
        expect(section.get_by_role("link", name="working")).to_be_visible()
        expect(section).to_contain_text("running")
        model.go.release()
        assert running.wait(support.CRASHED) == 0


def test_the_answer_to_a_form_is_not_loaded_again(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("invalid")
    person.go_to_job("invalid")
    person.page.locator("summary").filter(has_text="write the answer yourself").click()
    person.page.get_by_label("Answer", exact=True).fill("I did it.")
    person.page.get_by_role("button", name="Check it first").click()
    expect(person.page.locator(".checked .bad").first).to_be_visible()
    wait_for_stream(person)
    assert desk.process("job", "cancel", "invalid").code == 0
    person.page.get_by_role("link", name="Show").click(timeout=SOON)
    expect(person.page.get_by_role("heading", level=1)).to_contain_text("canceled")
