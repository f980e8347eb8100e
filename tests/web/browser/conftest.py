"""A real Chromium. All tests here are marked `deep`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.cli.desk import Desk
from tests.web.browser.person import Person
from tests.web.example_jobs import EXAMPLES
from tests.web.running_server import RunningServer

Sit = Callable[..., Person]
SitAt = Callable[..., Person]
HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--host-resolver-rules=MAP evil.test 127.0.0.1, MAP other.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
"""Two names that an attacker has pointed to this machine; all others are unknown, so no test reaches the network."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("deep")


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    # Not for the whole session: while it runs, this thread counts as one with a running event loop.
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """The browser; each test gets its own context from it."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.fail(
            "no Chromium on this machine: apt-get install --no-install-recommends chromium", pytrace=False
        )
    browser = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
    yield browser
    browser.close()


@pytest.fixture
def sit(chromium: Browser) -> Iterator[Sit]:
    """Starts a person's browser: `sit(server)`, with options of Playwright's `new_context`."""
    people: list[Person] = []

    def begin(server: RunningServer, link: str | None = None, **options: object) -> Person:
        person = Person(chromium, server, link or server.link, **options)
        people.append(person)
        return person

    yield begin
    for person in people:
        person.leave()


@pytest.fixture
def person(server: RunningServer, sit: Sit) -> Person:
    """A person at the page of the examples, as its owner."""
    return sit(server)


@pytest.fixture
def sit_at(desk: Desk, sit: Sit) -> Iterator[SitAt]:
    """Makes some of the examples, and starts a server and a person's browser: `sit_at("approval", "question")`."""
    with ExitStack() as stack:

        def begin(*jobs: str, **options: object) -> Person:
            for job_id in jobs:
                EXAMPLES[job_id][0](desk)
            person = sit(stack.enter_context(RunningServer(desk)), **options)
            stack.callback(person.leave)  # before the server stops
            return person

        yield begin
