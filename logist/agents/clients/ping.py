"""Tests whether a model answers: connects to its address, or sends it the smallest request."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

from logist.agents.clients.direct import DirectClient
from logist.agents.protocol import Ask, Sending
from logist.core.model import Model, Provider, Request, TransportError
from logist.quick_dataclass import dataclass

TEXT = "Say ok."
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Pong:
    """The result of one small request."""

    seconds: float
    error: TransportError | None
    """None if the model answered."""


def find_connection_problem(url: str) -> str | None:
    """Return why nothing listens at an address; None if something does. Sends nothing."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), CONNECT_SECONDS):
            return None
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__


def ping_model(model: Model, provider: Provider, api_key: str | None) -> Pong:
    """Send a request for an answer of one token, without retries."""
    message = {"role": "user", "content": TEXT}
    ask = Ask(request=Request(prompt=TEXT), model=model, role="", max_output_tokens=1, provider=provider)
    began = time.monotonic()
    answer = DirectClient().call_model(
        ask, Sending([message], (), 1), api_key, ANSWER_SECONDS, lambda text: None
    )
    return Pong(time.monotonic() - began, answer.failure.error if answer.failure else None)
