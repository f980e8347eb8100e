"""A person in front of a real browser, who came in through the link that `logist serve` printed."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, expect

from tests.web.running_server import RunningServer


class Person:
    """A browser with its own cookies. At the end, it must have reached only the server, and no script may have failed."""

    def __init__(self, browser: Browser, server: RunningServer, link: str, **options: Any) -> None:
        self.server = server
        self.may_fail = False
        """True if the console may have errors: those of an attack that Chromium refuses come late, or not at all."""
        self.has_left = False
        self.reached: set[str] = set()
        self.errors: list[str] = []
        """What the console shows as errors, and exceptions of scripts."""
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(20_000)
        self.context.on("request", self._see_request)
        self.has_script = options.get("java_script_enabled", True)
        self.page = self.open_tab()
        self.enter(link)

    def _see_request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("data", "blob", "about"):
            self.reached.add(url.netloc)

    def _read_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def open_tab(self) -> Page:
        """Open another page of this browser."""
        page = self.context.new_page()
        page.on("console", self._read_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        return page

    def enter(self, link: str) -> None:
        """Open a link; without JavaScript, a person presses the button."""
        self.page.goto(link)
        if not self.has_script:
            self.page.get_by_role("button", name="Open the page").click()
        expect(self.page.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
        self.base = f"{self.server.address}{urlsplit(self.page.url).path.rstrip('/')}"

    def go(self, path: str) -> Response:
        """Open a page; `path` begins after the secret prefix."""
        answered = self.page.goto(self.base + path)
        assert answered is not None
        return answered

    def go_to_job(self, job_id: str) -> Response:
        return self.go(f"/jobs/{job_id}")

    def expect_status(self, job_id: str, status: str) -> None:
        """Wait until the page of the job says in which status a decision has left it."""
        self.expect_message(f"Done: {job_id} is now {status}")

    def expect_message(self, text: str) -> None:
        """Wait until the page says so at its top."""
        expect(self.page.locator(".message").filter(has_text=text).first).to_be_visible()

    def expect_reached(self, netloc: str) -> None:
        """Accept that this browser has also been at another server; it must have been."""
        self.reached.remove(netloc)

    def forgive(self, status: str) -> None:
        """Forget that Chromium has reported answers with a status that begins so as errors; there must be one."""
        report = f"the server responded with a status of {status}"
        kept = [each for each in self.errors if report not in each]
        assert kept != self.errors, self.errors
        self.errors[:] = kept

    def leave(self) -> None:
        """Close the browser, and look back at what it did."""
        if self.has_left:
            return
        self.has_left = True
        self.context.close()
        assert self.reached <= {self.server.address.removeprefix("http://")}, self.reached
        assert self.may_fail or self.errors == [], self.errors
