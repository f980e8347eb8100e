"""Sends spans to a receiver of OTLP over HTTP, in JSON.

Source: the OTLP specification (OTLP/HTTP), and the environment variables of the OpenTelemetry specification.
"""

from __future__ import annotations

import email.utils
import json
import random
import time
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

import httpx

from logist.agents.clients.direct import open_client
from logist.core.model import JsonObject
from logist.core.text.counts import format_count
from logist.errors import ProviderError, UsageError
from logist.lazy_patterns import compile_on_use
from logist.quick_tuple import NamedTuple
from logist.version import __version__

SECONDS = 10.0
"""How long a receiver may take for one request."""
TRIES = 5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
REPEATED = frozenset({429, 502, 503, 504})
"""Statuses after which the same request is sent again, by the specification. The ids of spans are the same, so nothing is there twice."""
LONGEST_ANSWER = 1 << 20
LONGEST_MESSAGE = 300
"""Characters of what a receiver says that are displayed."""
_NAME = compile_on_use(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_USER = compile_on_use(r"(?<=//)[^/?#]*@")


class Receiver(NamedTuple):
    """Where spans are sent."""

    url: str
    headers: Mapping[str, str]


def read_receiver(endpoint: str, headers: str | None, *, is_complete: bool = False) -> Receiver:
    """Return the receiver at an address. Raises UsageError.

    `is_complete`: the address has its path already, as the one of OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. `headers`: in the form of
    OTEL_EXPORTER_OTLP_HEADERS, `name=value,name=value`, with percent escapes.
    """
    try:
        parts = urlsplit(endpoint)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        is_usable = False
    if not is_usable or "#" in endpoint or ("?" in endpoint and not is_complete):
        # The address can have a password in front of the host.
        shown = _USER.sub("", endpoint)
        raise UsageError(
            f"not the address of a receiver: {shown}", fix="use an address such as http://127.0.0.1:4318"
        )
    url = endpoint if is_complete else f"{endpoint.rstrip('/')}/v1/traces"
    pairs = [pair.partition("=") for pair in (headers or "").split(",") if pair.strip()]
    known = {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs}
    if not all(sign for _, sign, _ in pairs) or not all(map(_is_header, known, known.values())):
        raise UsageError("OTEL_EXPORTER_OTLP_HEADERS: not a list of headers", fix="use name=value,name=value")
    return Receiver(url, known)


def _is_header(name: str, value: str) -> bool:
    return _NAME.fullmatch(name) is not None and value.isascii() and (value.isprintable() or not value)


class SpanSender:
    """A connection to a receiver."""

    def __init__(self, receiver: Receiver, sleep: Callable[[float], None] = time.sleep) -> None:
        self._receiver, self._sleep = receiver, sleep
        self._client = open_client(receiver.url, SECONDS)
        self.rejected = 0
        """Spans that the receiver did not take."""
        self.message = ""
        """What it said about that; without rejected spans, a warning."""
        self.requests = 0
        """Requests that it took."""

    def __enter__(self) -> SpanSender:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(self, request: JsonObject) -> None:
        """Send one request, several times if the receiver is busy. Raises ProviderError if it doesn't take it."""
        body = json.dumps(request, separators=(",", ":")).encode()
        for left in reversed(range(TRIES)):
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (TRIES - 1 - left)) * random.uniform(0.5, 1.0)  # noqa: S311
            try:
                response = self._client.post(self._receiver.url, content=body, headers=self._build_headers())
            except (
                httpx.UnsupportedProtocol,
                httpx.LocalProtocolError,
                httpx.InvalidURL,
                ValueError,
            ) as error:
                raise self._build_error(f"not a request: {type(error).__name__}") from error
            except httpx.HTTPError as error:
                if not left:
                    raise self._build_error(f"no answer: {str(error) or type(error).__name__}") from error
            else:
                if response.is_success:
                    self.requests += 1
                    self._read_success(response)
                    return
                if response.status_code not in REPEATED or not left:
                    said = _read_message(response)
                    status = f"it answered {response.status_code} {response.reason_phrase}".strip()
                    raise self._build_error(f"{status}{f': {said}' if said else ''}")
                pause = max(pause, min(LONGEST_PAUSE, _read_retry_after(response.headers.get("retry-after"))))
            self._sleep(pause)

    def _build_headers(self) -> dict[str, str]:
        about = {"content-type": "application/json", "user-agent": f"logist/{__version__}"}
        return {**about, **self._receiver.headers}

    def _read_success(self, response: httpx.Response) -> None:
        try:
            answer = json.loads(response.content[:LONGEST_ANSWER])
            partial = answer.get("partialSuccess") or {}
            rejected = int(partial.get("rejectedSpans") or 0)
        except (ValueError, AttributeError, TypeError, RecursionError):
            return  # taken, whatever else it says: some receivers answer in protobuf or not at all
        self.rejected += max(0, rejected)
        self.message = str(partial.get("errorMessage") or self.message)[:LONGEST_MESSAGE]

    def _build_error(self, why: str) -> ProviderError:
        fix = "check the address and the receiver, then run the command again: spans that it has already keep their ids"
        if self.requests:
            why += f"; it took {format_count(self.requests, 'request')} before"
        return ProviderError(
            f"can't send spans to {urlsplit(self._receiver.url).netloc.rpartition('@')[2]}: {why}", fix=fix
        )

    def describe_warning(self) -> str:
        """Return what the receiver said although it took all spans; "" for nothing."""
        return self.message if not self.rejected else ""

    def describe_rejection(self) -> str:
        """Return which spans the receiver did not take, as text; "" if it took all."""
        if not self.rejected:
            return ""
        return f"the receiver did not take {format_count(self.rejected, 'span')}{f': {self.message}' if self.message else ''}"


def _read_message(response: httpx.Response) -> str:
    """Return what a receiver says about a refusal, in its JSON; "" if it says nothing that can be read."""
    try:
        said = json.loads(response.content[:LONGEST_ANSWER])["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return str(said)[:LONGEST_MESSAGE]


def _read_retry_after(text: str | None) -> float:
    """Return the seconds of a `Retry-After`, in either of its forms; 0 for anything else."""
    try:
        return max(0.0, float(text or 0))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text or "").timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
