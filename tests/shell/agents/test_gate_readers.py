"""What the gate reads in answers of the formats that only programs speak."""

from __future__ import annotations

import json
from typing import Any

import pytest

from logist.agents.clients.answers import PIECE_COST, CallPieces, Tokens
from logist.agents.gate.gemini_reader import GeminiReader
from logist.agents.gate.responses_reader import ResponsesReader

Json = dict[str, Any]
USAGE: Json = {
    "input_tokens": 1000,
    "input_tokens_details": {"cached_tokens": 300},
    "output_tokens": 80,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 1080,
}
MESSAGE: Json = {
    "type": "message",
    "content": [{"type": "output_text", "text": "Hello"}, {"type": "refusal", "refusal": "!"}],
}


def read_response(*events: Json) -> tuple[str, ResponsesReader]:
    reader = ResponsesReader()
    return "".join(text for event in events for text in reader.read_event(event)), reader


def completed(**more: Any) -> Json:
    return {
        "type": "response.completed",
        "response": {"status": "completed", "output": [], "usage": USAGE, **more},
    }


def test_tokens_of_a_response() -> None:
    _, reader = read_response(completed())
    assert reader.get_tokens() == Tokens(read=1000, written=80, cached=300, reasoning=64)
    assert (reader.finish, reader.is_over) == ("stop", True)


def test_reasoning_that_is_only_in_the_total_counts() -> None:
    _, reader = read_response(completed(usage=USAGE | {"output_tokens": 16}))
    tokens = reader.get_tokens()
    assert tokens is not None
    assert tokens.written == 80


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"output_tokens": 5}, {"input_tokens": -1, "output_tokens": 5}, {"input_tokens": "x", "output_tokens": 5},
     USAGE | {"input_tokens_details": 5}, USAGE | {"output_tokens": 10**12}],
)  # fmt: skip
def test_a_usage_that_can_not_be_read_is_none(usage: Any) -> None:
    assert read_response(completed(usage=usage))[1].get_tokens() is None


def test_the_cost_that_a_provider_reports() -> None:
    tokens = read_response(completed(usage=USAGE | {"cost": 0.01}))[1].get_tokens()
    assert tokens is not None
    assert tokens.reported_microcents == 1_000_000


def test_text_is_read_once() -> None:
    delta = {"type": "response.output_text.delta", "delta": "Hello"}
    assert read_response(delta, completed(output=[MESSAGE]))[0] == "Hello"
    assert read_response(completed(output=[MESSAGE]))[0] == "Hello!"  # without pieces


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, ("c", "f", "{}")),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "***"},
            ("c", "patch", "***"),
        ),
        (
            {"type": "local_shell_call", "id": "i", "action": {"command": ["ls"]}},
            ("i", "local_shell_call", '{"command": ["ls"]}'),
        ),
    ],
)
def test_calls_of_each_kind(item: Json, expected: tuple[str, str, str]) -> None:
    _, reader = read_response({"type": "response.output_item.done", "item": item}, completed())
    assert [(call.id, call.name, call.arguments) for call in reader.list_calls()] == [expected]
    assert reader.finish == "tool_calls"


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "response.failed", "response": {"status": "failed", "error": {"message": "no"}}}, "no"),
        ({"type": "error", "message": "no"}, "no"),
        ({"type": "error", "error": {"message": "no"}}, "no"),
        (
            {"type": "response.completed", "response": {"status": "cancelled"}},
            "the response has the status cancelled",
        ),
    ],
)
def test_an_error_in_a_response(event: Json, error: str) -> None:
    _, reader = read_response(event)
    assert (reader.error, reader.finish) == (error, None)


def test_a_response_may_be_cut() -> None:
    response = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage": USAGE}
    assert read_response({"type": "response.incomplete", "response": response})[1].finish == "length"


def read_gemini(*pieces: Json) -> tuple[str, GeminiReader]:
    reader = GeminiReader()
    return "".join(text for piece in pieces for text in reader.read_event(piece)), reader


def gemini(*parts: Json, finish: str | None = None, **counts: int) -> Json:
    usage = {f"{name}TokenCount": count for name, count in counts.items()}
    candidate: Json = {"content": {"parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], "usageMetadata": usage}


def test_tokens_of_gemini() -> None:
    """Thoughts are not in the count of the candidates; the pieces repeat the counts."""
    text, reader = read_gemini(
        gemini({"text": "thinking", "thought": True}, prompt=1000, thoughts=60, total=1060),
        gemini(
            {"text": "Hello"},
            finish="STOP",
            prompt=1000,
            thoughts=64,
            candidates=16,
            cachedContent=300,
            total=1080,
        ),
    )
    assert text == "Hello"
    assert reader.get_tokens() == Tokens(read=1000, written=80, cached=300, reasoning=64)
    assert reader.finish == "stop"


def test_tokens_of_gemini_that_can_not_be_read() -> None:
    assert read_gemini(gemini({"text": "x"}, finish="STOP"))[1].get_tokens() is None
    assert read_gemini(gemini(finish="STOP", prompt=-1, total=5))[1].get_tokens() is None


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "malformed_function_call"),
    ],
)
def test_why_gemini_ended(reason: str, finish: str) -> None:
    assert read_gemini(gemini(finish=reason))[1].finish == finish


def test_a_prompt_that_gemini_blocks() -> None:
    reader = read_gemini(
        {
            "promptFeedback": {"blockReason": "SAFETY"},
            "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
        }
    )[1]
    assert (reader.finish, reader.get_tokens()) == ("content_filter", Tokens(read=9, written=0))


def test_calls_and_errors_of_gemini() -> None:
    _, reader = read_gemini(gemini({"functionCall": {"name": "f", "args": {"a": 1}}}, finish="STOP"))
    assert [(call.name, json.loads(call.arguments)) for call in reader.list_calls()] == [("f", {"a": 1})]
    assert reader.finish == "tool_calls"
    assert read_gemini({"error": {"code": 503, "message": "overloaded"}})[1].error == "overloaded"


def test_a_record_keeps_a_part_of_long_calls() -> None:
    pieces = CallPieces(1000)
    pieces.add(0, "c", "f", "x" * 600)
    for _ in range(10_000):
        pieces.add(0, "", "", "y" * 100)
    arguments = pieces.list_calls()[0].arguments
    assert arguments.startswith("x" * 600 + "y" * 100)
    assert len(arguments) <= 1000 - PIECE_COST
    everything = CallPieces()
    assert everything.add(0, "c", "f", "x" * 5000) > 5000
    assert len(everything.list_calls()[0].arguments) == 5000
