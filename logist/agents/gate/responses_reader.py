"""Reads answers of OpenAI's responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from logist.agents.clients.answers import AnswerState, Tokens, parse_count, require_text
from logist.agents.clients.chat import read_cost
from logist.core.model import JsonObject

_TEXT_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_CUT = {"max_output_tokens": "length", "content_filter": "content_filter"}


class ResponsesReader(AnswerState):
    """Reads the events of a response."""

    def __init__(self, longest_calls: int | None = None) -> None:
        """`longest_calls`: the characters of the arguments of calls that are kept; None: all."""
        super().__init__(longest_calls)
        self._has_text = False
        self._usage: JsonObject | None = None

    def read_event(self, event: JsonObject) -> Iterator[str]:
        """Read one event; yield the pieces of text in it."""
        kind = event.get("type")
        self.is_recognized = self.is_recognized or str(kind).startswith("response.")
        if kind in _TEXT_DELTAS:
            self._has_text = True
            yield require_text(event["delta"])
        elif kind == "response.output_item.done":
            self._read_call(event["item"])
        elif kind in _LAST_EVENTS:
            yield from self._read_last(event["response"])
            self.is_over = True
        elif kind == "error":
            self._keep_error(event.get("error") or event)

    def read_whole(self, body: JsonObject) -> Iterator[str]:
        """Read an answer that is not a stream; yield its text."""
        self.is_recognized = body.get("object") == "response"
        for item in body.get("output") or ():
            self._read_call(item)
        yield from self._read_last(body)

    def get_tokens(self) -> Tokens | None:
        """Return the counts of the provider; None if it sent none that can be read."""
        usage = self._usage
        try:
            if usage is None or usage.get("output_tokens") is None:
                return None
            read, written = parse_count(usage.get("input_tokens")), parse_count(usage["output_tokens"])
            details, written_details = (
                usage.get(f"{name}_tokens_details") or {} for name in ("input", "output")
            )
            return Tokens(
                read=read,
                # Like chat completions: some providers leave reasoning out of the output, but not out of the total.
                written=max(written, parse_count(usage.get("total_tokens") or 0) - read),
                cached=parse_count(details.get("cached_tokens") or 0),
                cache_written=parse_count(details.get("cache_write_tokens") or 0),
                reasoning=parse_count(written_details.get("reasoning_tokens") or 0),
                reported_microcents=read_cost(usage),
            )
        except (ValueError, AttributeError):
            return None

    def _read_last(self, response: JsonObject) -> Iterator[str]:
        if not self._has_text:
            yield from _find_texts(response.get("output") or ())
        if isinstance(usage := response.get("usage"), dict):
            self._usage = usage
        status = response.get("status")
        if status == "incomplete":
            reason = require_text((response.get("incomplete_details") or {}).get("reason") or "length")
            self.finish = _CUT.get(reason, reason)
        elif status == "completed":
            self.finish = "tool_calls" if self._calls.count() else "stop"
        else:
            self._keep_error(response.get("error") or {"message": f"the response has the status {status}"})

    def _read_call(self, item: JsonObject) -> None:
        kind = require_text(item.get("type"))
        if not kind.endswith("_call"):
            return
        id_, name = item.get("call_id") or item.get("id") or "", item.get("name") or kind
        arguments = item.get("arguments") or item.get("input") or item.get("action") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        self._add_call_piece(self._calls.count(), str(id_), require_text(name), arguments)


def _find_texts(output: Any) -> Iterator[str]:
    for item in output:
        for part in (item.get("content") or ()) if item.get("type") == "message" else ():
            if text := part.get("text") or part.get("refusal"):
                yield require_text(text)
