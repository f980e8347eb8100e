"""Bounds the input tokens of a request from what it contains.

Each token of text is at least one byte, and the JSON of a text is at least as long as the text. So the length of the body
bounds the text, however the format divides it. Three things cost more tokens than they have bytes: what providers add to
messages and tools, images, and what is only named by an id or an address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logist.agents.gate.recorder import Format
from logist.core.model import JsonObject
from logist.core.money.money import MESSAGE_TOKENS
from logist.quick_tuple import NamedTuple

IMAGE_TOKENS = 50_000
"""The most that an image costs with any known provider: 8 tiles of 5,667 tokens, and 2,833 for the whole image."""
PROVIDER_TOOL_TOKENS = 1024
"""The most that the description of a tool costs that the provider has, such as Anthropic's `bash_20250124`."""
SYSTEM_TOKENS = 1024
"""The most that a provider adds to a request with tools."""

_IMAGES = frozenset({"image_url", "image", "input_image", "computer_screenshot"})
_SOUNDS = frozenset({"input_audio", "audio", "video", "video_url", "input_video"})
_ONLY_BYTES = frozenset(
    {
        *("text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal"),
        *("thinking", "redacted_thinking", "reasoning", "message", "search_result"),
        *("tool_use", "tool_result", "server_tool_use", "web_search_tool_result", "tool_reference"),
        *("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
        *("local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output"),
        *("apply_patch_call", "apply_patch_call_output", "computer_call", "computer_call_output"),
        *("tool_search_call", "tool_search_output", "agent_message", "additional_tools"),
    }
)
"""The types of parts that have all that they cost in the request; others may name a file or something stored."""
_CONTENTS = ("content", "output", "parts")
_STORED = ("previous_response_id", "conversation", "cachedContent")
"""Fields of a request that name what the provider has stored."""


class UnboundedRequest(ValueError):
    """A request whose cost can't be bounded; the message says why."""


class _Part(NamedTuple):
    """What a part of the content costs in addition to its bytes."""

    tokens: int = 0
    is_unknown: bool = False
    """It may have as many tokens as the model can read."""


def bound_input(form: Format, body: JsonObject, size: int, context_window: int | None) -> int:
    """Return an upper bound of the input tokens of a request; `size`: the bytes of the body.

    Raises UnboundedRequest if nothing bounds them.
    """
    entries = _list_entries(form, body)
    parts = [part for entry in entries for part in _find_parts(form, entry)]
    tools = body.get("tools")
    tokens = size + (len(entries) + 2) * MESSAGE_TOKENS + sum(part.tokens for part in parts)
    if isinstance(tools, list) and tools:
        own = sum(tool.get("type", "custom") not in ("custom", "function") for tool in tools)
        tokens += SYSTEM_TOKENS + len(tools) * MESSAGE_TOKENS + (own * PROVIDER_TOOL_TOKENS)
    is_stored = any(body.get(name) is not None for name in _STORED)
    if _get(body, "extra_body", "google", "cached_content") is not None:  # Gemini's chat completions
        is_stored = True
    if is_stored or any(part.is_unknown for part in parts):
        if context_window is None:
            raise UnboundedRequest(
                "it names a file or stored content, and how much that costs is unknown without a context window"
            )
        tokens = max(tokens, context_window)
    return tokens


def _list_entries(form: Format, body: JsonObject) -> list[JsonObject]:
    """Return the messages, or what the format has instead, with the system message."""
    if form == "gemini":
        messages, system = body.get("contents"), body.get("systemInstruction")
    elif form == "responses":
        messages, system = body.get("input"), None
    else:
        messages, system = body.get("messages"), body.get("system")
    if isinstance(messages, str | dict):  # a single text, or Gemini's single content
        messages = [messages]
    entries = messages if isinstance(messages, list) else []
    entries = [entry if isinstance(entry, dict) else {"content": entry} for entry in entries]
    return [*entries, system if isinstance(system, dict) else {"content": system}]


def _find_parts(form: Format, entry: JsonObject) -> Iterator[_Part]:
    """Yield the parts of a message that cost more than their bytes."""
    if form != "gemini":
        yield from _judge_part(entry, default="message")
        return
    for part in _list(entry.get("parts")):
        yield from _judge_gemini_part(part)


def _judge_part(part: JsonObject, default: str = "") -> Iterator[_Part]:
    kind = part.get("type", default)
    if kind in _SOUNDS or part.get("audio") is not None:
        raise UnboundedRequest("sound and video have other prices than text")
    if kind in _IMAGES:
        yield _Part(IMAGE_TOKENS - _measure_inline_image(part))
    elif kind == "reasoning":
        # Without its content, the provider has stored it, and reads that.
        yield _Part(is_unknown=part.get("id") is not None and not part.get("encrypted_content"))
    elif kind not in _ONLY_BYTES and not (kind == "document" and _get(part, "source", "type") == "text"):
        yield _Part(is_unknown=True)
    for name in _CONTENTS:
        for inner in _list(part.get(name)):
            yield from _judge_part(inner)


def _judge_gemini_part(part: JsonObject) -> Iterator[_Part]:
    for inner in _list(_get(part, "functionResponse", "parts")):
        yield from _judge_gemini_part(inner)
    for name in ("inlineData", "fileData"):
        if name not in part:
            continue
        data = part[name] if isinstance(part[name], dict) else {}
        mime_type = str(data.get("mimeType") or "")
        if mime_type.startswith("image/"):
            inline = data.get("data")
            yield _Part(IMAGE_TOKENS - (len(inline) if isinstance(inline, str) else 0))
        elif mime_type.startswith(("audio/", "video/")):
            raise UnboundedRequest("sound and video have other prices than text")
        else:
            yield _Part(is_unknown=True)


def _measure_inline_image(part: JsonObject) -> int:
    """Return the length of an image that is in the request: these bytes are not text."""
    url = part.get("image_url")
    url = url.get("url") if isinstance(url, dict) else url
    if isinstance(url, str) and url.startswith("data:"):
        return len(url.encode("utf-8", "replace"))
    data = _get(part, "source", "data")
    return len(data.encode("utf-8", "replace")) if isinstance(data, str) else 0


def _list(value: Any) -> list[JsonObject]:
    """Return the objects in a list, or a single one as a list."""
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, dict)]


def _get(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
