"""Refuses every request that was not made by a person who came in through a link of `logist serve`.

A port on 127.0.0.1 is open to all programs and users of the machine, and a browser sends requests to it for any web
page. So the host, the origin and a session are checked before a page is even looked up.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from logist.quick_tuple import NamedTuple
from logist.web.sessions import Sessions

MOST_BYTES = 4_000_000
"""Bytes of a request; an answer that a person writes is much smaller."""
FORM = "application/x-www-form-urlencoded"
OPEN_PATHS = ("/enter", "/static/")
"""What a browser may see without a session: the page that starts one, and files that are the same for everybody."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind} 'self'" for kind in ("script-src", "style-src", "img-src", "connect-src", "form-action")),
        *("base-uri 'none'", "frame-ancestors 'none'"),
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: with it, browsers send `Origin: null` with the page's own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class _Refusal(NamedTuple):
    status: int
    text: str


class Guard:
    """Checks each request, and adds the headers that tell browsers what the page may do."""

    def __init__(self, app: ASGIApp, sessions: Sessions, port: int) -> None:
        self._app = app
        self._sessions = sessions
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        if port == 80:
            self._hosts |= {"127.0.0.1", "localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._find_refusal(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(MutableHeaders(scope=message), scope["path"])
            await send(message)

        if refusal is not None:
            await _build_response(refusal)(scope, receive, send_with_headers)
            return
        await self._app(scope, _LimitedBody(receive).receive, send_with_headers)

    def _find_refusal(self, scope: Scope) -> _Refusal | None:
        headers = Headers(scope=scope)
        host = _get_only(headers, "host")
        if host not in self._hosts:
            names = " or ".join(sorted(self._hosts))
            return _Refusal(
                421, f"this page is at {names} only; from another machine, use ssh -L with the same port"
            )
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _Refusal(405, "only GET and POST are possible")
        if scope["method"] == "POST":
            refusal = _find_post_refusal(headers, host)
        else:
            refusal = _find_read_refusal(headers)
        if refusal is not None:
            return refusal
        scope["session"] = self._sessions.find(headers)
        if scope["session"] is None and not scope["path"].startswith(OPEN_PATHS):
            return _Refusal(401, "this browser is not signed in; to get a link: logist serve --link")
        return None


def _find_read_refusal(headers: Headers) -> _Refusal | None:
    """Another page may link to this one, but not load parts of it; another port of this machine is "the same site"."""
    is_foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    if is_foreign and headers.get("sec-fetch-mode", "navigate") != "navigate":
        return _Refusal(403, "refused: the request comes from another site")
    return None


def _find_post_refusal(headers: Headers, host: str) -> _Refusal | None:
    """Only a form of this page may change something: a browser says where a request comes from."""
    if _get_only(headers, "origin") != f"http://{host}":
        return _Refusal(403, "refused: the request doesn't come from this page")
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return _Refusal(403, "refused: the request comes from another site")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return _Refusal(415, f"refused: expected a form ({FORM})")
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()) or "transfer-encoding" in headers:
        return _Refusal(411, "refused: the request doesn't say its length")
    if len(length.lstrip("0")) > len(str(MOST_BYTES)) or int(length) > MOST_BYTES:
        return _Refusal(413, f"the form is too large: at most {MOST_BYTES:,} bytes")
    return None


def _get_only(headers: Headers, name: str) -> str:
    """Return the value of a header; "" if it is missing or there twice."""
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else ""


def _build_response(refusal: _Refusal) -> Response:
    return PlainTextResponse(refusal.text + "\n", refusal.status)


def _add_headers(headers: MutableHeaders, path: str) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    headers["Cache-Control"] = "max-age=3600" if path.startswith("/static/") else "no-store"


class _LimitedBody:
    """Ends a request whose body is larger than it said; servers check that too, but nothing here depends on it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        return message if self._size <= MOST_BYTES else {"type": "http.disconnect"}
