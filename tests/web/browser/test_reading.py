"""What one sees: at three widths, dark and light, with a screen reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.web.browser.conftest import Sit
from tests.web.browser.person import Person
from tests.web.example_jobs import EXAMPLES
from tests.web.running_server import RunningServer

WIDTHS = (360, 800, 1400)
SCHEMES = ("light", "dark")
BAD = ("serious", "critical")
LONG = "w" * 300
"""A word that no line can hold."""


def list_pages(person: Person) -> Iterator[str]:
    """All pages that a person reaches by links, each kind once and each job."""
    yield from ("/", "/?q=none", "/jobs", "/jobs?status=STUCK", "/jobs/none")
    jobs = sorted(EXAMPLES)
    yield from (f"/jobs/{job_id}" for job_id in jobs)
    person.go_to_job("approval")
    tabs = person.page.locator("nav.tabs a:not([rel])").evaluate_all("links => links.map(each => each.href)")
    yield from (href.removeprefix(person.base) for href in tabs[1:])
    person.go("/")
    others = person.page.locator("header nav a").evaluate_all("links => links.map(each => each.href)")
    yield from (href.removeprefix(person.base) for href in others[2:])


def find_wide(page: Page) -> Any:
    """Return how far the page can be moved sideways, and the elements that are too wide."""
    return page.evaluate(
        """() => {
          const room = document.documentElement.clientWidth;
          const moves = document.documentElement.scrollWidth - room;
          if (moves <= 0) return null;
          const wide = [...document.querySelectorAll("body *")].filter((each) => each.getBoundingClientRect().right > room);
          return [moves, wide.slice(0, 5).map((each) => each.outerHTML.slice(0, 100))];
        }"""
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_moves_sideways(server: RunningServer, sit: Sit, width: int) -> None:
    person = sit(server, viewport={"width": width, "height": 800})
    found = {}
    for path in list(list_pages(person)):
        person.go(path)
        person.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        if wide := find_wide(person.page):
            found[path] = wide
    assert found == {}
    person.forgive("404")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_serious(server: RunningServer, sit: Sit, scheme: str) -> None:
    # The policy of the page blocks the script of axe-core, too.
    person = sit(server, color_scheme=scheme, bypass_csp=True, viewport={"width": 1400, "height": 900})
    axe = Axe()
    found = {}
    for path in list(list_pages(person)):
        person.go(path)
        person.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        if bad := describe_violations(axe.run(person.page).response):
            found[path] = bad
    assert found == {}
    person.forgive("404")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_serious_on_a_phone(server: RunningServer, sit: Sit, scheme: str) -> None:
    person = sit(server, color_scheme=scheme, bypass_csp=True, viewport={"width": 360, "height": 700})
    for path in ("/", "/jobs", "/jobs/approval", "/jobs/question"):
        person.go(path)
        assert describe_violations(Axe().run(person.page).response) == []


def describe_violations(response: Any) -> list[str]:
    """Return what is serious, each with the element."""
    return [
        f"{each['id']}: {node['html'][:120]} {node['failureSummary'].splitlines()[1].strip()[:160]}"
        for each in response["violations"]
        if each["impact"] in BAD
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_colors_follow_the_system(server: RunningServer, sit: Sit, scheme: str) -> None:
    person = sit(server, color_scheme=scheme)
    color = person.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    brightness = sum(int(part) for part in color.strip("rgb()").split(","))
    assert (brightness < 3 * 128) is (scheme == "dark")
