"""OpenAI's chat completions, which most providers offer: the request, and the events of the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from logist.agents.clients.answers import AnswerState, Tokens, parse_count, require_text
from logist.agents.protocol import Ask, Sending
from logist.core.model import JsonObject, Provider

_LIMIT_FIELDS = {"openai": "max_completion_tokens", "groq": "max_completion_tokens"}
"""Providers that renamed `max_tokens`; servers that imitate them know only the old name."""
_NO_STREAM_OPTIONS = frozenset({"mistral"})
"""Providers that reject `stream_options`, and send the usage without it."""
_ASKED_FOR_USAGE = frozenset({"openrouter"})
"""Providers that report the cost if `usage.include` is set."""
_FIXED_TEMPERATURE = re.compile(r"\A(o\d|gpt-5)")
"""OpenAI's reasoning models, which reject a temperature."""
_MICROCENTS_IN_DOLLAR = 100_000_000


def build_url(base_url: str) -> str:
    """Return the address of a request; a query of the base stays at its end."""
    base, mark, query = base_url.partition("?")
    return f"{base.rstrip('/').removesuffix('/chat/completions')}/chat/completions{mark}{query}"


def build_headers(api_key: str | None) -> dict[str, str]:
    """Return the headers with the key."""
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


def build_body(ask: Ask, sending: Sending) -> JsonObject:
    """Return the request as JSON."""
    provider = ask.provider
    assert provider is not None
    is_own_address = ask.model.endpoint is None
    body: JsonObject = {
        "model": provider.model,
        "messages": list(sending.messages),
        get_limit_field(ask): sending.max_output_tokens,
        "stream": True,
        **ask_for_usage(provider),
    }
    if sending.tools:
        body["tools"] = list(sending.tools)
        body["tool_choice"] = "auto" if sending.may_call else "none"
    if sending.form:
        body["response_format"] = {"type": "json_schema", "json_schema": dict(sending.form)}
    has_fixed_temperature = (
        is_own_address and provider.name == "openai" and _FIXED_TEMPERATURE.match(provider.model)
    )
    if ask.temperature is not None and not has_fixed_temperature:
        body["temperature"] = ask.temperature
    return body


def get_limit_field(ask: Ask) -> str:
    """Return the name of the field with the limit of the answer."""
    assert ask.provider is not None
    return _LIMIT_FIELDS.get(ask.provider.name, "max_tokens") if ask.model.endpoint is None else "max_tokens"


def ask_for_usage(provider: Provider) -> JsonObject:
    """Return the fields with which the provider reports the usage of a streamed answer."""
    fields: JsonObject = {}
    if provider.name not in _NO_STREAM_OPTIONS:
        fields["stream_options"] = {"include_usage": True}
    if provider.name in _ASKED_FOR_USAGE:
        fields["usage"] = {"include": True}
    return fields


class ChatReader(AnswerState):
    """Reads the chunks of a chat completion."""

    def __init__(self, longest_calls: int | None = None) -> None:
        """`longest_calls`: the characters of the arguments of calls that are kept; None: all."""
        super().__init__(longest_calls)
        self._places: dict[int, int] = {}
        """For each index of the provider, the index of the call that its pieces belong to now."""
        self._counts: dict[str, int] = {}
        """The highest counts the provider sent."""
        self._has_odd_usage = False
        self._cost: int | None = None

    def read_event(self, event: JsonObject) -> Iterator[str]:
        """Read one chunk; yield the pieces of text in it."""
        self._read_frame(event)
        for choice in event.get("choices") or ():
            yield from self._read_message(choice.get("delta") or {})
            self._read_finish(choice)

    def read_whole(self, body: JsonObject) -> Iterator[str]:
        """Read an answer that is not a stream; yield its text."""
        self._read_frame(body)
        for choice in body.get("choices") or ():
            yield from self._read_message(choice.get("message") or {}, is_whole=True)
            self._read_finish(choice)

    def get_tokens(self) -> Tokens | None:
        """Return the highest counts the provider sent; None if it sent none.

        Some providers leave reasoning out of `completion_tokens`, but not out of the total, and all bill it.
        """
        counts = self._counts
        if self._has_odd_usage or "prompt" not in counts or not counts.keys() & {"completion", "total"}:
            return None
        read = counts["prompt"]
        return Tokens(
            read=read,
            written=max(counts.get("completion", 0), counts.get("total", 0) - read),
            cached=counts.get("cached", 0),
            cache_written=counts.get("cache_written", 0),
            reasoning=counts.get("reasoning", 0),
            reported_microcents=self._cost,
        )

    def _read_frame(self, frame: JsonObject) -> None:
        self.is_recognized = self.is_recognized or "choices" in frame
        if error := frame.get("error"):
            self._keep_error(error)
        usage = frame.get("usage") or (frame.get("x_groq") or {}).get("usage")
        if isinstance(usage, dict):
            self._read_usage(usage)
            # After the usage alone nothing follows but `[DONE]`, and a few servers forget that.
            self.is_over = self.finish is not None and frame.get("choices") == []

    def _read_usage(self, usage: JsonObject) -> None:
        prompt = usage.get("prompt_tokens_details") or {}
        completion = usage.get("completion_tokens_details") or {}
        try:
            self._add_count("prompt", usage.get("prompt_tokens"))
            self._add_count("completion", usage.get("completion_tokens"))
            self._add_count("total", usage.get("total_tokens"))
            self._add_count("cached", usage.get("prompt_cache_hit_tokens"))
            self._add_count("cached", prompt.get("cached_tokens"))
            self._add_count("cache_written", prompt.get("cache_write_tokens"))
            self._add_count("reasoning", completion.get("reasoning_tokens"))
        except (ValueError, AttributeError):
            self._has_odd_usage = True
        cost = read_cost(usage)
        self._cost = self._cost if cost is None else cost

    def _add_count(self, name: str, value: Any) -> None:
        if value is not None:
            self._counts[name] = max(self._counts.get(name, 0), parse_count(value))

    def _read_message(self, message: JsonObject, *, is_whole: bool = False) -> Iterator[str]:
        content = message.get("content")
        if isinstance(content, list):  # some providers send parts, with reasoning among them
            content = "".join(part.get("text") or "" for part in content if part.get("type") == "text")
        for text in (content, message.get("refusal")):
            if text:
                yield require_text(text)
        for number, piece in enumerate(message.get("tool_calls") or ()):
            self._add_call(piece, number if is_whole else int(piece.get("index") or 0))

    def _add_call(self, piece: JsonObject, index: int) -> None:
        function, id_ = piece.get("function") or {}, piece.get("id") or ""
        place = self._places.setdefault(index, len(self._places))
        known = self._calls.get_id(place)
        if id_ and known and id_ != known:  # some providers send several calls with the same index
            place = self._places[index] = self._calls.count()
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # a few servers send an object instead of text
            arguments = json.dumps(arguments)
        name = require_text(function.get("name") or "")
        self._add_call_piece(place, str(id_), name, require_text(arguments or ""))
        if isinstance(extra := piece.get("extra_content"), dict):
            self._calls_size += self._calls.add_extra_content(place, json.dumps(extra))

    def _read_finish(self, choice: JsonObject) -> None:
        reason = choice.get("finish_reason")
        if reason == "error":
            self.error = self.error or str((choice.get("error") or {}).get("message") or "no message")
        elif reason:
            self.finish = require_text(reason)


def read_cost(usage: JsonObject) -> int | None:
    """Return the cost in microcents that the provider reports in US dollars, as OpenRouter does."""
    cost: Any = usage.get("cost")
    if not isinstance(cost, int | float) or isinstance(cost, bool) or not 0 <= cost < 1e9:
        return None
    return round(Fraction(str(cost)) * _MICROCENTS_IN_DOLLAR)
