"""Each decision, made in a real browser."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.cli.desk import Desk
from tests.web.browser.person import Person


def test_approve(person: Person, examples: Desk) -> None:
    person.go_to_job("approval")
    expect(person.page.get_by_text("Done.", exact=True)).to_be_visible()
    person.page.keyboard.press("a")
    person.expect_message("Done: approval is now SUCCESS")
    assert examples.history("approval")[-1]["command"]["seen"] is True
