"""Makes requests with the clients of two providers: what they read is the reference for the built-in client.

Runs in .venv-model. Reads a list of `[protocol, base URL, key, arguments]` as JSON, and writes a list of what each client says
about the answer, in the words of chat completions; or the name of the exception it raises.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]
SECONDS = 120.0


def ask_openai(url: str, key: str, arguments: Json) -> Json:
    """Return what the client of OpenAI makes of a streamed chat completion."""
    import openai
    from openai.lib.streaming.chat import ChatCompletionStreamState

    state: Any = ChatCompletionStreamState()
    arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    with openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=SECONDS) as client:
        for chunk in client.chat.completions.create(**arguments):
            state.handle_chunk(chunk)
    answer = state.current_completion_snapshot.model_dump(warnings=False)
    choice, usage = answer["choices"][0], answer["usage"] or {}
    message = choice["message"]
    read, written = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    return {
        "text": (message["content"] or "") + (message["refusal"] or ""),
        "finish": choice.get("finish_reason"),
        "calls": [
            [call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])]
            for call in message["tool_calls"] or ()
        ],
        "read": read,
        "written": max(written, usage.get("total_tokens", 0) - read),
        "cached": (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        "reasoning": (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0,
    }


FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}


def ask_anthropic(url: str, key: str, arguments: Json) -> Json:
    """Return what the client of Anthropic makes of a streamed message."""
    import anthropic  # type: ignore[import-not-found]

    base = url.removesuffix("/v1")
    client = anthropic.Anthropic(base_url=base, api_key=key, max_retries=0, timeout=SECONDS)
    with client, client.messages.stream(**arguments) as stream:
        answer = stream.get_final_message().model_dump()
    usage, blocks = answer["usage"], answer["content"]
    cached, stored = usage["cache_read_input_tokens"] or 0, usage["cache_creation_input_tokens"] or 0
    return {
        "text": "".join(block["text"] for block in blocks if block["type"] == "text"),
        "finish": FINISH.get(answer["stop_reason"], answer["stop_reason"]),
        "calls": [
            [block["id"], block["name"], block["input"]] for block in blocks if block["type"] == "tool_use"
        ],
        "read": usage["input_tokens"] + cached + stored,
        "written": usage["output_tokens"],
        "cached": cached,
        "reasoning": 0,
    }


def ask(protocol: str, url: str, key: str, arguments: Json) -> Json:
    """Return what the client of a protocol makes of an answer."""
    try:
        return (ask_anthropic if protocol == "anthropic" else ask_openai)(url, key, arguments)
    except Exception as error:  # noqa: BLE001  any exception of a client is a result
        return {"error": type(error).__name__, "message": str(error)}


if __name__ == "__main__":
    json.dump([ask(*each) for each in json.load(sys.stdin)], sys.stdout)
