"""Requests that no browser sends, to the real server: all are refused, change nothing, and leave it at work."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest

from logist.web.guard import MOST_BYTES
from tests import support
from tests.cli.desk import Desk
from tests.web.example_jobs import EXAMPLES, make_approval
from tests.web.running_server import RunningServer
from tests.web.visitor import ADDRESS, Visitor

SECONDS = 10.0


class Raw:
    """A signed-in client that sends bytes."""

    def __init__(self, server: RunningServer) -> None:
        self.port = server.port
        self.host = f"127.0.0.1:{server.port}"
        key = server.link.partition("key=")[2]
        body = f"key={key}".encode()
        entered = self.send(self.head("POST", "/enter", body)).decode()
        self.cookie = re.findall(r"(?im)^set-cookie: ([^;]+)", entered)[0]
        self.prefix = re.findall(r"(?im)^location: (/\w+)/", entered)[0]

    def head(self, method: str, target: str, body: bytes = b"", *more: str) -> bytes:
        """Return a request as the page sends it, with a body and further headers."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.host}", *more, "Connection: close"]
        if getattr(self, "cookie", ""):
            lines.append(f"Cookie: {self.cookie}")
        if method == "POST":
            lines += [f"Origin: http://{self.host}", "Content-Type: application/x-www-form-urlencoded"]
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    def send(self, data: bytes) -> bytes:
        """Send bytes over a connection of their own; return all that comes back."""
        received = b""
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as connection:
            with suppress(ConnectionError):  # refused before all was sent
                connection.sendall(data)
            with suppress(ConnectionError, TimeoutError):  # no answer at all
                while part := connection.recv(65536):
                    received += part
        return received

    def get_status(self, data: bytes) -> int:
        """Return the status of the answer; 0 if the connection was closed without one."""
        received = self.send(data)
        return int(received.split(b" ", 2)[1]) if received else 0


@pytest.fixture
def approvable(desk: Desk) -> Desk:
    make_approval(desk)
    return desk


@pytest.fixture
def raw(approvable: Desk) -> Iterator[Raw]:
    with RunningServer(approvable) as server:
        yield Raw(server)


def test_requests_that_no_browser_sends(approvable: Desk, raw: Raw) -> None:
    before = support.tree(approvable.jobs)
    page, decide = f"{raw.prefix}/", f"{raw.prefix}/jobs/approval/decide"
    revision = approvable.state("approval")["revision"]
    body = f"decision=approve&revision={revision}&entered=".encode()
    good_get, good_post = raw.head("GET", page), raw.head("POST", decide, body)
    assert raw.get_status(good_get) == 200
    host, origin = f"Host: {raw.host}\r\n".encode(), f"Origin: http://{raw.host}\r\n".encode()
    length = f"Content-Length: {len(body)}".encode()
    kind = b"Content-Type: application/x-www-form-urlencoded"
    cookie = f"Cookie: {raw.cookie}\r\n".encode()
    refused = {
        # Hosts
        "no host": (good_get.replace(host, b""), {400, 421}),
        "another host": (good_get.replace(host, b"Host: evil.test\r\n"), {421}),
        "no port": (good_get.replace(host, b"Host: 127.0.0.1\r\n"), {421}),
        "another port": (good_get.replace(host, b"Host: 127.0.0.1:1\r\n"), {421}),
        "two hosts": (good_get.replace(host, host + b"Host: evil.test\r\n"), {400, 421}),
        "the host twice": (good_get.replace(host, host + host), {400, 421}),
        "a host with a user": (good_get.replace(host, f"Host: x@{raw.host}\r\n".encode()), {400, 421}),
        "forwarded": (
            good_get.replace(host, f"Host: evil.test\r\nX-Forwarded-Host: {raw.host}\r\n".encode()),
            {421},
        ),
        "absolute target": (good_get.replace(b"GET /", b"GET http://evil.test/"), {400, 401, 404}),
        "authority target": (good_get.replace(f"GET {page}".encode(), b"CONNECT evil.test:80"), {400, 405}),
        # Origins and sessions
        "no origin": (good_post.replace(origin, b""), {403}),
        "origin null": (good_post.replace(origin, b"Origin: null\r\n"), {403}),
        "another origin": (good_post.replace(origin, b"Origin: http://127.0.0.1:1\r\n"), {403}),
        "origin over https": (good_post.replace(b"Origin: http:", b"Origin: https:"), {403}),
        "two origins": (good_post.replace(origin, origin + b"Origin: http://evil.test\r\n"), {403}),
        "same site": (good_post.replace(host, host + b"Sec-Fetch-Site: same-site\r\n"), {403}),
        "no cookie": (good_post.replace(cookie, b""), {401}),
        "a wrong cookie": (good_post.replace(cookie, cookie[:-4] + b"xx\r\n"), {401}),
        "reading from elsewhere": (
            good_get.replace(host, host + b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n"),
            {403},
        ),
        # Bodies
        "text": (good_post.replace(kind, b"Content-Type: text/plain"), {415}),
        "JSON": (good_post.replace(kind, b"Content-Type: application/json"), {415}),
        "no type": (good_post.replace(kind + b"\r\n", b""), {415}),
        "huge": (good_post.replace(length, f"Content-Length: {MOST_BYTES + 1}".encode()), {413}),
        "endless": (
            good_post.replace(length, b"Transfer-Encoding: chunked").replace(
                body, b"10\r\n" + b"x" * 16 + b"\r\n"
            ),
            {400, 411},
        ),
        "both lengths": (good_post.replace(length, length + b"\r\nTransfer-Encoding: chunked"), {400, 411}),
        "two lengths": (good_post.replace(length, length + b"\r\nContent-Length: 1"), {400}),
        "negative length": (good_post.replace(length, b"Content-Length: -1"), {400, 411}),
        "length in other digits": (good_post.replace(length, "Content-Length: \u0663".encode()), {400, 411}),
        "not ASCII": (good_post.replace(body, b"\xff" * len(body)), {400}),
        "not UTF-8": (good_post.replace(body, b"%ff=1".ljust(len(body), b"&")), {400}),
        "many fields": (raw.head("POST", decide, b"&".join([b"a=1"] * 1000)), {400}),
        "no revision": (raw.head("POST", decide, b"decision=approve"), {409}),
        "an older revision": (raw.head("POST", decide, body.replace(str(revision).encode(), b"1")), {409}),
        "no such decision": (raw.head("POST", decide, body.replace(b"approve", b"force")), {409}),
        # Methods, targets and framing
        **{
            method: (good_get.replace(b"GET", method.encode(), 1), {405})
            for method in ("PUT", "DELETE", "PATCH")
        },
        "OPTIONS": (good_get.replace(b"GET", b"OPTIONS", 1), {405}),
        "TRACE": (good_get.replace(b"GET", b"TRACE", 1), {405}),
        "GET of a decision": (raw.head("GET", f"{decide}?decision=approve&revision={revision}"), {405}),
        "POST of a page": (raw.head("POST", page, body), {405}),
        "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {0, 400, 421}),
        "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10 + b"\r\n\r\n", {0, 400}),
        "a folded header": (good_get.replace(host, host + b"X: a\r\n b\r\n"), {200, 400}),
        "a space before the colon": (good_get.replace(host, host + b"Origin : x\r\n"), {400}),
        "a bare newline in a header": (
            good_get.replace(host, host + b"X: a\nHost: evil.test\r\n"),
            {400, 421},
        ),
        "a NUL in a header": (good_get.replace(host, host + b"X: a\0b\r\n"), {400}),
        "headers without end": (good_get.replace(host, host + b"X: " + b"a" * 200_000 + b"\r\n"), {400, 431}),
    }
    for path in TRAVERSALS:
        target = path.replace("PREFIX", raw.prefix)
        refused[target] = (raw.head("GET", target), {400, 401, 404})
    answers = {name: raw.get_status(data) for name, (data, _) in refused.items()}
    assert {name: status for name, status in answers.items() if status not in refused[name][1]} == {}
    assert support.tree(approvable.jobs) == before
    assert raw.get_status(good_get) == 200
    assert raw.get_status(good_post) == 303  # as it was, it was a good one


TRAVERSALS = (
    "/static/../server.py",
    "/static/%2e%2e/server.py",
    "/static/..%2fserver.py",
    "/static//etc/passwd",
    "/static/%00page.css",
    "//etc/passwd",
    "/../../etc/passwd",
    "PREFIX/jobs/..",
    "PREFIX/jobs/%2e%2e",
    "PREFIX/jobs/..%2f..%2fconfig.yaml",
    "PREFIX/jobs/approval%2f..%2fapproval",
    "PREFIX/jobs/approval%00",
    "PREFIX/jobs/approval%0d%0aX:%20y",
    "PREFIX/jobs/.new-x",
    "PREFIX/jobs/" + "a" * 5000,
    "/0000000000000000/jobs/approval",
)


def test_a_client_that_sends_nothing_more_keeps_nobody_waiting(raw: Raw) -> None:
    body = raw.head("POST", f"{raw.prefix}/jobs/approval/decide", b"x" * 1000)[:-999]
    waiting = [socket.create_connection(("127.0.0.1", raw.port), SECONDS) for _ in range(20)]
    for number, connection in enumerate(waiting):
        connection.sendall(body if number % 2 else b"GET / HT")
    assert raw.get_status(raw.head("GET", f"{raw.prefix}/")) == 200
    for connection in waiting:
        connection.close()


def test_every_answer_has_the_headers_that_protect_it(raw: Raw) -> None:
    for target in (f"{raw.prefix}/", "/static/page.js", "/enter", "/none", f"{raw.prefix}/jobs/none"):
        headers = raw.send(raw.head("GET", target)).partition(b"\r\n\r\n")[0].lower()
        for name in (b"content-security-policy: default-src 'none'", b"x-frame-options: deny", b"nosniff"):
            assert name in headers, target
        assert b"access-control-allow" not in headers
        assert b"unsafe" not in headers


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = ("href", "src", "action", "data-validate", "data-next")
        self.targets += [value for name, value in attrs if name in names and value]


def test_no_get_changes_anything(visitor: Visitor, examples: Desk) -> None:
    """Every link, and also every target of a form, of every page."""
    before = support.tree(examples.jobs)
    left = [
        f"{visitor.sessions.prefix}{path}" for path in ("/", "/jobs", *(f"/jobs/{each}" for each in EXAMPLES))
    ]
    seen: set[str] = set()
    while left:
        target = left.pop()
        url = urlsplit(target)
        if url.path + url.query in seen or url.path.endswith("/events"):
            continue
        seen.add(url.path + url.query)
        answered = visitor.client.get(target)
        assert answered.status_code < 500, target
        if answered.headers.get("content-type", "").startswith("text/html"):
            links = _Links()
            links.feed(answered.text)
            left += [urljoin(f"{ADDRESS}{target}", each).removeprefix(ADDRESS) for each in links.targets]
    assert len(seen) > len(EXAMPLES) + 20
    assert support.tree(examples.jobs) == before
