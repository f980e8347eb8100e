"""The server stops while pages are open."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.cli.desk import Desk
from tests.web.browser.person import Person
from tests.web.running_server import RunningServer


def test_an_open_page_does_not_keep_the_server_from_stopping(
    examples: Desk, sit: Callable[..., Person]
) -> None:
    with RunningServer(examples) as server:
        person = sit(server)
        with person.page.expect_request("**/events*"):
            person.page.reload()
        expect(person.page.locator("#waiting")).to_have_text("15")
    assert server.process.returncode == 143  # with nothing on standard error: no stream had to be cut off
