"""What one sees: at three widths, dark and light, with a screen reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests import support
from tests.cli.desk import Desk, answer, command
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
    changes = "/jobs/approval/changes"
    yield from (f"{changes}?comment=src%2Fb.py%3A2", f"{changes}?view=unified", f"{changes}?since=review")
    yield from (
        "/jobs/approval/history/2",
        "/jobs/manual/workflow",
        "/jobs/parent/workflow",
        "/costs?days=all",
    )


def open_merge(person: Person) -> None:
    """Look at what a merge would change."""
    person.go_to_job("merge")
    person.page.get_by_role("button", name="See what would be merged").click()
    expect(person.page.get_by_role("heading", name="What would be merged")).to_be_visible()


def open_conflict(person: Person) -> None:
    """Send a decision about a state of the job that is past."""
    person.go_to_job("approval")
    person.page.get_by_label("What is wrong").fill(LONG)
    past = "fields => fields.forEach(each => each.value = '1')"
    person.page.locator("input[name=revision]").evaluate_all(past)
    person.page.get_by_role("button", name="Send back").click()
    expect(person.page.get_by_role("heading", name="has changed since you looked at it")).to_be_visible()


OPENED = {"what would be merged": open_merge, "conflict": open_conflict}
"""Pages that a form leads to."""


def visit_pages(examples: Desk, person: Person) -> Iterator[str]:
    """Open each page with everything unfolded, and yield its name while it is open."""
    support.make_repository(examples.place / "shop")
    examples.settings("review: {enabled: false}\napproval: none\n")
    examples.script(answer(command(evidence_files=["a.txt"]), files={"a.txt": f"{LONG}\n"}))
    examples.create("merge", "--repo", "shop")
    assert examples("job", "run", "merge").code == 0
    for path in list(list_pages(person)):
        person.go(path)
        person.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        yield path
    for name, open_page in OPENED.items():
        open_page(person)
        yield name
    person.forgive("404")
    person.forgive("409")


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
def test_no_page_moves_sideways(examples: Desk, server: RunningServer, sit: Sit, width: int) -> None:
    person = sit(server, viewport={"width": width, "height": 800})
    found = {}
    for name in visit_pages(examples, person):
        if wide := find_wide(person.page):
            found[name] = wide
    assert found == {}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_serious(examples: Desk, server: RunningServer, sit: Sit, scheme: str) -> None:
    # The policy of the page blocks the script of axe-core, too.
    person = sit(server, color_scheme=scheme, bypass_csp=True, viewport={"width": 1400, "height": 900})
    axe = Axe()
    found = {}
    for name in visit_pages(examples, person):
        if bad := describe_violations(axe.run(person.page).response):
            found[name] = bad
    assert found == {}


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
