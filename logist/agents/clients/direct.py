"""The built-in client: sends one request to a provider over HTTP, and reads its answer as a stream.

The protocols are in `chat` and `messages`; this module knows only HTTP, and what its failures mean.
"""

from __future__ import annotations

import itertools
import json
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from html import unescape
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import httpx

from logist import __version__, systems
from logist.agents.clients import chat, messages
from logist.agents.clients.answers import (
    MAX_TEXT,
    ExchangeFailure,
    ModelAnswer,
    Tokens,
    classify_status,
    find_missing_key,
    make_cut_failure,
    make_failure,
    parse_seconds,
)
from logist.agents.clients.event_stream import EventSplitter
from logist.agents.protocol import Ask, Sending
from logist.config.environment import Environment
from logist.core.model import Call, ErrorKind, JsonObject
from logist.core.secrets.redact import redact
from logist.quick_dataclass import dataclass

CONNECT_SECONDS = 30.0
LONGEST_MESSAGE = 300
"""Characters of a server's message that are kept."""
ERROR_BYTES = 16_384
"""Bytes of an error's body that are read."""
MAX_EVENT = 4 * MAX_TEXT
"""Bytes of one event, or of an answer that is not a stream."""
MAX_BYTES = 16 * MAX_TEXT
"""Bytes of all events; the JSON around a piece of text is far longer than the piece."""

_REDIRECTS = range(300, 400)
_WRONG_PLACE = frozenset({404, 405, 426, 501, 505})
"""Statuses of a server that doesn't have what is asked for at this address, or in this protocol."""
_ABOUT_KEYS = re.compile(r"\b(api|access|auth)[ _-]?(key|token)|credential|unauthori[sz]ed", re.IGNORECASE)
_ABOUT_MODELS = re.compile(r"\bmodels?\b", re.IGNORECASE)
_ABOUT_VERSIONS = re.compile(r"\bversion\b", re.IGNORECASE)
_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_USER = re.compile(r"(?<=//)[^/?#]*@")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\x9f\s\ud800-\udfff]+")


class AnswerReader(Protocol):
    """Reads the events of one protocol; wrong types raise any exception."""

    finish: str | None
    """Why the answer ended, as chat completions name it; None until then."""
    is_over: bool
    """Whether the event that ends the stream was read."""
    error: str | None
    """The message of an error that arrived instead of the rest of the answer."""
    is_recognized: bool
    """Whether anything arrived that belongs to this protocol."""

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
        if missing := find_missing_key(ask, api_key):
            return ModelAnswer(failure=missing)
        reader: AnswerReader = (
            messages.MessageReader() if ask.provider.protocol == "anthropic" else chat.ChatReader()
        )
        secrets = [api_key] if api_key else []
        exchange = HttpExchange(ask, _build_request(ask, sending, api_key), reader, on_text, secrets)
        answer = exchange.run(timeout)
        return _take_form(answer, sending, on_text) if sending.form else answer


def _take_form(answer: ModelAnswer, sending: Sending, on_text: Callable[[str], None]) -> ModelAnswer:
    """Return the answer with the input of the tool that the model was made to call as its text."""
    assert sending.form is not None
    forms = [call for call in answer.calls if call.name == sending.form["name"]]
    if not forms:
        return answer
    on_text("\n".join(call.arguments for call in forms))
    finish = "stop" if answer.finish == "tool_calls" else answer.finish
    return replace(answer, calls=(), finish=finish)


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
class HttpExchange:
    """One request and its answer; also knows what the failures of another one with the same provider mean."""

    ask: Ask
    request: HttpRequest
    reader: AnswerReader
    on_text: Callable[[str], None]
    secrets: list[str]
    """The key: a server may repeat it in its message."""
    size: int = 0
    """Characters of text so far."""
    received: int = 0
    """Bytes of the answer so far."""
    has_begun: bool = False
    """Whether the server began to answer with success: from then on, a failure may be billed."""
    status: str = ""
    """The status of the answer with its phrase."""

    def run(self, timeout: float) -> ModelAnswer:
        limits = httpx.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout))
        try:
            body = json.dumps(self.request.body, ensure_ascii=False).encode("utf-8", "replace")
            with (
                open_client(self.request.url, limits) as client,
                client.stream(
                    "POST", self.request.url, headers=self.request.headers, content=body
                ) as response,
            ):
                self.status = describe_status(response.status_code)
                if not response.is_success:
                    return ModelAnswer(failure=self._read_refusal(response))
                self.has_begun = True
                self._read_answer(response)
        except Exception as error:  # noqa: BLE001  a server can send anything; `answers.Client` never raises
            if self.reader.finish is None:
                return ModelAnswer(failure=self.classify_error(error))
            # The answer is complete; only what follows it, as its usage, is missing.
        return self.build_answer()

    def _read_answer(self, response: httpx.Response) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            data = b"".join(self._take_bytes(response, MAX_EVENT))
            self._pass_on(self.reader.read_whole(_parse_object(data.decode("utf-8", "replace"))))
            return
        if kind == "text/html":
            page = b"".join(_cut_bytes(response.iter_bytes(), ERROR_BYTES)).decode("utf-8", "replace")
            title = self._clean(_get_page_title(page))
            raise NotAnAnswer(f"{self.status}: a web page instead of an answer ({title})")
        for event in iter_events(self._take_bytes(response, MAX_BYTES)):
            if event == "[DONE]":
                return
            self._pass_on(self.reader.read_event(_parse_object(event)))
            if self.reader.is_over or self.reader.error is not None:
                return

    def _take_bytes(self, response: httpx.Response, most: int) -> Iterator[bytes]:
        """Yield the bytes of the answer; raise OverflowError if there are more than `most`."""
        for piece in response.iter_bytes():
            self.received += len(piece)
            if self.received > most:
                raise OverflowError(f"the answer is longer than {most:,} bytes")
            yield piece

    def _pass_on(self, pieces: Iterator[str]) -> None:
        for text in pieces:
            self.size += len(text)
            self.on_text(text)
        if self.size + self.reader.count_calls() > MAX_TEXT:
            self.reader.finish = None
            raise OverflowError(f"the answer is longer than {MAX_TEXT:,} characters")

    def build_answer(self) -> ModelAnswer:
        """Return the answer that the reader has read, or why it isn't complete."""
        reader = self.reader
        if reader.error is not None:
            message = f"the answer ended with an error: {self._clean(reader.error)}"
            return ModelAnswer(failure=make_cut_failure(self._add_address(message)))
        if not reader.finish:
            message = self._describe_other_protocol() or "the answer ended without a finish reason"
            return ModelAnswer(failure=make_cut_failure(self._add_address(message)))
        return ModelAnswer(tokens=reader.get_tokens(), finish=reader.finish, calls=reader.list_calls())

    def _read_refusal(self, response: httpx.Response) -> ExchangeFailure:
        try:
            said = b"".join(_cut_bytes(response.iter_bytes(), ERROR_BYTES)).decode("utf-8", "replace")
        except httpx.HTTPError:
            said = ""
        return self.classify_refusal(response, said)

    def classify_refusal(self, response: httpx.Response, said: str) -> ExchangeFailure:
        """Return the failure for an answer with another status than success; `said`: the begin of its body."""
        status = response.status_code
        message = self.status
        if status in _REDIRECTS:
            target = _describe_address(str(response.headers.get("location", "")))
            message += f": redirects to {target}, which Logist does not follow with a key"
        elif text := self._clean(_get_error_message(said)):
            message += f": {text}"
        if advice := self._advise(status, said):
            message += f"; {advice}"
        wait = parse_seconds(response.headers.get("retry-after"), response.headers.get("date"))
        return classify_status(status, self._add_address(message), wait)

    def _advise(self, status: int, said: str) -> str:
        """Return which setting to change after a refusal, "" if none."""
        model, provider = self.ask.model, self.ask.provider
        assert provider is not None
        if "<html" in said[:2000].lower():
            return self._advise_about_address()
        if status in (401, 403) or (status == 400 and _ABOUT_KEYS.search(said)):
            if model.api_key_env:
                return f"check that {model.api_key_env} holds a key of {provider.name}"
            return f"set {self._get_setting('api_key_env')} to the variable with the key"
        if status == 407:
            return f"check the user and password in {_find_proxy_variable(self.request.url) or 'HTTPS_PROXY'}"
        if status in (400, 404, 422) and (provider.model in said or _ABOUT_MODELS.search(said)):
            return f"check the model `{provider.model}`" + (
                "" if status != 404 else f" and {self._get_setting()}"
            )
        if status in _REDIRECTS:
            return self._advise_about_address()
        if status in _WRONG_PLACE or (status == 400 and _ABOUT_VERSIONS.search(said)):
            return self._advise_about_address(f"providers.{provider.name}.protocol")
        return ""

    def _get_setting(self, field: str = "base_url") -> str:
        """Return the name of the setting of a provider, or of a model with a separate address."""
        model, provider = self.ask.model, self.ask.provider
        assert provider is not None
        if model.endpoint:
            return f"models.{model.name}.{'endpoint' if field == 'base_url' else field}"
        return f"providers.{provider.name}.{field}"

    def _advise_about_address(self, *more: str) -> str:
        proxy = _find_proxy_variable(self.request.url)
        return "check " + " and ".join(
            [self._get_setting(), *more, *([f"the proxy in {proxy}"] if proxy else [])]
        )

    def _describe_other_protocol(self) -> str:
        """Return the message for an answer that is empty or has nothing of the expected protocol; "" for others."""
        assert self.ask.provider is not None
        if self.reader.is_recognized:
            return ""
        if not self.received:
            return f"{self.status}: the answer is empty; {self._advise_about_address()}"
        protocol = self.ask.provider.protocol
        advice = self._advise_about_address(f"providers.{self.ask.provider.name}.protocol")
        return f"{self.status}: nothing in the answer is of the protocol `{protocol}`; {advice}"

    def classify_error(self, error: Exception) -> ExchangeFailure:
        """Return the failure for an exception, by whether the answer had begun."""
        detail = self._clean(str(error)) or type(error).__name__
        if self.has_begun and not isinstance(error, httpx.HTTPError | NotAnAnswer | OverflowError):
            unexpected = f"the answer has an unexpected form ({type(error).__name__}: {detail})"
            detail = self._describe_other_protocol() or unexpected
        message = self._add_address(detail)
        if self.has_begun:
            if isinstance(error, httpx.TimeoutException):
                return make_failure(ErrorKind.TIMEOUT, message, billed=True)
            if isinstance(error, NotAnAnswer):
                message += f"; {self._advise_about_address()}"
                return make_failure(ErrorKind.BAD_REQUEST, message, billed=True)
            return make_cut_failure(message)
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            # What TLS or a proxy refuses stays refused until a person changes it; the rest may pass.
            is_config = "[SSL:" in detail or isinstance(error, httpx.ProxyError)
            kind = ErrorKind.REFUSED if is_config else ErrorKind.OUTAGE
            return make_failure(kind, self._explain_no_connection(detail), billed=False)
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError | httpx.InvalidURL):
            message += f"; {self._advise_about_address()}"
            return make_failure(ErrorKind.BAD_REQUEST, message, billed=False)
        if isinstance(error, httpx.TimeoutException):
            return make_failure(ErrorKind.TIMEOUT, message, billed=True)
        if isinstance(error, httpx.HTTPError):
            return make_cut_failure(message)
        return make_failure(ErrorKind.BAD_REQUEST, message, billed=False)  # before anything was sent

    def _explain_no_connection(self, detail: str) -> str:
        if "CERTIFICATE_VERIFY_FAILED" in detail:
            advice = (
                "if you trust this server, set SSL_CERT_FILE to a file with the certificate of its authority"
            )
        else:
            advice = self._advise_about_address()
        if "Connection refused" in detail:  # as from ollama that is not running
            advice = f"start the server, or {advice}"
        return f"can't connect to {_describe_address(self.request.url)}: {detail}; {advice}"

    def _clean(self, text: str) -> str:
        # Before the text is cut: a part of the key would not be recognized later.
        return _clean(redact(text, self.secrets)[0])

    def _add_address(self, message: str) -> str:
        return f"{_describe_address(self.request.url)}: {message}"


class NotAnAnswer(Exception):
    """The server answered with success, but not with an answer of a model."""


def preload() -> None:
    """Load what a call needs besides the imports, for the fork server: nothing is sent."""
    get_tls("https://")
    get_tls("http://")
    with httpx.Client(transport=httpx.MockTransport(_answer_nothing), verify=get_tls("http://")) as client:
        client.post("http://localhost/", json={}, headers={"accept": "text/event-stream"})
    for encoding in ("idna", "utf-16-le"):
        "".encode(encoding)


def _answer_nothing(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, stream=httpx.ByteStream(b""))


def open_client(url: str, limits: httpx.Timeout | float) -> httpx.Client:
    """Return a client for an address.

    httpx takes the proxies of the system settings of macOS without their exceptions, and would send a proxy what is for this machine.
    """
    asks_system = not systems.IS_LINUX and not getproxies_environment()
    is_direct = asks_system and _is_exception(urlsplit(url).hostname or "")
    return httpx.Client(verify=get_tls(url), timeout=limits, trust_env=not is_direct)


def _is_exception(host: str) -> bool:
    from logist.config.sections import THIS_MACHINE  # a slow import, which only macOS needs

    return host in THIS_MACHINE or bool(proxy_bypass(host))


def get_tls(url: str) -> ssl.SSLContext:
    """Return the certificates to trust at an address."""
    known = Environment.from_process().build_child_environment()
    if not url.startswith("https:") and not known.keys() & {"HTTP_PROXY", "http_proxy"}:
        return _create_empty_tls()
    return _create_tls(known.get("SSL_CERT_FILE"), known.get("SSL_CERT_DIR"))


@cache
def _create_empty_tls() -> ssl.SSLContext:
    """Return a context without certificates, for addresses without TLS: loading certificates takes longer than the rest
    of a local call, and redirects are not followed.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@cache
def _create_tls(file: str | None, directory: str | None) -> ssl.SSLContext:
    """Return the certificates to trust. The arguments are for the cache: httpx reads these variables itself."""
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        variable = "SSL_CERT_FILE" if file else "SSL_CERT_DIR"
        raise ValueError(
            f"can't read the certificates in {variable} ({file or directory}): {error}"
        ) from error


def iter_events(pieces: Iterator[bytes]) -> Iterator[str]:
    """Yield the data of each server-sent event; comments, other fields and events without data are skipped."""
    splitter = EventSplitter(MAX_EVENT)
    for events in itertools.chain(map(splitter.feed, pieces), [splitter.finish()]):
        for event in events:
            if event.data:
                yield event.data


def _parse_object(text: str) -> JsonObject:
    """Return a JSON object. Raises ValueError, TypeError or RecursionError for anything else."""
    parsed = json.loads(text)
    if not isinstance(parsed, dict):
        raise TypeError(f"expected a JSON object, got {type(parsed).__name__}")
    return parsed


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


def describe_status(status: int) -> str:
    """Return a status with its phrase."""
    return f"{status} {HTTPStatus(status).phrase}" if status in list(HTTPStatus) else str(status)


def _find_proxy_variable(url: str) -> str:
    """Return the name of the variable that sets the proxy for an address, "" if none does."""
    known = Environment.from_process().build_child_environment()
    scheme, _, rest = url.partition("://")
    names = [spelled for name in (f"{scheme}_proxy", "all_proxy") for spelled in (name, name.upper())]
    variable = next((name for name in names if known.get(name)), "")
    return "" if variable and proxy_bypass(rest.partition("/")[0]) else variable


def _clean(text: str) -> str:
    """Return one line that can be printed."""
    line = _UNPRINTABLE.sub(" ", text).strip()
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1] + "…"


def _describe_address(url: str) -> str:
    """Return the address without a user, password and query, which may contain a key."""
    return _clean(_USER.sub("", url).partition("?")[0].partition("#")[0]) or "an empty address"
