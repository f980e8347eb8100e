"""Clients of a model: WHAT is the client; a turn is one streamed call, with a connection of its own where the client makes one."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from measuring import PROMPT, measure_turns, read_arguments

wanted = read_arguments()
BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": PROMPT}],
    "max_tokens": 100,
    "stream": True,
    "stream_options": {"include_usage": True},
}
HEADERS = {"content-type": "application/json", "authorization": "Bearer dummy-key"}


def read_events(lines: object) -> str:
    """The text of a stream."""
    pieces = []
    for line in lines:
        text = line if isinstance(line, str) else line.decode()
        if text.startswith("data: {"):
            for choice in json.loads(text[6:])["choices"]:
                pieces.append(choice["delta"].get("content") or "")
    return "".join(pieces)


def load_standard() -> Callable[[], str]:
    """The standard library."""
    import http.client

    address = urlsplit(wanted.url)

    def call() -> str:
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        connection.request("POST", f"{address.path}/chat/completions", json.dumps(BODY), HEADERS)
        text = read_events(connection.getresponse())
        connection.close()
        return text

    return call


def load_httpx() -> Callable[[], str]:
    """httpx, one client for all calls."""
    import httpx

    client = httpx.Client()

    def call() -> str:
        with client.stream("POST", f"{wanted.url}/chat/completions", json=BODY, headers=HEADERS) as response:
            return read_events(response.iter_lines())

    return call


def load_openai() -> Callable[[], str]:
    """The openai SDK, one client for all calls."""
    import openai

    client = openai.OpenAI(base_url=wanted.url, api_key="dummy-key")

    def call() -> str:
        pieces = []
        for event in client.chat.completions.create(**BODY):
            pieces += [choice.delta.content or "" for choice in event.choices]
        return "".join(pieces)

    return call


def load_litellm() -> Callable[[], str]:
    """litellm, without looking up prices on the network."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    body = {**BODY, "model": "openai/m"}

    def call() -> str:
        pieces = []
        for event in litellm.completion(**body, api_base=wanted.url, api_key="dummy-key"):
            pieces += [choice.delta.content or "" for choice in event.choices]
        return "".join(pieces)

    return call


def load_logist() -> Callable[[], str]:
    """Logist's own client, as the process that makes the calls uses it."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from logist.agents.clients import loading
    from logist.agents.protocol import Ask, Sending
    from logist.core.model import Model, Provider, Request

    provider = Provider(name="openai", base_url=wanted.url, protocol="openai", model="m")
    model = Model(name="m", provider_model="openai/m", endpoint=wanted.url)
    ask = Ask(request=Request(prompt="p"), model=model, role="r", max_output_tokens=100, provider=provider)
    client = loading.load_client(ask)

    def call() -> str:
        pieces = []
        sending = Sending([{"role": "user", "content": PROMPT}], [], 100, False)
        assert client.call_model(ask, sending, "dummy-key", 60.0, pieces.append).tokens is not None
        return "".join(pieces)

    return call


CLIENTS = {
    "standard": load_standard,
    "httpx": load_httpx,
    "openai": load_openai,
    "litellm": load_litellm,
    "logist": load_logist,
}
make_call = CLIENTS[wanted.what]()


def take_turn() -> None:
    """A call whose answer must be there."""
    assert len(make_call()) > 40


measure_turns(take_turn, wanted.runs)
