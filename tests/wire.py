"""Answers of a model in the four formats that programs speak: OpenAI chat and responses, Anthropic, Gemini."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Events = Iterator[tuple[str | None, Json]]
"""What is streamed: the name of an event, where the format has one, and its data."""

SIZE = 24
"""Characters in a streamed piece of text."""

SHELLS = (
    "Bash",
    "bash",
    "run_shell_command",
    "exec_command",
    "shell_command",
    "shell",
    "execute_command",
    "run_commands",
)
WRITERS = ("Write", "write", "write_file", "write_to_file", "editor", *SHELLS)


@dataclass(frozen=True)
class Called:
    """A tool that the model calls."""

    id: str
    name: str
    arguments: Json | str
    """A text for a tool that takes free text."""


@dataclass(frozen=True)
class Answer:
    """What the model says, in no format yet."""

    model: str
    number: int
    text: str
    calls: tuple[Called, ...]
    read: int
    """Tokens of input, the cached ones included."""
    cached: int
    written: int
    cut: bool
    """It ended at the limit of the output."""
    thought: str = ""
    """What the model thought before it answered, where the format has a place for it."""


def answer(step: Json, body: Json, model: str, number: int, workspace: str) -> Answer:
    """One step of a script, as an answer to this request."""
    offered = tools(body)
    calls = tuple(
        Called(f"call_{number:04d}_{index}", *_call(call, offered, workspace))
        for index, call in enumerate(step.get("calls", ()))
    )
    usage = step.get("usage", {})
    return Answer(
        model,
        number,
        step.get("text", ""),
        calls,
        usage.get("input", 1000),
        usage.get("cached", 0),
        usage.get("output", 50),
        step.get("cut", False),
        step.get("thought", ""),
    )


def tools(body: Json) -> dict[str, Json]:
    """The tools that a request offers: their names, and the properties of their arguments."""
    found: dict[str, Json] = {}
    for tool in body.get("tools") or ():
        for one in (tool, tool.get("function"), *tool.get("functionDeclarations", ())):
            if isinstance(one, dict) and "name" in one:
                schemas = (one.get(key) for key in ("parameters", "input_schema", "parametersJsonSchema"))
                schema: Json = next(filter(None, schemas), {})
                found[one["name"]] = schema.get("properties", {})
    return found


def _call(call: Json, offered: dict[str, Json], workspace: str) -> tuple[str, Json | str]:
    """`{"write": [PATH, CONTENT]}` or `{"shell": LINE}` as a call of a tool that is offered; `{"tool": [NAME, ARGUMENTS]}`
    as it is.
    """
    if "tool" in call:
        name, arguments = call["tool"]
        return name, arguments
    if "write" in call:
        path, content = call["write"]
        name = _first(WRITERS, offered)
        place = f"{workspace}/{path}" if not path.startswith("/") else path
        known = dict.fromkeys(("file_path", "filePath", "path", "absolutePath"), place)
        known |= {"content": content, "new_text": content}
        if name not in SHELLS:
            return name, {key: known[key] for key in offered[name] if key in known}
        call = {"shell": f"printf '%s' '{content}' > '{path}'"}
    name = _first(SHELLS, offered)
    line, properties = call["shell"], offered[name]
    listed = properties.get("command", {}).get("type") == "array"
    known = {"command": ["bash", "-c", line] if listed else line, "cmd": line, "commands": [line]}
    known |= {"description": "runs a command", "requires_approval": False}
    return name, {key: known[key] for key in properties if key in known}


def _first(names: tuple[str, ...], offered: dict[str, Json]) -> str:
    return next((name for name in names if name in offered), names[0] if not offered else min(offered))


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + SIZE] for start in range(0, len(text), SIZE))


# ---- OpenAI chat


def _chat_end(said: Answer) -> tuple[str, Json]:
    finish = "length" if said.cut else "tool_calls" if said.calls else "stop"
    usage = {
        "prompt_tokens": said.read,
        "completion_tokens": said.written,
        "total_tokens": said.read + said.written,
        "prompt_tokens_details": {"cached_tokens": said.cached},
    }
    return finish, usage


def _chat_calls(said: Answer) -> list[Json]:
    return [
        {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for index, call in enumerate(said.calls)
    ]


def _chat(said: Answer) -> Json:
    finish, usage = _chat_end(said)
    message: Json = {"role": "assistant", "content": said.text or None}
    if said.thought:
        message["reasoning_content"] = said.thought
    if said.calls:
        message["tool_calls"] = _chat_calls(said)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return _chat_frame(said, "chat.completion") | {"choices": [choice], "usage": usage}


def _chat_frame(said: Answer, kind: str) -> Json:
    return {"id": f"chatcmpl-{said.number}", "object": kind, "created": 1700000000, "model": said.model}


def _chat_stream(said: Answer) -> Events:
    frame = _chat_frame(said, "chat.completion.chunk")
    finish, usage = _chat_end(said)

    def delta(part: Json, reason: str | None = None) -> tuple[None, Json]:
        return None, frame | {"choices": [{"index": 0, "delta": part, "finish_reason": reason}]}

    yield delta({"role": "assistant", "content": ""})
    for piece in _pieces(said.text):
        yield delta({"content": piece})
    for call in _chat_calls(said):
        yield delta({"tool_calls": [call]})
    yield delta({}, finish)
    yield None, frame | {"choices": [], "usage": usage}


# ---- OpenAI responses


def _responses_items(said: Answer) -> list[Json]:
    items: list[Json] = []
    if said.thought:
        thought = [{"type": "summary_text", "text": said.thought}]
        items.append({"type": "reasoning", "id": f"rs_{said.number}", "summary": thought})
    if said.text:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        message = {"type": "message", "id": f"msg_{said.number}", "status": "completed"}
        items.append(message | {"role": "assistant", "content": content})
    for index, call in enumerate(said.calls):
        if isinstance(call.arguments, str):
            head = {"type": "custom_tool_call", "id": f"ctc_{said.number}_{index}", "status": "completed"}
            items.append(head | {"call_id": call.id, "name": call.name, "input": call.arguments})
            continue
        head = {"type": "function_call", "id": f"fc_{said.number}_{index}", "status": "completed"}
        namespace, _, name = call.name.rpartition("/")  # Codex has the tools of an MCP server in a namespace
        tail = {"call_id": call.id, "name": name, "arguments": json.dumps(call.arguments)}
        tail |= {"namespace": namespace} if namespace else {}
        items.append(head | tail)
    return items


def _responses(said: Answer, done: bool = True) -> Json:
    status = ("incomplete" if said.cut else "completed") if done else "in_progress"
    return {
        "id": f"resp_{said.number}",
        "object": "response",
        "created_at": 1700000000,
        "model": said.model,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "output": _responses_items(said) if done else [],
        "usage": {
            "input_tokens": said.read,
            "input_tokens_details": {"cached_tokens": said.cached},
            "output_tokens": said.written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": said.read + said.written,
        },
    }


_RESPONSES_EMPTY: dict[str, Json] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    "reasoning": {"summary": []},
}


def _responses_stream(said: Answer) -> Events:
    numbers = itertools.count()

    def event(kind: str, **fields: Any) -> tuple[str, Json]:
        return kind, {"type": kind, "sequence_number": next(numbers), **fields}

    yield event("response.created", response=_responses(said, done=False))
    for index, item in enumerate(_responses_items(said)):
        where = {"output_index": index, "item_id": item["id"]}
        empty: Json = _RESPONSES_EMPTY[item["type"]]
        opened = item | {"status": "in_progress"} | empty
        yield event("response.output_item.added", output_index=index, item=opened)
        if item["type"] == "message":
            for piece in _pieces(said.text):
                yield event("response.output_text.delta", **where, content_index=0, delta=piece)
        yield event("response.output_item.done", output_index=index, item=item)
    last = _responses(said)
    yield event(f"response.{last['status']}", response=last)


# ---- Anthropic messages


def _anthropic_blocks(said: Answer) -> list[Json]:
    signed = {"signature": "c2NyaXB0ZWQ="}
    blocks: list[Json] = [{"type": "thinking", "thinking": said.thought, **signed}] if said.thought else []
    blocks += [{"type": "text", "text": said.text}] if said.text else []
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in said.calls
    ]


def _anthropic(said: Answer) -> Json:
    return {
        "id": f"msg_{said.number}",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": _anthropic_blocks(said),
        "stop_reason": "max_tokens" if said.cut else "tool_use" if said.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": said.read - said.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": said.cached,
            "output_tokens": said.written,
        },
    }


def _anthropic_deltas(block: Json) -> tuple[Json, list[Json]]:
    """What a block is when it opens, and the pieces that follow."""
    if block["type"] == "text":
        return {"text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    if block["type"] == "thinking":
        pieces = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        end = {"type": "signature_delta", "signature": block["signature"]}
        return {"thinking": "", "signature": ""}, [*pieces, end]
    return {"input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]


def _anthropic_stream(said: Answer) -> Events:
    whole = _anthropic(said)
    yield "message_start", {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}}
    for index, block in enumerate(_anthropic_blocks(said)):
        empty, deltas = _anthropic_deltas(block)
        opened = block | empty
        yield (
            "content_block_start",
            {"type": "content_block_start", "index": index, "content_block": opened},
        )
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": whole["usage"]}
    yield "message_stop", {"type": "message_stop"}


# ---- Gemini


def _gemini_piece(said: Answer, parts: list[Json], last: bool) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    piece: Json = {"candidates": [candidate], "modelVersion": said.model, "responseId": f"r{said.number}"}
    if last:
        candidate["finishReason"] = "MAX_TOKENS" if said.cut else "STOP"
        piece["usageMetadata"] = {
            "promptTokenCount": said.read,
            "candidatesTokenCount": said.written,
            "totalTokenCount": said.read + said.written,
            "cachedContentTokenCount": said.cached,
        }
    return piece


def _gemini_calls(said: Answer) -> list[Json]:
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}} for call in said.calls
    ]


def _gemini(said: Answer) -> Json:
    text = [{"text": said.text}] if said.text else []
    return _gemini_piece(said, text + _gemini_calls(said), last=True)


def _gemini_stream(said: Answer) -> Events:
    for piece in _pieces(said.text):
        yield None, _gemini_piece(said, [{"text": piece}], last=False)
    yield None, _gemini_piece(said, _gemini_calls(said), last=True)


PLAIN: dict[str, Callable[[Answer], Json]] = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
STREAM: dict[str, Callable[[Answer], Events]] = {
    "chat": _chat_stream,
    "responses": _responses_stream,
    "anthropic": _anthropic_stream,
    "gemini": _gemini_stream,
}

_KINDS = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
_GOOGLE = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}


def error(form: str, status: int, message: str, code: str | None = None) -> Json:
    """A refusal, in the shape of the format."""
    kind = _KINDS.get(status, "api_error")
    if form == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    if form == "gemini":
        return {"error": {"code": status, "message": message, "status": _GOOGLE.get(status, "UNKNOWN")}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
