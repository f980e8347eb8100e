"""Stands in for the litellm package: the same request and the same objects, but it loads immediately.

It has only what `logist.agents.clients.litellm` uses. `tests/torture/test_standin.py` compares it with the real one.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]

# `load` imports what the real package needs at its first call, which takes longer than all the rest.
for _late in ("openai", "httpcore"):
    sys.modules[_late] = None  # type: ignore[assignment]  # an import of it fails at once

ASKED = ("model", "messages", "temperature", "max_tokens", "stream", "stream_options", "tools", "tool_choice")


class ConnectError(Exception):
    """The server could not be reached."""


class ReadTimeout(Exception):
    """No more data arrived in time; recognized by the name of its base class, as with httpx."""


class TimeoutException(ReadTimeout):
    """The name that Logist looks for."""


class RemoteProtocolError(Exception):
    """The connection ended too early."""


class HTTPStatusError(Exception):
    """The provider refused the request, with a status."""

    def __init__(self, message: str, response: SimpleNamespace) -> None:
        super().__init__(message)
        self.response = response


class BadRequestError(Exception):
    """The provider of a model is unknown."""


def get_llm_provider(model: str, api_base: str | None) -> tuple[str, str, None, str | None]:
    """Return the provider of a model: only the one that the loopback server imitates is known."""
    provider, _, name = model.partition("/")
    if provider != "openai":
        raise BadRequestError(f"LLM Provider NOT provided: {model}")
    return name, provider, None, api_base


class Stream:
    """Yield the pieces of an answer as they arrive, then the usage."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response
        self.received_finish_reason: str | None = None
        self.chunks: list[SimpleNamespace] = []

    def __iter__(self) -> Iterator[SimpleNamespace]:
        for event in self._events():
            chunk = _chunk(event)
            self.chunks.append(chunk)
            for choice in chunk.choices:
                self.received_finish_reason = choice.finish_reason or self.received_finish_reason
            yield chunk

    def _events(self) -> Iterator[Json]:
        for line in self._lines():
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                yield json.loads(line.removeprefix(b"data: "))

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        while piece := self._piece():
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines

    def _piece(self) -> bytes:
        # Don't read by lines: http.client would treat a chunk that is cut off as the end.
        try:
            return self.response.read1(65536)
        except http.client.IncompleteRead as error:
            message = "peer closed connection without sending complete message body (incomplete chunked read)"
            raise RemoteProtocolError(message) from error
        except TimeoutError as error:
            raise TimeoutException("The read operation timed out") from error


def completion(*, model: str, api_base: str, api_key: str, timeout: float, **more: Any) -> Stream:
    """Send the request over HTTP; return when the status has arrived."""
    place = urlsplit(api_base)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=timeout)
    asked = {"model": model.partition("/")[2], **more}
    body = json.dumps({name: asked[name] for name in ASKED if name in asked})
    headers = {"content-type": "application/json", "authorization": f"Bearer {api_key}"}
    try:
        connection.connect()
    except OSError as error:
        raise ConnectError(str(error)) from error
    return Stream(_asked(connection, f"{place.path}/chat/completions", body, headers))


def _asked(
    connection: http.client.HTTPConnection, path: str, body: str, headers: dict[str, str]
) -> http.client.HTTPResponse:
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
    except http.client.RemoteDisconnected as error:
        raise RemoteProtocolError("Connection error.") from error
    except TimeoutError as error:
        raise TimeoutException("Request timed out.") from error
    if response.status != 200:
        message = json.loads(response.read())["error"]["message"]
        told = SimpleNamespace(status_code=response.status, headers=response.headers)
        raise HTTPStatusError(message, told)
    return response


def _chunk(event: Json) -> SimpleNamespace:
    usage = event.get("usage")
    choices = [_choice(choice) for choice in event["choices"]]
    return SimpleNamespace(choices=choices, usage=_object(usage) if usage else None)


def _object(told: Json) -> SimpleNamespace:
    values = {name: _object(value) if isinstance(value, dict) else value for name, value in told.items()}
    return SimpleNamespace(**values)


def _choice(choice: Json) -> SimpleNamespace:
    called = [_call(call) for call in choice["delta"].get("tool_calls", ())]
    delta = SimpleNamespace(content=choice["delta"].get("content"), tool_calls=called)
    return SimpleNamespace(delta=delta, finish_reason=choice.get("finish_reason"))


def _call(piece: Json) -> SimpleNamespace:
    function = SimpleNamespace(**{"name": None, "arguments": None, **piece["function"]})
    return SimpleNamespace(index=piece["index"], id=piece.get("id"), function=function)
