"""Anthropic's messages: the request, and the events of the answer, in the terms of chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from logist.agents.clients.answers import AnswerState, Tokens, parse_count, require_text
from logist.agents.protocol import Ask, Sending
from logist.core.model import Call, JsonObject

VERSION = "2023-06-01"
"""The version of the protocol; newer fields are added without changing it."""
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_FORM = "End your work with this: your exit command."
_CACHED: JsonObject = {"cache_control": {"type": "ephemeral"}}


def build_url(base_url: str) -> str:
    """Return the address of a request; the base may end with the version or not, and may have a query."""
    base, mark, query = base_url.partition("?")
    return f"{base.rstrip('/').removesuffix('/messages').removesuffix('/v1')}/v1/messages{mark}{query}"


def build_headers(api_key: str | None) -> dict[str, str]:
    """Return the headers with the version and the key."""
    return {"anthropic-version": VERSION, **({"x-api-key": api_key} if api_key else {})}


def build_body(ask: Ask, sending: Sending) -> JsonObject:
    """Return the request as JSON."""
    assert ask.provider is not None
    system = [one["content"] for one in sending.messages if one["role"] == "system"]
    chat = _convert_messages([one for one in sending.messages if one["role"] != "system"])
    body: JsonObject = {
        "model": ask.provider.model,
        "max_tokens": sending.max_output_tokens,
        "messages": chat,
        "stream": True,
    }
    if system:
        body["system"] = [{"type": "text", "text": "\n\n".join(system)}]
    if sending.tools:
        body["tools"] = [_convert_tool(tool["function"]) for tool in sending.tools]
        body["tool_choice"] = {"type": "auto" if sending.may_call else "none"}
        # The next turn sends everything up to here again: at a tenth of the price, if it is in the cache.
        chat[-1]["content"][-1] |= _CACHED
        if system:
            body["system"][-1] |= _CACHED
    if sending.form:
        # Anthropic's way: the model must call a tool whose input has the form.
        tool = {"name": sending.form["name"], "description": _FORM, "input_schema": sending.form["schema"]}
        body["tools"] = [*body.get("tools", ()), tool]
        body["tool_choice"] = {"type": "tool", "name": sending.form["name"]}
    if ask.temperature is not None:
        body["temperature"] = min(ask.temperature, 1.0)
    return body


def _convert_tool(function: JsonObject) -> JsonObject:
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function["parameters"],
    }


def _convert_messages(chat: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the messages with blocks as content; those of the same role in a row become one."""
    converted: list[JsonObject] = []
    for message in chat:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = _convert_content(message)
        if converted and converted[-1]["role"] == role:
            converted[-1]["content"] += blocks
        else:
            converted.append({"role": role, "content": blocks})
    return converted


def _convert_content(message: JsonObject) -> list[JsonObject]:
    if message["role"] == "tool":
        # An empty text is rejected.
        content = message["content"] or "(no output)"
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}]
    text = message.get("content") or ""
    blocks: list[JsonObject] = [{"type": "text", "text": text}] if text.strip() else []
    for call in message.get("tool_calls") or ():
        name, arguments = call["function"]["name"], _parse_arguments(call["function"]["arguments"])
        blocks.append({"type": "tool_use", "id": call["id"], "name": name, "input": arguments})
    return blocks or [{"type": "text", "text": "(empty)"}]


def _parse_arguments(text: str) -> JsonObject:
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        arguments = None
    return arguments if isinstance(arguments, dict) else {"invalid_arguments": text}


class MessageReader(AnswerState):
    """Reads the events of a message."""

    def __init__(self, longest_calls: int | None = None) -> None:
        """`longest_calls`: the characters of the arguments of calls that are kept; None: all."""
        super().__init__(longest_calls)
        self._usage: dict[str, int] = {}
        self._has_odd_usage = False

    def read_event(self, event: JsonObject) -> Iterator[str]:
        """Read one event; yield the pieces of text in it."""
        match event.get("type"):
            case "message_start":
                self.is_recognized = True
                self._read_usage(event["message"].get("usage"))
            case "content_block_start":
                yield from self._begin_block(event["index"], event["content_block"])
            case "content_block_delta":
                yield from self._read_delta(event["index"], event["delta"])
            case "message_delta":
                self._read_usage(event.get("usage"))
                self._read_finish(event["delta"])
            case "message_stop":
                self.is_over = True
            case "error":
                self._keep_error(event.get("error"))

    def read_whole(self, body: JsonObject) -> Iterator[str]:
        """Read a message that is not a stream; yield its text."""
        if body.get("type") == "error":
            self._keep_error(body.get("error"))
            return
        self.is_recognized = body.get("type") == "message"
        for index, block in enumerate(body["content"]):
            yield from self._begin_block(index, block)
            if block.get("type") == "tool_use":
                self._add_call_piece(index, "", "", json.dumps(block["input"]))
        self._read_usage(body.get("usage"))
        self._read_finish(body)

    def list_calls(self) -> tuple[Call, ...]:
        """Return the calls, in the order the model made them; a call without input gets an empty object."""
        calls = super().list_calls()
        return tuple(
            call if call.arguments else call.model_copy(update={"arguments": "{}"}) for call in calls
        )

    def get_tokens(self) -> Tokens | None:
        """Return the counts of the provider; its input tokens don't include those of the cache."""
        usage = self._usage
        if self._has_odd_usage or "output_tokens" not in usage:
            return None
        cached, stored = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
        return Tokens(
            read=usage.get("input_tokens", 0) + cached + stored,
            written=usage["output_tokens"],
            cached=cached,
            cache_written=stored,
        )

    def _begin_block(self, index: int, block: JsonObject) -> Iterator[str]:
        if block.get("type") == "text" and block.get("text"):
            yield require_text(block["text"])
        if block.get("type") == "tool_use":
            id_, name = require_text(block["id"]), require_text(block["name"])
            self._add_call_piece(index, id_, name, "")

    def _read_delta(self, index: int, delta: JsonObject) -> Iterator[str]:
        if delta.get("type") == "text_delta":
            yield require_text(delta["text"])
        if delta.get("type") == "input_json_delta":
            self._add_call_piece(index, "", "", require_text(delta["partial_json"]))

    def _read_finish(self, said: JsonObject) -> None:
        if reason := said.get("stop_reason"):
            self.finish = _FINISH.get(require_text(reason), reason)

    def _read_usage(self, usage: Any) -> None:
        """Remember the counts; those at the end of the stream are totals, and replace earlier ones."""
        if not isinstance(usage, dict):
            return
        for name, value in usage.items():
            if name.endswith("_tokens") and value is not None:
                try:
                    self._usage[name] = parse_count(value)
                except ValueError:
                    self._has_odd_usage = True
