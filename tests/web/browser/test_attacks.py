"""Attacks on a person who is signed in, in a real browser: by other web pages, other programs, and what agents write."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.cli.desk import Desk, answer, command
from tests.web.attacker import Attacker
from tests.web.browser.conftest import Sit, SitAt
from tests.web.browser.person import Person
from tests.web.example_jobs import PASSED, make_approval, take_steps
from tests.web.running_server import RunningServer

NAMES = ("evil.test", "127.0.0.1", "localhost")
"""Where an attacker's page is: on a foreign site, and on other ports of this machine."""


@pytest.fixture
def attacker() -> Iterator[Attacker]:
    with Attacker() as serving:
        yield serving


def test_a_name_that_points_to_this_machine_is_refused(desk: Desk, sit: Sit) -> None:
    make_approval(desk)
    with RunningServer(desk) as server:
        person = sit(server)
        further = server.create_link()
        for path in (
            "/",
            urlsplit(person.base).path + "/",
            urlsplit(further)._replace(scheme="", netloc="").geturl(),
        ):
            answered = person.page.goto(f"http://evil.test:{server.port}{path}")
            assert answered is not None
            assert answered.status == 421
            assert "approval" not in person.page.content()
        person.expect_reached(f"evil.test:{server.port}")
        person.may_fail = True
        second = sit(server, further)  # the link was not used up
        assert {each["domain"] for each in second.context.cookies()} == {"127.0.0.1"}
        person.leave()
        second.leave()


def test_a_rebound_page_can_post_nothing(desk: Desk, sit: Sit, attacker: Attacker) -> None:
    """A page of evil.test at the port of the server, which was loaded before the name changed."""
    make_approval(desk)
    with RunningServer(desk) as server:
        person = sit(server)
        further = server.create_link()
        tab = person.open_tab()
        tab.goto(f"http://evil.test:{server.port}/")
        key = further.partition("key=")[2]
        status = tab.evaluate(
            """async (key) => (await fetch("/enter", {method: "POST", body: new URLSearchParams({key})})).status""",
            key,
        )
        assert status == 421
        person.expect_reached(f"evil.test:{server.port}")
        person.may_fail = True
        sit(server, further).leave()
        person.leave()


ENCODINGS = ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data")


@pytest.mark.parametrize("name", NAMES)
def test_a_foreign_page_can_post_nothing(desk: Desk, sit_at: SitAt, attacker: Attacker, name: str) -> None:
    """The attacker even knows the secret prefix and the revision."""
    person = sit_at("approval")
    before = desk.tree()
    target = f"{person.base}/jobs/approval/decide"
    fields = {"decision": "approve", "revision": str(desk.state("approval")["revision"]), "entered": ""}
    inputs = "".join(f'<input name="{key}" value="{value}">' for key, value in fields.items())
    for encoding in ENCODINGS:
        attacker.page = (
            f'<form method="post" enctype="{encoding}" action="{target}">{inputs}</form>'
            "<script>document.forms[0].submit()</script>"
        )
        tab = person.open_tab()
        with tab.expect_response(target) as answered:
            tab.goto(f"http://{name}:{attacker.port}/")
        assert answered.value.status == 403
        tab.close()
    attacker.page = "<p>Nothing here.</p>"
    tab = person.open_tab()
    tab.goto(f"http://{name}:{attacker.port}/")
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        with tab.expect_event("requestfailed"):
            tab.evaluate(FETCH, [target, kind, fields])
    tab.evaluate("([url, data]) => navigator.sendBeacon(url, new URLSearchParams(data))", [target, fields])
    tab.evaluate(
        "(url) => { const image = new Image(); image.src = url; document.body.append(image); }", person.base
    )
    tab.wait_for_timeout(300)
    tab.close()
    assert desk.tree() == before
    person.expect_reached(f"{name}:{attacker.port}")
    person.may_fail = True


FETCH = """
async ([url, kind, data]) => {
  const options = {method: "POST", mode: "no-cors", credentials: "include", headers: {"Content-Type": kind}};
  try { await fetch(url, {...options, body: new URLSearchParams(data).toString()}); } catch {}
}
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_foreign_page_can_read_nothing(desk: Desk, sit_at: SitAt, attacker: Attacker, name: str) -> None:
    person = sit_at("approval")
    attacker.page = "<p>Nothing here.</p>"
    tab = person.open_tab()
    tab.goto(f"http://{name}:{attacker.port}/")
    for path in ("/", "/jobs/approval", "/events"):
        for mode in ("cors", "no-cors"):
            read = tab.evaluate(
                """async ([url, mode]) => {
                  try { return await (await fetch(url, {mode, credentials: "include"})).text(); } catch { return ""; }
                }""",
                [person.base + path, mode],
            )
            assert read == ""
    assert tab.evaluate("Object.keys(localStorage)") == []
    person.expect_reached(f"{name}:{attacker.port}")
    person.may_fail = True


@pytest.mark.parametrize("name", NAMES)
def test_no_page_can_be_framed(desk: Desk, sit_at: SitAt, attacker: Attacker, name: str) -> None:
    person = sit_at("approval")
    paths = ("/", "/jobs/approval")
    for path in paths:
        attacker.page = f'<iframe src="{person.base}{path}" width="800" height="600"></iframe>'
        tab = person.open_tab()
        tab.goto(f"http://{name}:{attacker.port}/")
        frame = tab.frames[1]
        frame.wait_for_load_state()
        assert "approval" not in frame.content()
        assert frame.get_by_role("button").count() == 0
        tab.close()
    person.expect_reached(f"{name}:{attacker.port}")
    assert len(person.errors) >= len(paths)
    assert all("frame" in each or "status of 40" in each for each in person.errors), person.errors
    person.may_fail = True


@pytest.mark.parametrize("name", NAMES)
def test_another_port_gets_neither_the_cookie_nor_the_prefix(
    desk: Desk, sit_at: SitAt, attacker: Attacker, name: str
) -> None:
    """All ports of a host share their cookies: an agent may have started a server at one of them."""
    person = sit_at("approval")
    tab = person.open_tab()
    for path in ("/", "/jobs", "/favicon.ico"):
        tab.goto(f"http://{name}:{attacker.port}{path}")
    link = f"http://{name}:{attacker.port}/from-the-page"
    person.page.evaluate(
        "(href) => document.body.append(Object.assign(document.createElement('a'), {href, textContent: 'elsewhere'}))",
        link,
    )
    person.page.get_by_role("link", name="elsewhere").click()
    person.page.wait_for_url(link)
    assert person.page.evaluate("document.referrer") == ""
    assert len(attacker.headers) >= 4
    secrets = {
        urlsplit(person.base).path.strip("/"),
        *(str(each.get("value")) for each in person.context.cookies()),
    }
    for headers in attacker.headers:
        assert not any(secret in value for secret in secrets for value in headers.values())
        assert "cookie" not in headers
    person.expect_reached(f"{name}:{attacker.port}")
    tab.close()
    person.leave()  # before the attacker's server ends: a connection that Chromium keeps open would be reset


def test_scripts_can_not_read_the_cookie(desk: Desk, sit_at: SitAt) -> None:
    person = sit_at("approval")
    assert person.page.evaluate("document.cookie") == ""
    (cookie,) = person.context.cookies()
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    assert cookie.get("path") == urlsplit(person.base).path
    assert cookie.get("name") == f"logist-{person.server.port}"


def test_a_link_works_once(desk: Desk, sit_at: SitAt, sit: Sit) -> None:
    person = sit_at("approval")
    thief = person.context.browser
    assert thief is not None
    page = thief.new_context().new_page()
    page.goto(person.server.link)
    expect(page.get_by_role("heading", name="This link can't be used any more")).to_be_visible()
    expect(page.get_by_text("for an hour")).to_be_visible()
    answered = page.goto(person.base + "/")
    assert answered is not None
    assert answered.status == 401
    page.context.close()


def test_a_link_of_another_steward_records_that_name(desk: Desk, sit_at: SitAt, sit: Sit) -> None:
    person = sit_at("approval")
    other = sit(person.server, person.server.create_link("--steward", "bob"))
    other.go_to_job("approval")
    expect(other.page.locator(".who")).to_have_text("bob")
    other.page.keyboard.press("a")
    other.expect_status("approval", "SUCCESS")
    other.leave()
    assert desk.history("approval")[-1]["steward"]["name"] == "bob"


# What agents write

MARK = "window.pwned = true"
HOSTILE = (
    f"<script>{MARK}</script>",
    f'"><img src=x onerror="{MARK}">',
    f"'><svg onload='{MARK}'><script>{MARK}</script></svg>",
    f"[click](javascript:{MARK}) ![image](http://evil.test/x.png) <http://evil.test/>",
    '<iframe src="http://evil.test/"></iframe><link rel=stylesheet href="http://evil.test/x.css">',
    '<form action="http://evil.test/"><button>Approve</button></form><meta http-equiv=refresh content="0;url=http://evil.test/">',
    "{{ 7 * 7 }} {% raw %} ${7 * 7} &lt;b&gt; <!-- --> ]]> </textarea></pre></title></code>",
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.test/\x07link\x1b]8;;\x07 \x9b2J \u202eevil\u202c \u200b\u2066 \ufeff",
    "<base href='http://evil.test/'> <style>*{display:none}</style> <math><mtext><img src=x onerror="
    + MARK
    + ">",
)
EVERYTHING = " ".join(HOSTILE)
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{MARK}"><script>{MARK}</script></svg>\n'
FILES = {
    'a"><img src=x onerror=window.pwned=1>.txt': EVERYTHING + "\n",
    "<script>window.pwned=1<": "x\n",
    "picture.svg": SVG,
    "page.html": f"<script>{MARK}</script>\n",
    "notes.md": EVERYTHING + "\n",
    "javascript:window.pwned=1": "x\n",
    "quote'and\"more`.txt": "y\n",
}


def make_hostile_jobs(desk: Desk) -> list[str]:
    """Jobs whose every text is an attack."""
    done = command(summary=EVERYTHING, evidence_files=[*FILES, f"../{HOSTILE[1]}"], output={"x": EVERYTHING})
    issue = {"severity": "error", "file": HOSTILE[1], "description": EVERYTHING, "evidence": EVERYTHING}
    verdict = {"verdict": "PASS", "issues": [issue], "suggestions": [EVERYTHING]}
    judged = answer(command(summary=EVERYTHING, output=verdict))
    titled = ("--title", HOSTILE[1], "--criteria", EVERYTHING)
    take_steps(desk, "work", answer(done, files=FILES), judged, options=titled)
    passed = answer(command(summary=EVERYTHING, output=PASSED | {"suggestions": [EVERYTHING]}))
    take_steps(desk, "approvable", answer(done, files=FILES), passed)
    question = {
        "type": "question",
        "question": EVERYTHING,
        "options": [*HOSTILE, {"value": HOSTILE[0], "label": HOSTILE[1]}],
    }
    take_steps(desk, "asks", answer(command("STUCK", EVERYTHING, output=question)))
    take_steps(desk, "invalid", answer(EVERYTHING))
    assert desk("inbox", "note", "asks", EVERYTHING).code == 0
    desk.create("task", prompt=EVERYTHING)
    return ["work", "approvable", "asks", "invalid", "task"]


def crawl(person: Person, start: list[str]) -> Iterator[str]:
    """Open every page that links lead to, from these on; no two of the same path and names of parameters."""
    left, seen = list(start), set()
    while left:
        path = left.pop(0)
        url = urlsplit(path)
        kind = (url.path, tuple(sorted(each.partition("=")[0] for each in url.query.split("&"))))
        if kind in seen:
            continue
        seen.add(kind)
        person.go(path)
        yield path
        for link in person.page.locator("a[href]").evaluate_all(
            "links => links.map(each => each.getAttribute('href'))"
        ):
            target = urljoin(person.page.url, link)
            assert target.startswith(person.base), link
            left.append(target.removeprefix(person.base).partition("#")[0] or "/")


def test_what_agents_write_is_only_text(desk: Desk, sit_at: SitAt) -> None:
    jobs = make_hostile_jobs(desk)
    person = sit_at()
    dialogs: list[str] = []

    def see_dialog(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    person.page.on("dialog", see_dialog)
    visited = list(
        crawl(person, ["/", "/jobs", "/?q=" + "%3Cscript%3E", *(f"/jobs/{job_id}" for job_id in jobs)])
    )
    assert len(visited) >= 7
    for path in visited:
        person.go(path)
        open_all(person.page)
        assert person.page.evaluate("window.pwned") is None, path
        assert (
            person.page.locator("img, iframe, form[action*=evil], base, style, math, object").count() == 0
        ), path
        assert person.page.locator("main script, main svg script").count() == 0, path
        hidden = person.page.evaluate(
            "/[\\u0000-\\u0008\\u001b\\u007f-\\u009f\\u202e\\u2066\\u200b]/.test(document.body.innerText)"
        )
        assert not hidden, path
    assert dialogs == []
    if any("status of 4" in each for each in person.errors):
        person.forgive("4")


def open_all(page: Page) -> None:
    """Open all that is folded, and move the mouse over everything."""
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.evaluate(
        """document.querySelectorAll('main *').forEach(each => {
          for (const name of ["mouseover", "focus", "error", "load"]) each.dispatchEvent(new Event(name));
        })"""
    )


def test_hostile_texts_are_shown_as_they_are(desk: Desk, sit_at: SitAt) -> None:
    make_hostile_jobs(desk)
    person = sit_at()
    person.go_to_job("asks")
    expect(person.page.locator(".said").first).to_contain_text("<script>window.pwned = true</script>")
    expect(person.page.locator(".said").first).to_contain_text("U+001B")
    expect(person.page.locator(".said").first).to_contain_text("U+202E")


def test_a_hostile_option_is_sent_as_it_is(desk: Desk, sit_at: SitAt) -> None:
    make_hostile_jobs(desk)
    person = sit_at()
    person.go_to_job("asks")
    person.page.get_by_role("button", name=HOSTILE[1]).first.click()
    person.expect_status("asks", "PENDING")
    assert desk.history("asks")[-1]["steward"]["note"] == HOSTILE[1]


def test_an_endless_text_is_cut(desk: Desk, sit_at: SitAt) -> None:
    take_steps(desk, "long", answer("y" * 500_000))
    person = sit_at()
    person.go_to_job("long")
    expect(person.page.locator(".cut").first).to_contain_text("more characters")
    assert len(person.page.content()) < 300_000


def test_a_draft_of_an_attacker_is_only_text(desk: Desk, sit_at: SitAt) -> None:
    """Another server at this port, at another time, could have left a draft."""
    person = sit_at("approval")
    person.page.evaluate("(text) => localStorage.setItem('draft approval/reject', text)", EVERYTHING)
    person.go_to_job("approval")
    expect(person.page.get_by_label("What is wrong")).to_have_value(EVERYTHING)
    assert person.page.evaluate("window.pwned") is None


def test_the_policy_holds_against_what_gets_through(sit_at: SitAt, attacker: Attacker) -> None:
    """Even if a template forgot to escape something: no script in the page runs, and nothing is loaded or sent."""
    person = sit_at("approval")
    person.go_to_job("approval")
    person.page.evaluate(
        """([mark, evil]) => {
          const add = (html) => document.body.append(document.createRange().createContextualFragment(html));
          add(`<script>${mark}</` + `script>`);
          add(`<img src=x onerror="${mark}">`);
          add(`<img src="${evil}/x.png"><iframe src="${evil}/"></iframe>`);
          add('<a id="trap" href="javascript:window.pwned = true">x</a>');
          add(`<form id="leak" action="${evil}/"></form>`);
          document.getElementById("trap").click();
          document.getElementById("leak").submit();
        }""",
        [MARK, f"http://evil.test:{attacker.port}"],
    )
    person.page.wait_for_timeout(300)
    assert person.page.evaluate("window.pwned") is None
    assert person.page.url.startswith(person.base)
    assert attacker.headers == []
    assert len(person.errors) >= 5
    person.reached.discard(f"evil.test:{attacker.port}")  # Chromium reports what it then blocks, too
    person.may_fail = True
