"""Reads answers of Gemini."""

from __future__ import annotations

import json
from collections.abc import Iterator

from logist.agents.clients.answers import AnswerState, Tokens, parse_count, require_text
from logist.core.model import JsonObject

_FILTERS = frozenset({"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"})


class GeminiReader(AnswerState):
    """Reads the pieces of `streamGenerateContent`; each has the form of a whole answer. Nothing marks the last one."""

    def __init__(self, longest_calls: int | None = None) -> None:
        """`longest_calls`: the characters of the arguments of calls that are kept; None: all."""
        super().__init__(longest_calls)
        self._counts: dict[str, int] = {}
        """The highest counts so far: each piece has those of everything before it."""
        self._has_odd_usage = False

    def read_event(self, event: JsonObject) -> Iterator[str]:
        """Read one piece; yield the text in it."""
        self.is_recognized = self.is_recognized or "candidates" in event or "promptFeedback" in event
        if error := event.get("error"):
            self._keep_error(error)
        for candidate in event.get("candidates") or ():
            for part in (candidate.get("content") or {}).get("parts") or ():
                if part.get("text") and not part.get("thought"):
                    yield require_text(part["text"])
                if call := part.get("functionCall"):
                    self._add_call(call)
            if reason := candidate.get("finishReason"):
                self.finish = self._name_finish(require_text(reason))
        if (event.get("promptFeedback") or {}).get("blockReason"):
            self.finish = "content_filter"
        self._read_usage(event.get("usageMetadata") or {})

    def read_whole(self, body: JsonObject) -> Iterator[str]:
        """Read an answer that is not a stream; yield its text."""
        return self.read_event(body)

    def get_tokens(self) -> Tokens | None:
        """Return the counts of the provider; None if it sent none that can be read."""
        counts = self._counts
        if self._has_odd_usage or "prompt" not in counts or not counts.keys() & {"candidates", "total"}:
            return None
        read = counts["prompt"] + counts.get("toolUsePrompt", 0)
        reasoning = counts.get("thoughts", 0)
        written = counts.get("candidates", 0) + reasoning
        return Tokens(
            read=read,
            written=max(written, counts.get("total", 0) - read),
            cached=counts.get("cachedContent", 0),
            reasoning=reasoning,
        )

    def _name_finish(self, reason: str) -> str:
        if reason == "STOP":
            return "tool_calls" if self._calls.count() else "stop"
        return (
            "length" if reason == "MAX_TOKENS" else "content_filter" if reason in _FILTERS else reason.lower()
        )

    def _add_call(self, call: JsonObject) -> None:
        id_, name = str(call.get("id") or ""), require_text(call["name"])
        arguments = json.dumps(call.get("args") or {})
        self._add_call_piece(self._calls.count(), id_, name, arguments)

    def _read_usage(self, usage: JsonObject) -> None:
        for name, value in usage.items():
            if name.endswith("TokenCount") and value is not None:
                try:
                    count = parse_count(value)
                except ValueError:
                    self._has_odd_usage = True
                else:
                    name = name.removesuffix("TokenCount")
                    self._counts[name] = max(self._counts.get(name, 0), count)
