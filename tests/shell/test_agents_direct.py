"""The built-in client over real HTTP: what it makes of answers, refusals and faults of every kind."""

from __future__ import annotations

import gzip
import itertools
import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.agents.clients.answers import MAX_TEXT, ModelAnswer, Tokens
from logist.agents.clients.direct import DirectClient, iter_events
from logist.agents.courier.tool_turns import plan_next_exchange
from logist.agents.protocol import AgentWork, Ask, ToolTurn
from logist.core.model import Call, ErrorKind, Model, Provider, Request
from tests import support
from tests.endpoint import Endpoint
from tests.loopback import Loopback
from tests.raw_server import END, HUNG, Answer, Authority, Piece, Proxy, RawServer
from tests.shell.test_agents_litellm import CASES, piece

Json = dict[str, Any]

KEY = "sk-test-0123456789abcdefghij"
MASKED = f"{KEY[:8]}***{KEY[-4:]}"
NOWHERE = "http://127.0.0.1:1/v1"
STREAMS = Path(__file__).with_name("streams")
EXPECTED: dict[str, Json] = json.loads((STREAMS / "expected.json").read_text("utf-8"))
WHOLE = ("openai-text", "openai-tools", "anthropic-text", "anthropic-tools")
"""Streams that are cut at each byte."""
SSE = b"content-type: text/event-stream\r\n"


class Called(NamedTuple):
    """What one exchange brought."""

    text: str
    answer: ModelAnswer

    @property
    def message(self) -> str:
        return self.answer.failure.error.message if self.answer.failure else ""

    @property
    def failed(self) -> tuple[str, bool] | None:
        """The kind of the failure, and whether it may be billed."""
        failure = self.answer.failure
        return None if failure is None else (failure.error.kind, failure.billed)


CUT = (ErrorKind.TRANSIENT, True)
TIMEOUT = (ErrorKind.TIMEOUT, True)
REFUSED = (ErrorKind.REFUSED, False)
OUTAGE = (ErrorKind.OUTAGE, False)


def make_ask(url: str, protocol: str = "openai", **more: Any) -> Ask:
    name = more.pop("name", "custom")
    model = Model(name="m", provider_model=f"{name}/real", api_key_env=more.pop("api_key_env", "A_KEY"))
    if more.pop("has_endpoint", False):
        model = model.model_copy(update={"endpoint": url})
    provider = Provider.model_validate(
        {"name": name, "base_url": url, "protocol": protocol, "model": more.pop("wire_model", "real")}
    )
    values: Json = {"request": Request(prompt="p"), "max_output_tokens": 50, **more}
    return Ask(model=model, role="r", provider=provider, **values)


def call_model(
    ask: Ask, key: str | None = KEY, timeout: float = HUNG, turns: Sequence[ToolTurn] = ()
) -> Called:
    """Make one exchange; whatever the server does, nothing is raised, and the key is in no message."""
    coming = plan_next_exchange(ask, turns, 0, form=ask.form)
    assert coming is not None
    pieces: list[str] = []
    answer = DirectClient().call_model(ask, coming.sending, key, timeout, pieces.append)
    called = Called("".join(pieces), answer)
    assert KEY not in called.message
    assert called.message == "" or called.message.isprintable()
    assert answer.failure is None or (answer.tokens, answer.calls, answer.finish) == (None, (), None)
    return called


def answering(body: bytes, head: bytes = SSE, status: bytes = b"200 OK") -> bytes:
    """Return an answer that ends with the connection."""
    return b"HTTP/1.1 " + status + b"\r\n" + head + b"connection: close\r\n\r\n" + body


def sized(body: bytes, size: int | None = None, head: bytes = SSE) -> bytes:
    """Return an answer with a length."""
    length = len(body) if size is None else size
    return b"HTTP/1.1 200 OK\r\n" + head + b"content-length: %d\r\n\r\n" % length + body


def chunked(*bodies: bytes) -> bytes:
    """Return an answer in chunks."""
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body), body) for body in bodies)
    return b"HTTP/1.1 200 OK\r\n" + SSE + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def exchange(*answer: Piece, protocol: str = "openai", timeout: float = HUNG) -> Called:
    """Make one exchange with a server that answers so."""
    with RawServer(answer) as server:
        return call_model(make_ask(server.url, protocol), timeout=timeout)


def stream(name: str) -> bytes:
    return (STREAMS / f"{name}.txt").read_bytes()


def summarize(called: Called) -> Json:
    """Return what `expected.json` has for a stream; of a failure, whether its message contains the provider's."""
    answer = called.answer
    return {
        "text": called.text,
        "finish": answer.finish,
        "calls": [[call.id, call.name, call.arguments] for call in answer.calls],
        "tokens": list(answer.tokens) if answer.tokens else None,
    }


def require_expected(name: str, called: Called) -> None:
    expected = EXPECTED[name]
    assert summarize(called) == {key: expected[key] for key in ("text", "finish", "calls", "tokens")}
    if expected["error"] is None:
        assert called.failed is None
    else:
        assert called.failed == CUT
        assert expected["error"] in called.message


SIMPLE = piece("all") + piece("", "stop", usage={"prompt_tokens": 5, "completion_tokens": 7})
DONE = "data: [DONE]\n\n"
WELL = (SIMPLE + DONE).encode()
TOKENS = Tokens(5, 7)


# -- answers


@pytest.mark.parametrize("name", EXPECTED)
def test_a_stream_as_providers_send_it(name: str) -> None:
    called = exchange(chunked(stream(name)), protocol=EXPECTED[name]["protocol"])
    require_expected(name, called)


DIFFERENT: dict[str, Json] = {"a page": {"kind": "bad_request"}}
"""Where the built-in client knows better than litellm."""


def test_every_end_of_an_exchange_is_understood_as_with_litellm() -> None:
    with Loopback(*(step for step, _ in CASES.values())) as loopback:
        for number, (name, (_, end)) in enumerate(CASES.items()):
            is_last = number == len(CASES) - 1
            ask = make_ask(loopback.url, has_endpoint=True, request=Request(prompt=f"p{number}"))
            called = call_model(ask, None if is_last else KEY, 1.0 if is_last else HUNG)
            failure, expected = called.answer.failure, {**end, **DIFFERENT.get(name, {})}
            actual: Json = {
                "text": called.text,
                "tokens": called.answer.tokens and list(called.answer.tokens[:3]),
                "finish": called.answer.finish,
                "kind": failure and failure.error.kind,
                "status": failure and failure.error.http_status,
                "billed": failure and failure.billed,
                "again": failure and failure.again,
                "retry_after": failure and failure.retry_after,
            }
            assert expected.pop("message", "") in called.message, name
            expected.pop("pieces", None)
            assert {key: actual[key] for key in expected} == expected, name
    requests = loopback.requests
    assert [request.body.pop("messages")[0]["content"] for request in requests] == [
        f"p{number}" for number in range(len(CASES))
    ]
    assert {request.path for request in requests} == {"/v1/chat/completions"}
    assert requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in requests[-1].headers
    assert requests[0].body == {
        "model": "real",
        "max_tokens": 50,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


WORK = AgentWork(tools=("read_file",))
TURN = ToolTurn(
    "I look.", (Call(id="c1", name="read_file", arguments='{"path": "a"}'),), [{"id": "c1", "content": ""}]
)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_a_model_calls_tools(protocol: str) -> None:
    text = "I write a file, and that text is longer than one piece."
    step = {
        "text": text,
        "calls": [{"shell": "ls"}, {"shell": "pwd"}],
        "usage": {"input": 70, "cached": 30, "output": 9},
    }
    with Endpoint(step, {"text": "Done."}) as endpoint:
        ask = make_ask(endpoint.url, protocol, work=AgentWork(tools=("execute_command",)), temperature=0.5)
        first = call_model(ask)
        second = call_model(
            ask,
            turns=[
                ToolTurn(
                    first.text,
                    first.answer.calls,
                    [{"id": call.id, "content": "done"} for call in first.answer.calls],
                )
            ],
        )
    assert (first.text, first.answer.finish) == (text, "tool_calls")
    assert [json.loads(call.arguments)["command"] for call in first.answer.calls] == ["ls", "pwd"]
    assert first.answer.tokens == Tokens(70, 9, 30)
    assert (second.text, second.answer.finish, second.answer.calls) == ("Done.", "stop", ())
    body = endpoint.requests[1]["body"]
    assert body["temperature"] == 0.5
    if protocol == "anthropic":
        assert endpoint.requests[0]["headers"]["x-api-key"] == KEY
        assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
        assert [block["type"] for block in body["messages"][1]["content"]] == ["text", "tool_use", "tool_use"]
        assert [block["tool_use_id"] for block in body["messages"][2]["content"]] == [
            call.id for call in first.answer.calls
        ]
    else:
        assert endpoint.requests[0]["headers"]["authorization"] == f"Bearer {KEY}"
        assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "tool"]


def test_what_gemini_sends_with_a_call_goes_back_with_it() -> None:
    with RawServer(chunked(stream("gemini-tools")), chunked(WELL)) as server:
        ask = make_ask(server.url, work=WORK)
        calls = call_model(ask).answer.calls
        results = [{"id": call.id, "content": "x"} for call in calls]
        call_model(ask, turns=[ToolTurn("", calls, results)])
    sent = [call["extra_content"] for call in json.loads(server.asked[1].body)["messages"][1]["tool_calls"]]
    assert sent == [{"google": {"thought_signature": "Q2k="}}] * 2


@pytest.mark.parametrize(
    ("content", "is_kept"),
    [
        ("[" * 60 + "]" * 60, True),
        ("[" * 200 + "]" * 200, False),
        (f'"{"x" * 70_000}"', False),
        ('"\\ud800é"', True),
    ],
)
def test_odd_content_of_a_call_breaks_nothing(content: str, is_kept: bool) -> None:
    call = f'{{"index": 0, "id": "i", "function": {{"name": "n"}}, "extra_content": {{"a": {content}}}}}'
    choice = f'{{"delta": {{"tool_calls": [{call}]}}, "finish_reason": "tool_calls"}}'
    event = f'data: {{"choices": [{choice}]}}\n\n'
    with RawServer(answering(event.encode()), answering(WELL)) as server:
        calls = call_model(make_ask(server.url, work=WORK)).answer.calls
        turn = ToolTurn("", calls, [{"id": "i", "content": "x"}])
        assert call_model(make_ask(server.url, work=WORK), turns=[turn]).text == "all"
    [sent] = json.loads(server.asked[1].body)["messages"][1]["tool_calls"]
    assert ("extra_content" in sent) is is_kept


@pytest.mark.parametrize("content", ["", "{", "5", "[1]", "{}", '{"a": ' * 1000])
def test_content_of_a_call_that_is_none_is_not_sent(content: str) -> None:
    call = Call(id="i", name="read_file", arguments="{}", extra_content=content)
    with RawServer(answering(WELL)) as server:
        turn = ToolTurn("", (call,), [{"id": "i", "content": "x"}])
        assert call_model(make_ask(server.url, work=WORK), turns=[turn]).text == "all"
    assert "extra_content" not in json.loads(server.asked[0].body)["messages"][1]["tool_calls"][0]


def test_the_last_turn_offers_no_tools_to_call() -> None:
    for protocol, choice in (("openai", "none"), ("anthropic", {"type": "none"})):
        work = WORK.read(WORK.data() | {"rules": {"max_turns": 2}})
        with Endpoint({"text": "End."}) as endpoint:
            call_model(make_ask(endpoint.url, protocol, work=work), turns=[TURN])
        assert endpoint.requests[0]["body"]["tool_choice"] == choice


@pytest.mark.parametrize(
    ("provider", "model", "has", "has_not"),
    [
        (
            "openai",
            "gpt-4.1",
            {"max_completion_tokens", "stream_options", "temperature"},
            {"max_tokens", "usage"},
        ),
        ("openai", "gpt-5-mini", {"max_completion_tokens"}, {"temperature", "max_tokens"}),
        ("openai", "o3", {"max_completion_tokens"}, {"temperature"}),
        ("mistral", "magistral", {"max_tokens", "temperature"}, {"stream_options", "usage"}),
        ("openrouter", "x/y", {"max_tokens", "usage", "stream_options"}, {"max_completion_tokens"}),
    ],
)
def test_a_request_has_the_fields_that_its_provider_knows(
    provider: str, model: str, has: set[str], has_not: set[str]
) -> None:
    with Loopback({"text": "x"}) as server:
        call_model(make_ask(server.url, name=provider, wire_model=model, temperature=0.2))
        body = server.requests[0].body
    assert has <= body.keys()
    assert not has_not & body.keys()


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_an_answer_that_is_not_a_stream(protocol: str) -> None:
    message = {
        "role": "assistant",
        "content": "all",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}],
    }
    chat = {
        "choices": [{"message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7},
    }
    blocks = [
        {"type": "text", "text": "all"},
        {"type": "tool_use", "id": "c", "name": "read_file", "input": {}},
    ]
    said = {
        "type": "message",
        "content": blocks,
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }
    body = json.dumps(chat if protocol == "openai" else said).encode()
    head = b"content-type: application/json; charset=utf-8\r\n"
    called = exchange(sized(body, head=head), protocol=protocol)
    assert summarize(called) == {
        "text": "all",
        "finish": "tool_calls",
        "calls": [["c", "read_file", "{}"]],
        "tokens": [5, 7, 0, 0, 0, None],
    }
    for end in range(0, len(body), 7):
        cut = exchange(sized(body[:end], head=head), protocol=protocol)
        assert (cut.failed, cut.text) == (CUT, "")


# -- the same bytes, sent in another way


@pytest.mark.parametrize("name", WHOLE)
def test_one_byte_at_a_time(name: str) -> None:
    data = stream(name)
    require_expected(
        name,
        exchange(
            chunked(*(data[at : at + 1] for at in range(len(data)))), protocol=EXPECTED[name]["protocol"]
        ),
    )


@given(data=st.data())
@settings(max_examples=support.examples(200))
@pytest.mark.parametrize("name", EXPECTED)
def test_any_split_of_the_bytes_gives_the_same_events(name: str, data: st.DataObject) -> None:
    whole = stream(name)
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=40))
    bounds = [0, *sorted(places), len(whole)]
    pieces = [whole[start:end] for start, end in itertools.pairwise(bounds)]
    assert list(iter_events(iter(pieces))) == list(iter_events(iter([whole])))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_lines_may_end_in_three_ways(end: str, size: int) -> None:
    lines = [
        "\ufeff: a comment",
        "id: 7",
        "data: one",
        "data:two",
        "",
        "",
        "data",
        "retry: 1",
        "",
        "data: three",
        "",
    ]
    whole = "".join(line + end for line in lines).encode()
    assert list(iter_events(whole[at : at + size] for at in range(0, len(whole), size))) == [
        "one\ntwo",
        "three",
    ]


SENT: dict[str, Sequence[Piece]] = {
    "until the connection ends": [answering(WELL)],
    "with its length": [sized(WELL)],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\n" + SSE + b"\r\n" + WELL],
    "in two halves": [chunked(WELL)[:150], 0.05, chunked(WELL)[150:]],
    "a length that is too large": [sized(WELL, len(WELL) + 50)],
    "an end that never comes": [sized(WELL, len(WELL) + 50), END],
    "without the end of a stream": [answering(SIMPLE.encode())],
    "with empty events": [answering(b"data:\n\ndata: \n\n" + WELL)],
    "gzip that nobody wanted": [sized(gzip.compress(WELL), head=SSE + b"content-encoding: gzip\r\n")],
    "after information": [b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + sized(WELL)],
    "as plain text": [sized(WELL, head=b"content-type: text/plain\r\n")],
    "as nothing": [sized(WELL, head=b"")],
    "201": [answering(WELL, status=b"201 Created")],
    "garbage after the reason": [answering(SIMPLE.encode() + b"data: {garb")],
}


@pytest.mark.parametrize("name", SENT)
def test_an_answer_that_is_whole_is_taken(name: str) -> None:
    called = exchange(*SENT[name])
    assert summarize(called) == {"text": "all", "finish": "stop", "calls": [], "tokens": list(TOKENS)}


# -- cut answers


def cut_everywhere(name: str, every: int) -> None:
    """Each cut gives the complete answer, if the reason for its end was there; otherwise a failure."""
    data, protocol, expected = stream(name), EXPECTED[name]["protocol"], EXPECTED[name]
    answers = [answering(data[:end]) for end in range(0, len(data), every)]
    with RawServer(*answers) as server:
        ask = make_ask(server.url, protocol)
        complete = []
        for _ in answers:
            called = call_model(ask)
            if called.failed is None:
                assert [called.text, called.answer.finish] == [expected["text"], expected["finish"]]
                assert summarize(called)["calls"] == expected["calls"]
            else:
                assert called.failed == CUT
                assert expected["text"].startswith(called.text)
            complete.append(called.failed is None)
    first = complete.index(True)
    assert complete == [False] * first + [True] * (len(complete) - first)
    reason = data.index(b'"stop_reason": "' if protocol == "anthropic" else b'"finish_reason":"')
    assert first * every > reason


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_that_is_cut(name: str) -> None:
    cut_everywhere(name, 61)


@pytest.mark.deep
@pytest.mark.parametrize("name", EXPECTED)
def test_an_answer_that_is_cut_at_each_byte(name: str) -> None:
    if EXPECTED[name]["error"] is None:
        cut_everywhere(name, 1)


@pytest.mark.deep
def test_a_response_that_is_cut_at_each_byte_of_its_head() -> None:
    whole = chunked(WELL)
    answers = [whole[:end] for end in range(whole.index(b"data:") + 8)]
    with RawServer(*answers) as server:
        for _ in answers:
            assert call_model(make_ask(server.url)).failed == CUT


# -- faults

HTML = b"<html><head><title>Sign in &amp; go</title></head><body>x</body></html>"
PAGE = b"content-type: text/html\r\n"
DEEP_JSON = b'{"choices":' + b"[" * 200_000
FAULTS: dict[str, tuple[Sequence[Piece], tuple[str, bool], str]] = {
    "hang up at once": ([], CUT, ""),
    "no HTTP": ([b"220 mail.example ESMTP\r\n"], CUT, ""),
    "half a head": ([b"HTTP/1.1 200 OK\r\ncontent-ty"], CUT, ""),
    "an endless head": ([b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 300_000], CUT, ""),
    "an odd status": ([answering(b"", status=b"999 What")], CUT, "999"),
    "switching protocols": ([b"HTTP/1.1 101 Switching Protocols\r\n\r\n"], CUT, ""),
    "no content": ([b"HTTP/1.1 204 No Content\r\n\r\n"], CUT, "204 No Content: the answer is empty; check providers.custom.base_url"),
    "an empty answer": ([sized(b"")], CUT, "the answer is empty; check providers.custom.base_url"),
    "a length that is too small": ([sized(WELL, 100)], CUT, ""),
    "a length that is no number": ([b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"], CUT, ""),
    "a chunk that is no chunk": ([chunked(WELL).replace(b"\r\n\r\n", b"\r\n\r\nzz\r\n", 1)], CUT, ""),
    "gzip that is none": ([sized(WELL, head=SSE + b"content-encoding: gzip\r\n")], CUT, ""),
    "a page": ([answering(HTML, head=PAGE)], (ErrorKind.BAD_REQUEST, True), "Sign in & go"),
    "a page as 502": ([answering(HTML, head=PAGE, status=b"502 Bad Gateway")], OUTAGE, "Sign in & go"),
    "a page as 504": ([answering(HTML, head=PAGE, status=b"504 Gateway Timeout")], TIMEOUT, "Sign in & go"),
    "invalid UTF-8 as a refusal": ([answering(b"\xff\xfe\x00\x1b[31m", status=b"400 No")], (ErrorKind.BAD_REQUEST, False), "400"),
    "deep JSON as a refusal": ([answering(DEEP_JSON, status=b"400 No")], (ErrorKind.BAD_REQUEST, False), "400"),
    "deep JSON": ([answering(b"data: " + DEEP_JSON + b"\n\n")], CUT, ""),
    "deep JSON, closed": ([answering(b"data: " + b"[" * 50_000 + b"]" * 50_000 + b"\n\n")], CUT, ""),
    "JSON that is no object": ([answering(b'data: ["x"]\n\n')], CUT, ""),
    "null": ([answering(b"data: null\n\n")], CUT, ""),
    "choices that are none": ([answering(b'data: {"choices": {"a": 1}}\n\n')], CUT, ""),
    "text that is none": ([answering(b'data: {"choices": [{"delta": {"content": 5, "tool_calls": 7}}]}\n\n')], CUT, ""),
    "arguments that are none": (
        [answering(b'data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "i", "function": '
                   b'{"name": "n", "arguments": ["a"]}}]}, "finish_reason": "tool_calls"}]}\n\n')],
        CUT, "",
    ),
    "an index that is none": (
        [answering(b'data: {"choices": [{"delta": {"tool_calls": [{"index": 1e999, "id": "i"}]}}]}\n\n')], CUT, "",
    ),
    "a reason that is none": ([answering(b'data: {"choices": [{"delta": {}, "finish_reason": {}}]}\n\n')], CUT, ""),
    "an error as text": ([answering(b'data: {"error": "no more"}\n\n')], CUT, "no more"),
    "an error as a number": ([answering(b'data: {"error": 5}\n\n')], CUT, "5"),
    "an error without words": ([answering(b'data: {"error": {"code": 1}}\n\n')], CUT, ""),
    "an error with escapes": ([answering(b'data: {"error": "a\\u001b[31m\\ud800\\u0000b"}\n\n')], CUT, "a [31m"),
    "a refusal that hangs up": ([b"HTTP/1.1 429 Slow\r\ncontent-length: 500\r\n\r\nno"], OUTAGE, "429"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_server(name: str) -> None:
    pieces, failed, words = FAULTS[name]
    called = exchange(*pieces)
    assert called.failed == failed
    assert words in called.message
    assert len(called.message) < 1000


ANTHROPIC_FAULTS = {
    "an event without its fields": '{"type": "content_block_delta"}',
    "a delta that is none": '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ["x"]}}',
    "arguments that are none": '{"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ["x"]}}',
    "a call without a name": '{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "i"}}',
    "an id that is none": '{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": ["i"], "name": "n"}}',
    "an error as text": '{"type": "error", "error": "no more"}',
    "no object": "7",
}


@pytest.mark.parametrize("name", ANTHROPIC_FAULTS)
def test_a_fault_in_a_message(name: str) -> None:
    end = b'data: {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}}\n\n'
    called = exchange(answering(f"data: {ANTHROPIC_FAULTS[name]}\n\n".encode() + end), protocol="anthropic")
    assert called.failed == CUT


COUNTS = ["1e999", "-5", '"7"', "null", "1e30", "NaN", "[3]", "{}", "true", "1" + "0" * 40]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("where", ["prompt_tokens", "total_tokens", "prompt_tokens_details", "cost"])
def test_odd_usage_is_no_usage_or_a_small_one(count: str, where: str) -> None:
    usage = f'{{"prompt_tokens": 5, "completion_tokens": 7, "{where}": {count}}}'
    body = piece("all", "stop") + f'data: {{"choices": [], "usage": {usage}}}\n\n' + DONE
    called = exchange(answering(body.encode()))
    assert (called.text, called.answer.finish) == ("all", "stop")
    tokens = called.answer.tokens
    assert tokens is None or all(0 <= (each or 0) < 1e10 for each in tokens)


@pytest.mark.parametrize(
    "usage", ["5", "[]", '"x"', '{"input_tokens": 1e999, "output_tokens": 2}', '{"output_tokens": 1e300}']
)
def test_odd_usage_of_a_message(usage: str) -> None:
    body = f'data: {{"type": "message_delta", "delta": {{"stop_reason": "end_turn"}}, "usage": {usage}}}\n\n'
    called = exchange(answering(body.encode()), protocol="anthropic")
    assert called.answer.finish == "stop"
    tokens = called.answer.tokens
    assert tokens is None or all(0 <= (each or 0) < 1e10 for each in tokens)


def test_odd_characters_arrive_as_they_are() -> None:
    body = b'data: {"choices": [{"delta": {"content": "a\\u0000b\\ud83d"}}]}\n\n'
    body += b'data: {"choices": [{"delta": {"content": "\xff\x00"}, "finish_reason": "stop"}]}\n\n'
    called = exchange(answering(body + DONE.encode()))
    # A NUL byte is no JSON: half an answer is a failure.
    assert (called.failed, called.text) == (CUT, "a\0b\ud83d")
    called = exchange(answering(body.replace(b"\x00", b"") + DONE.encode()))
    assert called.text == "a\0b\ud83d\ufffd"


# -- settings that are wrong


def refuse(status: bytes, message: str | bytes, kind: bytes = b"application/json") -> bytes:
    body = message if isinstance(message, bytes) else json.dumps({"error": {"message": message}}).encode()
    return answering(body, head=b"content-type: " + kind + b"\r\n", status=status)


OLLAMA = b"""{"model":"real","message":{"role":"assistant","content":"Hi"},"done":false}\n{"done":true}\n"""
RESPONSES = b"""event: response.created\ndata: {"type": "response.created", "response": {}}\n\n"""
CHECK_BOTH = "check providers.custom.base_url and providers.custom.protocol"
OTHER_FORM = {
    protocol: f"200 OK: nothing in the answer is of the protocol `{protocol}`; {CHECK_BOTH}"
    for protocol in ("openai", "anthropic")
}
WRONG: dict[str, tuple[str, bytes, str]] = {
    "a base URL without the version": (
        "openai", refuse(b"404 Not Found", b"404 page not found", b"text/plain"),
        f"404 Not Found: 404 page not found; {CHECK_BOTH}",
    ),
    "a base URL of a web site": (
        "openai", answering(HTML, head=PAGE),
        "200 OK: a web page instead of an answer (Sign in & go); check providers.custom.base_url",
    ),
    "a base URL of a web site without this page": (
        "openai", answering(HTML, head=PAGE, status=b"404 Not Found"),
        "404 Not Found: Sign in & go; check providers.custom.base_url",
    ),
    "a page that only reads": (
        "openai", refuse(b"405 Method Not Allowed", b""),
        f"405 Method Not Allowed; {CHECK_BOTH}",
    ),
    "a model that OpenAI doesn't know": (
        "openai", refuse(b"404 Not Found", "The model `real` does not exist."),
        "404 Not Found: The model `real` does not exist.; check the model `real` and providers.custom.base_url",
    ),
    "a model that OpenRouter doesn't know": (
        "openai", refuse(b"400 Bad Request", "real is not a valid model ID"),
        "400 Bad Request: real is not a valid model ID; check the model `real`",
    ),
    "a model that Anthropic doesn't know": (
        "anthropic", refuse(b"404 Not Found", b'{"type":"error","error":{"type":"not_found_error","message":"model: real"}}'),
        "404 Not Found: model: real; check the model `real` and providers.custom.base_url",
    ),
    "a key of another provider": (
        "openai", refuse(b"401 Unauthorized", f"Incorrect API key provided: {MASKED}."),
        f"401 Unauthorized: Incorrect API key provided: {MASKED}.; check that A_KEY holds a key of custom",
    ),
    "a key that the server repeats": (
        "anthropic", refuse(b"401 Unauthorized", f"invalid x-api-key: {KEY}"),
        "401 Unauthorized: invalid x-api-key: [redacted]; check that A_KEY holds a key of custom",
    ),
    "a key that Gemini doesn't know": (
        "openai", refuse(b"400 Bad Request", b'[{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}]'),
        "400 Bad Request: API key not valid. Please pass a valid API key.; check that A_KEY holds a key of custom",
    ),
    "another version": (
        "anthropic", refuse(b"400 Bad Request", "anthropic-version: 2023-06-01 is not supported"),
        f"400 Bad Request: anthropic-version: 2023-06-01 is not supported; {CHECK_BOTH}",
    ),
    "another version of HTTP": (
        "openai", refuse(b"505 HTTP Version Not Supported", b""),
        f"505 HTTP Version Not Supported; {CHECK_BOTH}",
    ),
    "lines of JSON": (
        "openai", answering(OLLAMA, head=b"content-type: application/x-ndjson\r\n"),
        OTHER_FORM["openai"],
    ),
    "another stream": (
        "openai", answering(RESPONSES),
        OTHER_FORM["openai"],
    ),
    "chat completions instead of messages": (
        "anthropic", answering(WELL),
        OTHER_FORM["anthropic"],
    ),
    "messages instead of chat completions": (
        "openai", answering(stream("anthropic-text")),
        OTHER_FORM["openai"],
    ),
    "other JSON": (
        "openai", answering(b'{"object": "list", "data": []}', head=b"content-type: application/json\r\n"),
        OTHER_FORM["openai"],
    ),
    "other JSON instead of a message": (
        "anthropic", answering(b"[]", head=b"content-type: application/json\r\n"),
        OTHER_FORM["anthropic"],
    ),
    "a quota": ("openai", refuse(b"429 Too Many Requests", "You exceeded your current quota."),
        "429 Too Many Requests: You exceeded your current quota."),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_is_named_in_one_line(name: str) -> None:
    protocol, answer, expected = WRONG[name]
    with RawServer(answer) as server:
        called = call_model(make_ask(server.url, protocol))
    path = "messages" if protocol == "anthropic" else "chat/completions"
    assert called.message == f"{server.url}/{path}: {expected}"


def test_the_settings_of_a_model_with_an_address_are_named() -> None:
    answers = [refuse(b"401 No", "a key, please"), refuse(b"404 No", "no"), answering(HTML, head=PAGE)]
    with RawServer(*answers) as server:
        ask = make_ask(server.url, has_endpoint=True, api_key_env=None)
        ends = [call_model(ask, None).message.rpartition("; ")[2] for _ in answers]
    assert ends == [
        "set models.m.api_key_env to the variable with the key",
        "check models.m.endpoint and providers.custom.protocol",
        "check models.m.endpoint",
    ]


@pytest.mark.parametrize("before", [*range(270, 301, 3), 5000, 16_380])
def test_a_key_is_never_cut_in_two(before: int) -> None:
    called = exchange(refuse(b"400 Bad Request", "x" * before + KEY + "y" * 400))
    assert KEY[:6] not in called.message
    called = exchange(answering(f'data: {{"error": "{"x" * before}{KEY}"}}\n\n'.encode()))
    assert KEY[:6] not in called.message


def test_a_message_of_a_server_has_at_most_300_characters() -> None:
    called = exchange(refuse(b"400 Bad Request", "\x1b[31mword\n" * 1000))
    text = called.message.partition("400 Bad Request: ")[2]
    assert len(text) == 300
    assert text.startswith("[31mword [31mword ")


def test_a_proxy_that_answers_with_a_page_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(answering(HTML, head=PAGE, status=b"403 Forbidden")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        called = call_model(make_ask("http://provider.invalid/v1"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        direct = call_model(make_ask(proxy.url))
    assert called.failed == (ErrorKind.AUTH, False)
    assert called.message.endswith(
        "403 Forbidden: Sign in & go; check providers.custom.base_url and the proxy in HTTP_PROXY"
    )
    assert direct.message.endswith("403 Forbidden: Sign in & go; check providers.custom.base_url")


def test_a_proxy_that_wants_a_password_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(answering(b"", status=b"407 Proxy Authentication Required")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        called = call_model(make_ask("http://provider.invalid/v1"))
    assert called.message.endswith("; check the user and password in HTTP_PROXY")


# -- silence


def drip() -> Iterator[Piece]:
    yield answering(b"")
    while True:
        yield b": wait\n\n"
        yield 0.2


SILENCES: dict[str, tuple[Answer | Sequence[Piece], str]] = {
    "before the head": ([END], ""),
    "after the head": ([answering(b""), END], ""),
    "in the middle": ([answering(piece("half").encode()), END], "half"),
}


@pytest.mark.parametrize("name", SILENCES)
def test_silence_is_a_timeout_that_may_be_billed(name: str) -> None:
    answer, text = SILENCES[name]
    with RawServer(answer) as server:
        called = call_model(make_ask(server.url), timeout=0.5)
    assert (called.failed, called.text) == (TIMEOUT, text)


@pytest.mark.deep
def test_thirty_seconds_of_silence_are_no_end() -> None:
    called = exchange(answering(piece("be").encode()), 30.0, (piece("gun", "stop") + DONE).encode())
    assert (called.text, called.answer.finish) == ("begun", "stop")


def test_a_server_that_never_reads() -> None:
    with RawServer([END]) as server:
        server.reads = False
        called = call_model(make_ask(server.url, request=Request(prompt="p" * 20_000_000)), timeout=0.5)
    assert called.failed == TIMEOUT


def test_an_early_hang_up_while_the_request_is_sent() -> None:
    refusal = answering(b'{"error": {"message": "too large"}}', status=b"413 Too Large")
    with RawServer(refusal) as server:
        called = call_model(make_ask(server.url, request=Request(prompt="p" * 3_000_000)))
    assert called.failed == (ErrorKind.BAD_REQUEST, False)
    assert "too large" in called.message


def test_nobody_listens() -> None:
    called = call_model(make_ask(NOWHERE))
    assert called.failed == OUTAGE
    assert called.message.startswith("can't connect to http://127.0.0.1:1/v1/chat/completions: ")
    assert called.message.endswith("; start the server, or check providers.custom.base_url")


@pytest.mark.parametrize(
    "url",
    [
        "http://a..b/v1",
        "http://127.0.0.1:99999/v1",
        "ftp://127.0.0.1/v1",
        "http://[::1/v1",
        "http:///v1",
        "\x00",
    ],
)
def test_an_address_that_is_none(url: str) -> None:
    called = call_model(make_ask(url))
    assert called.answer.failure is not None
    assert not called.answer.failure.billed


# -- large answers

MEASURED = """
import json, resource, sys
from logist.agents.clients.direct import DirectClient
from tests.shell.test_agents_direct import make_ask, call_model

protocol, url = sys.argv[1:]
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
called = call_model(make_ask(url, protocol))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
json.dump([called.failed, called.message, len(called.text), (peak - base) / 1000], sys.stdout)
"""


def repeat(data: bytes, megabytes: int) -> Iterator[Piece]:
    block = data * max(1, 1_000_000 // len(data))
    for _ in range(megabytes):
        yield block


def flood(head: bytes, data: bytes, megabytes: int, begin: bytes = b"") -> Answer:
    def answer() -> Iterator[Piece]:
        yield answering(begin, head=head)
        yield from repeat(data, megabytes)

    return answer


def bomb() -> Iterator[Piece]:
    yield answering(b"", head=SSE + b"content-encoding: gzip\r\n")
    yield gzip.compress(b"data: " + b"x" * 100_000_000)


def measure(answer: Answer, protocol: str = "openai") -> tuple[list[Any], str, int, float]:
    """Make an exchange in a process of its own; the last figure is how much its memory grew, in MB."""
    with RawServer(answer) as server:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, protocol, server.url],
            env=support.process_environment() | {"PYTHONPATH": str(support.ROOT)},
            capture_output=True,
            check=False,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr.decode()
    failed, message, length, grown = json.loads(done.stdout)
    return failed, message, length, grown


JSON_HEAD = b"content-type: application/json\r\n"
FLOODS: dict[str, tuple[Answer, int]] = {
    "one line without an end": (flood(SSE, b"x", 100, b"data: "), 300),
    "lines without an event": (flood(SSE, b"data: xy\n", 100), 300),
    "comments": (flood(SSE, b": wait\n", 300), 50),
    "text": (flood(SSE, piece("t" * 1000).encode(), 100), 100),
    "a body": (flood(JSON_HEAD, b" ", 100), 150),
    "usage": (flood(SSE, b'data: {"usage": {"prompt_tokens": 1, "a": [1, 2, 3]}}\n\n', 300), 50),
    "unknown fields": (flood(SSE, b'data: {"a": [1, 2, 3]}\n\n', 300), 50),
    "gzip": (bomb, 300),
    "a page": (flood(PAGE, b"<p>", 100), 50),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", FLOODS)
def test_a_hundred_megabytes_take_little_memory(name: str) -> None:
    answer, most = FLOODS[name]
    failed, message, length, grown = measure(answer)
    assert failed in (["transient", True], ["bad_request", True])
    assert length <= MAX_TEXT + 1000
    assert grown < most
    assert len(message) < 1000


@pytest.mark.parametrize("markup", [b"<script>", b"<title>", b"<", b"<title", b"&lt;"])
def test_a_page_made_to_be_slow_is_not(markup: bytes) -> None:
    """CPU time, not wall time: 64 KB of it took seconds once."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    exchange(answering(markup * (70_000 // len(markup)), head=PAGE, status=b"500 No"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 2


# -- keys, redirects, proxies, certificates


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nx-evil: 1", f"{KEY}ü", f"{KEY}\0", f"{KEY}\x7f"])
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_a_key_that_no_header_can_hold(key: str, protocol: str) -> None:
    with RawServer(WELL) as server:
        called = call_model(make_ask(server.url, protocol), key)
        assert server.connections == 0
    assert called.failed == (ErrorKind.AUTH, False)
    assert "A_KEY has characters that can't be sent" in called.message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with RawServer(answering(WELL)) as other:
        location = f"location: http://user:{KEY}@127.0.0.1:{other.port}/?key={KEY}\r\n".encode()
        with RawServer(answering(b"", head=location, status=b"%d Moved" % status)) as server:
            called = call_model(make_ask(server.url))
        assert other.connections == 0
    assert called.failed == (ErrorKind.BAD_REQUEST, False)
    assert f"redirects to http://127.0.0.1:{other.port}/" in called.message


def test_a_password_in_the_address_is_in_no_message() -> None:
    called = call_model(make_ask(f"http://user:{KEY}@127.0.0.1:1/v1?key={KEY}"))
    assert called.failed == OUTAGE


def test_a_proxy_of_the_environment_forwards(monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy() as proxy, RawServer(sized(WELL)) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert call_model(make_ask(server.url)).text == "all"
        assert proxy.asked[0].line.split()[:2] == ["POST", f"{server.url}/chat/completions"]
        monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
        assert call_model(make_ask(server.url)).text == "all"
        assert (len(proxy.asked), len(server.asked)) == (1, 2)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("base", ["", "/"])
def test_a_query_of_the_address_stays_at_its_end(protocol: str, base: str) -> None:
    with RawServer(refuse(b"404 No", "no")) as server:
        call_model(make_ask(f"{server.url}{base}?api-version=1", protocol))
        path = "messages" if protocol == "anthropic" else "chat/completions"
        assert server.asked[0].line.split()[1] == f"/v1/{path}?api-version=1"


@pytest.mark.parametrize("status", [403, 407, 502])
def test_a_proxy_that_refuses_a_tunnel(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    with Proxy(refuses=status) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", f"//user:{KEY}@"))
        called = call_model(make_ask("https://127.0.0.1:9/v1"))
        assert proxy.asked[0].line.split()[:2] == ["CONNECT", "127.0.0.1:9"]
        assert "authorization" not in proxy.asked[0].headers
    assert called.failed == REFUSED
    assert str(status) in called.message


def test_a_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert call_model(make_ask("http://127.0.0.1:9/v1")).failed == OUTAGE
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    called = call_model(make_ask("http://127.0.0.1:9/v1"))
    assert called.answer.failure is not None
    assert not called.answer.failure.billed


def test_a_certificate_is_trusted_if_its_authority_is(
    monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    with RawServer(sized(WELL), tls=authority.server) as server:
        called = call_model(make_ask(server.url))
        assert called.failed == REFUSED
        assert "CERTIFICATE_VERIFY_FAILED" in called.message
        assert "SSL_CERT_FILE" in called.message
        assert server.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        assert call_model(make_ask(server.url)).text == "all"
        with Proxy() as proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
            assert call_model(make_ask(server.url)).text == "all"
            assert proxy.asked[0].line.startswith("CONNECT ")
        assert len(server.asked) == 2


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_a_certificate_file_that_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    called = call_model(make_ask("https://127.0.0.1:9/v1"))
    assert called.failed == (ErrorKind.BAD_REQUEST, False)
    assert "SSL_CERT_FILE" in called.message


def test_tls_to_a_server_without_it() -> None:
    with RawServer(b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        server.reads = False
        assert call_model(make_ask(server.url.replace("http:", "https:"))).failed == REFUSED


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("", None), ("soon", None), ("inf", float("inf")), ("nan", 0.0),
     ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("Wed, 21 Oct 9999999 07:28:00 GMT", None),
     ("Wed, 21 Oct 2015 07:28:00 GMT\r\ndate: Wed, 21 Oct 2015 07:27:13 GMT", 47.0),
     ("Wednesday, 21-Oct-15 07:28:00 GMT\r\ndate: Wed, 21 Oct 2015 07:27:13 GMT", 47.0)],
)  # fmt: skip
def test_how_long_a_provider_asks_to_wait(header: str, seconds: float | None) -> None:
    head = f"retry-after: {header}\r\n".encode()
    called = exchange(answering(b"", head=head, status=b"429 Slow"))
    assert called.answer.failure is not None
    assert (called.answer.failure.retry_after, called.answer.failure.again) == (seconds, True)


FORM: Json = {"name": "exit_command", "strict": True, "schema": {"type": "object", "properties": {}}}


def test_a_form_is_asked_for_as_each_protocol_does() -> None:
    for protocol in ("openai", "anthropic"):
        with RawServer(answering(stream("anthropic-text") if protocol == "anthropic" else WELL)) as server:
            call_model(make_ask(server.url, protocol, form=FORM))
            body = json.loads(server.asked[0].body)
        if protocol == "openai":
            assert body["response_format"] == {"type": "json_schema", "json_schema": FORM}
        else:
            assert body["tool_choice"] == {"type": "tool", "name": "exit_command"}
            assert body["tools"][-1]["input_schema"] == FORM["schema"]


def test_the_input_of_the_tool_that_anthropic_must_call_is_the_answer() -> None:
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 10}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "exit_command"},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"action": '},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '"STUCK"}'},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    body = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events)
    with RawServer(answering(body)) as server:
        called = call_model(make_ask(server.url, "anthropic", form=FORM))
    assert (called.text, called.answer.finish, called.answer.calls) == ('{"action": "STUCK"}', "stop", ())
