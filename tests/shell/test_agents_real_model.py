"""The built-in client with llama.cpp's own server and a small model, and beside the clients that two providers publish."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from logist.agents.protocol import AgentWork, ToolTurn
from logist.core.model import ErrorKind, Request
from tests import support
from tests.model_server import CONTEXT, KEY, ModelServer, require_environment
from tests.raw_server import Answer, RawServer
from tests.shell.test_agents_direct import (
    EXPECTED,
    WHOLE,
    Called,
    Json,
    answering,
    call_model,
    chunked,
    make_ask,
    stream,
    summarize,
)

pytestmark = pytest.mark.deep
PROTOCOLS = ("openai", "anthropic")
PROBE = support.ROOT / "tests" / "sdk_probe.py"
PATHS = ("hello.txt", "src/lib.rs")


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def say(server: ModelServer, protocol: str, prompt: str, tokens: int, **more: object) -> Called:
    """Make one exchange with the small model; at this temperature it says the same each time."""
    turns: Sequence[ToolTurn] = more.pop("turns", ())  # type: ignore[assignment]
    request = Request(prompt=prompt)
    ask = make_ask(server.url, protocol, request=request, max_output_tokens=tokens, temperature=0.0, **more)
    return call_model(ask, KEY, turns=turns)


def ask_official_clients(requests: list[tuple[str, str, str, Json]], home: Path) -> list[Json]:
    """Return what the client of each provider makes of the answers."""
    done = subprocess.run(
        [str(require_environment()), str(PROBE)],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        cwd=home,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: list[Json] = json.loads(done.stdout)
    return results


def describe(called: Called) -> Json:
    """Return an answer in the words of `sdk_probe`."""
    text, finish, calls, tokens = summarize(called).values()
    read, written, cached, _, reasoning, _ = tokens or [0] * 6
    return {
        "text": text,
        "finish": finish,
        "calls": [[id_, name, json.loads(arguments)] for id_, name, arguments in calls],
        "read": read,
        "written": written,
        "cached": cached,
        "reasoning": reasoning,
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_real_model_answers(server: ModelServer, protocol: str) -> None:
    first, second = (say(server, protocol, "Say hello.", 12) for _ in range(2))
    assert (first.text, first.answer.finish) == (second.text, "length")
    assert "hello" in first.text.lower()
    assert first.answer.tokens is not None
    assert second.answer.tokens is not None
    assert (first.answer.tokens.written, second.answer.tokens.written) == (12, 12)
    assert 0 < second.answer.tokens.cached < second.answer.tokens.read == first.answer.tokens.read


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("path", PATHS)
def test_a_real_model_calls_a_tool_and_reads_its_result(
    server: ModelServer, protocol: str, path: str
) -> None:
    prompt, work = f"Call read_file with the path {path}.", AgentWork(tools=("read_file",))
    called = say(server, protocol, prompt, 100, work=work)
    assert called.answer.finish == "tool_calls"
    [call] = called.answer.calls
    assert (call.name, json.loads(call.arguments)) == ("read_file", {"path": path})
    turn = ToolTurn(called.text, (call,), [{"id": call.id, "content": "A yellow submarine"}])
    last = say(server, protocol, prompt, 60, work=work, turns=[turn])
    assert last.answer.finish == "stop"
    assert "yellow submarine" in last.text.lower()
    assert last.answer.calls == ()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_real_server_refuses(server: ModelServer, protocol: str) -> None:
    ask = make_ask(server.url, protocol)
    wrong_key = call_model(ask, "sk-of-another-provider")
    assert wrong_key.failed == (ErrorKind.AUTH, False)
    assert wrong_key.message.endswith(
        "401 Unauthorized: Invalid API Key; check that A_KEY holds a key of custom"
    )
    wrong_place = call_model(make_ask(server.url.replace("/v1", "/other"), protocol), KEY)
    assert wrong_place.failed == (ErrorKind.BAD_REQUEST, False)
    assert wrong_place.message.endswith(
        "404 Not Found: File Not Found; check providers.custom.base_url and providers.custom.protocol"
    )
    too_long = say(server, protocol, "word " * 2 * CONTEXT, 5)
    assert too_long.failed == (ErrorKind.BAD_REQUEST, False)
    assert "exceeds the available context size" in too_long.message


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_official_clients_get_the_same_from_a_real_model(
    server: ModelServer, protocol: str, tmp_path: Path
) -> None:
    arguments: Json = {"model": "real", "messages": [{"role": "user", "content": "Count to five."}]}
    arguments["extra_body"] = {"temperature": 0.0}  # no argument of the client of Anthropic
    limits = (1, 40)
    theirs = ask_official_clients(
        [(protocol, server.url, KEY, {**arguments, "max_tokens": limit}) for limit in limits], tmp_path
    )
    assert not [each for each in theirs if "error" in each]
    for limit, expected in zip(limits, theirs, strict=True):
        own = describe(say(server, protocol, "Count to five.", limit))
        for each in (own, expected):
            each.pop("cached")  # what is in the cache depends on the calls before
        assert own == expected


KNOWS_MORE = {
    "crlf-comments": "events with empty data, which the client of OpenAI takes for invalid JSON",
    "gemini-tools": "two calls with the same index, which the client of OpenAI joins",
    "groq-text": "usage in `x_groq`",
    "mistral-parts": "text in parts",
}
"""Streams that the built-in client reads better than the client of OpenAI, and why."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_official_clients_read_the_same_bytes_in_the_same_way(protocol: str, tmp_path: Path) -> None:
    names = [name for name in EXPECTED if EXPECTED[name]["protocol"] == protocol and name not in KNOWS_MORE]
    answers = [chunked(stream(name)) for name in names]
    for name, (own, theirs) in zip(names, read_with_both(protocol, answers, tmp_path), strict=True):
        if EXPECTED[name]["error"] is None:
            assert describe(own) == theirs, name
        else:
            assert own.failed is not None, name
            assert EXPECTED[name]["error"] in theirs["message"], name


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_of_a_cut_answer_official_clients_get_no_more(protocol: str, tmp_path: Path) -> None:
    whole = [stream(name) for name in WHOLE if EXPECTED[name]["protocol"] == protocol]
    cuts = [answering(data[:end]) for data in whole for end in range(0, len(data), 23)]
    for own, theirs in read_with_both(protocol, cuts, tmp_path):
        if own.failed is None:
            assert (theirs["text"], theirs["finish"]) == (own.text, own.answer.finish)
        else:
            assert theirs.get("finish") is None


def read_with_both(protocol: str, answers: Sequence[bytes | Answer], home: Path) -> list[tuple[Called, Json]]:
    """Return what the built-in client and the official one make of the same bytes."""
    arguments: Json = {"model": "real", "messages": [{"role": "user", "content": "p"}]}
    if protocol == "anthropic":
        arguments["max_tokens"] = 50
    with ExitStack() as stack:
        urls = [stack.enter_context(RawServer(answer)).url for answer in answers]
        theirs = ask_official_clients([(protocol, url, KEY, arguments) for url in urls], home)
        own = [call_model(make_ask(url, protocol)) for url in urls]
    return list(zip(own, theirs, strict=True))
