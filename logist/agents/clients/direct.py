"""The built-in client: sends one request to a provider over HTTP, and reads its answer as a stream.

The protocols are in `chat` and `messages`; this module knows only HTTP, and what its failures mean.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from html import unescape
from http import HTTPStatus
from typing import Any, Protocol

import httpx

from logist import __version__
from logist.agents.clients import chat, messages
from logist.agents.clients.answers import (
    MAX_TEXT,
    ExchangeFailure,
    ModelAnswer,
    Tokens,
    classify_status,
    make_cut_failure,
    make_failure,
    parse_seconds,
)
from logist.agents.protocol import Ask, Sending
from logist.config.environment import Environment
from logist.core.model import Call, ErrorKind, JsonObject

CONNECT_SECONDS = 30.0
LONGEST_MESSAGE = 300
"""Characters of a server's message that are kept."""
ERROR_BYTES = 65_536
"""Bytes of an error's body that are read."""
MAX_EVENT = 4 * MAX_TEXT
"""Bytes of one event, or of an answer that is not a stream."""
MAX_BYTES = 16 * MAX_TEXT
"""Bytes of all events; the JSON around a piece of text is far longer than the piece."""

_REDIRECTS = range(300, 400)
_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\x9f\s]+")


class AnswerReader(Protocol):
    """Reads the events of one protocol; wrong types raise any exception."""

    finish: str | None
    """Why the answer ended, as chat completions name it; None until then."""
    is_over: bool
    """Whether the event that ends the stream was read."""
    error: str | None
    """The message of an error that arrived instead of the rest of the answer."""

    def read_event(self, event: JsonObject) -> Iterator[str]:
        """Read one event; yield the pieces of text in it."""
        ...

    def read_whole(self, body: JsonObject) -> Iterator[str]:
        """Read an answer that is not a stream; yield its text."""
        ...

    def count_calls(self) -> int:
        """Return how many characters the tool calls so far count for."""
        ...

    def list_calls(self) -> tuple[Call, ...]: ...

    def get_tokens(self) -> Tokens | None: ...


@dataclass(frozen=True)
class HttpRequest:
    """One request, with the key in its headers."""

    url: str
    headers: dict[str, str]
    body: JsonObject


class DirectClient:
    """Calls a model at `ask.provider`."""

    def call_model(
        self, ask: Ask, sending: Sending, api_key: str | None, timeout: float, on_text: Callable[[str], None]
    ) -> ModelAnswer:
        """Make one exchange; see `answers.Client`."""
        assert ask.provider is not None
        if api_key and not (api_key.isascii() and api_key.isprintable()):
            message = f"the key in {ask.model.api_key_env} has characters that can't be sent; set it again"
            return ModelAnswer(failure=make_failure(ErrorKind.AUTH, message, billed=False))
        reader: AnswerReader = (
            messages.MessageReader() if ask.provider.protocol == "anthropic" else chat.ChatReader()
        )
        exchange = _Exchange(ask, _build_request(ask, sending, api_key), reader, on_text)
        return exchange.run(timeout)


def _build_request(ask: Ask, sending: Sending, api_key: str | None) -> HttpRequest:
    provider = ask.provider
    assert provider is not None
    protocol = messages if provider.protocol == "anthropic" else chat
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",  # nothing to gain for small events, and no bomb to unpack
        "user-agent": f"logist/{__version__}",
        **protocol.build_headers(api_key),
    }
    return HttpRequest(protocol.build_url(provider.base_url), headers, protocol.build_body(ask, sending))


@dataclass
class _Exchange:
    """One request and its answer."""

    ask: Ask
    request: HttpRequest
    reader: AnswerReader
    on_text: Callable[[str], None]
    size: int = 0
    """Characters of text so far."""
    has_begun: bool = False
    """Whether the server began to answer with success: from then on, a failure may be billed."""

    def run(self, timeout: float) -> ModelAnswer:
        limits = httpx.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout))
        try:
            body = json.dumps(self.request.body, ensure_ascii=False).encode("utf-8", "replace")
            with (
                httpx.Client(verify=_get_tls(self.request.url), timeout=limits) as client,
                client.stream(
                    "POST", self.request.url, headers=self.request.headers, content=body
                ) as response,
            ):
                if not response.is_success:
                    return ModelAnswer(failure=self._read_refusal(response))
                self.has_begun = True
                self._read_answer(response)
        except Exception as error:  # noqa: BLE001  a server can send anything; `answers.Client` never raises
            if self.reader.finish is None:
                return ModelAnswer(failure=self._classify_error(error))
            # The answer is complete; only what follows it, as its usage, is missing.
        return self._build_answer()

    def _read_answer(self, response: httpx.Response) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            data = b"".join(_take_bytes(response.iter_bytes(), MAX_EVENT))
            body = json.loads(data.decode("utf-8", "replace"))
            self._pass_on(self.reader.read_whole(body))
            return
        if kind == "text/html":
            page = b"".join(_cut_bytes(response.iter_bytes(), ERROR_BYTES)).decode("utf-8", "replace")
            raise NotAnAnswer(f"a web page instead of an answer ({_clean(_get_page_title(page))})")
        for event in iter_events(_take_bytes(response.iter_bytes(), MAX_BYTES)):
            if event == "[DONE]":
                return
            self._pass_on(self.reader.read_event(json.loads(event)))
            if self.reader.is_over or self.reader.error is not None:
                return

    def _pass_on(self, pieces: Iterator[str]) -> None:
        for text in pieces:
            self.size += len(text)
            self.on_text(text)
        if self.size + self.reader.count_calls() > MAX_TEXT:
            self.reader.finish = None
            raise OverflowError(f"the answer is longer than {MAX_TEXT:,} characters")

    def _build_answer(self) -> ModelAnswer:
        reader = self.reader
        if reader.error is not None:
            message = f"the answer ended with an error: {_clean(reader.error)}"
            return ModelAnswer(failure=make_cut_failure(self._add_address(message)))
        if not reader.finish:
            message = "the answer ended without a finish reason"
            return ModelAnswer(failure=make_cut_failure(self._add_address(message)))
        return ModelAnswer(tokens=reader.get_tokens(), finish=reader.finish, calls=reader.list_calls())

    def _read_refusal(self, response: httpx.Response) -> ExchangeFailure:
        status = response.status_code
        try:
            said = b"".join(_cut_bytes(response.iter_bytes(), ERROR_BYTES)).decode("utf-8", "replace")
        except httpx.HTTPError:
            said = ""
        phrase = HTTPStatus(status).phrase if status in list(HTTPStatus) else ""
        message = f"{status} {phrase}".strip()
        if status in _REDIRECTS:
            target = _describe_address(str(response.headers.get("location", "")))
            message += f": redirects to {target}, which Logist does not follow with a key"
        elif text := _clean(_get_error_message(said)):
            message += f": {text}"
        if advice := self._advise(status, said):
            message += f"; {advice}"
        wait = parse_seconds(response.headers.get("retry-after"))
        return classify_status(status, self._add_address(message), wait)

    def _advise(self, status: int, said: str) -> str:
        """Return which setting to change, "" if none."""
        model, provider = self.ask.model, self.ask.provider
        assert provider is not None
        address = f"models.{model.name}.endpoint" if model.endpoint else f"providers.{provider.name}.base_url"
        if status in (401, 403) and model.api_key_env:
            return f"check that {model.api_key_env} holds a key of {provider.name}"
        if status in (401, 403):
            return f"set models.{model.name}.api_key_env to the variable with the key"
        if status in _REDIRECTS or status == 405 or "<html" in said[:2000].lower():
            return f"check {address}"
        if status == 404:
            return f"check the model `{provider.model}` and {address}"
        return ""

    def _classify_error(self, error: Exception) -> ExchangeFailure:
        detail = _clean(str(error)) or type(error).__name__
        message = self._add_address(detail)
        if self.has_begun:
            if isinstance(error, httpx.TimeoutException):
                return make_failure(ErrorKind.TIMEOUT, message, billed=True)
            if isinstance(error, NotAnAnswer):
                advice = self._advise(200, "<html")
                return make_failure(ErrorKind.BAD_REQUEST, f"{message}; {advice}", billed=True)
            return make_cut_failure(message)
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            message = f"can't connect to {_describe_address(self.request.url)}: {detail}"
            return make_failure(ErrorKind.REFUSED, message, billed=False)
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError | httpx.InvalidURL):
            return make_failure(ErrorKind.BAD_REQUEST, message, billed=False)
        if isinstance(error, httpx.TimeoutException):
            return make_failure(ErrorKind.TIMEOUT, message, billed=True)
        if isinstance(error, httpx.HTTPError):
            return make_cut_failure(message)
        return make_failure(ErrorKind.BAD_REQUEST, message, billed=False)  # before anything was sent

    def _add_address(self, message: str) -> str:
        return f"{_describe_address(self.request.url)}: {message}"


class NotAnAnswer(Exception):
    """The server answered with success, but not with an answer of a model."""


def preload() -> None:
    """Load what a call needs besides the imports, for the fork server."""
    _get_tls("https://")


def _get_tls(url: str) -> ssl.SSLContext:
    known = Environment.from_process().build_child_environment()
    if not url.startswith("https:") and not known.keys() & {"HTTP_PROXY", "http_proxy"}:
        # Loading certificates takes longer than the rest of a local call, and redirects are not followed.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return _create_tls(known.get("SSL_CERT_FILE"), known.get("SSL_CERT_DIR"))


@cache
def _create_tls(file: str | None, directory: str | None) -> ssl.SSLContext:
    """Return the certificates to trust. The arguments are for the cache: httpx reads these variables itself."""
    return httpx.create_ssl_context()


def iter_events(pieces: Iterator[bytes]) -> Iterator[str]:
    """Yield the data of each server-sent event; comments and other fields are skipped."""
    data: list[str] = []
    for line in _iter_lines(pieces):
        if line.startswith(b"data:"):
            data.append(line[5:].decode("utf-8", "replace").removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
    if data:
        yield "\n".join(data)


def _iter_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines without their ends, which are LF or CRLF."""
    begun: list[bytes] = []
    length = 0
    for piece in pieces:
        *lines, rest = piece.split(b"\n")
        for line in lines:
            yield b"".join([*begun, line]).removesuffix(b"\r")
            begun, length = [], 0
        begun.append(rest)
        length += len(rest)
        if length > MAX_EVENT:
            raise OverflowError(f"an event is longer than {MAX_EVENT:,} bytes")
    if last := b"".join(begun):
        yield last.removesuffix(b"\r")


def _take_bytes(pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield the pieces; raise OverflowError if they are longer than `most` bytes."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most:
            raise OverflowError(f"the answer is longer than {most:,} bytes")
        yield piece


def _cut_bytes(pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield the pieces until there are `most` bytes."""
    size = 0
    for piece in pieces:
        yield piece[: most - size]
        size += len(piece)
        if size >= most:
            return


def _get_error_message(body: str) -> str:
    """Return the server's own words from the body of an error."""
    try:
        return _find_message(json.loads(body)) or body
    except (ValueError, RecursionError):
        return _get_page_title(body)


def _find_message(said: Any) -> str:
    """Return the message in a JSON error, "" if none of the usual places has one."""
    if isinstance(said, list):
        return "; ".join(filter(None, map(_find_message, said[:3])))
    if isinstance(said, str):
        return said
    if not isinstance(said, dict):
        return ""
    for name in ("error", "message", "detail", "msg"):
        if found := _find_message(said.get(name)):
            return found
    return ""


def _get_page_title(page: str) -> str:
    title = _TITLE.search(page)
    return unescape(title[1] if title else _TAGS.sub(" ", page))


def _clean(text: str) -> str:
    """Return one line that can be printed."""
    line = _UNPRINTABLE.sub(" ", text).strip()
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1] + "…"


def _describe_address(url: str) -> str:
    """Return the address without a query, which may contain a key."""
    return _clean(url.partition("?")[0].partition("#")[0]) or "an empty address"
