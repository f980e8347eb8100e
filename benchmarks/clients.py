"""What one model call costs the client: CPU of a fresh process that makes none, one or more streamed calls.

Compares the built-in client with httpx alone, the standard library, the client of OpenAI and litellm. The model is a server on
127.0.0.1 that answers at once, over HTTP without TLS; its CPU is not counted.

Run: python benchmarks/clients.py [--runs 5] [--more 100]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from measure import cpu_ms, table

WORDS = ("The", "answer", "has", "some", "words", "as", "many", "as", "a", "short", "one", "has")
BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Say something."}],
    "max_tokens": 100,
    "stream": True,
    "stream_options": {"include_usage": True},
}

LOGIST_CLIENT = """
import sys
from logist.agents.clients import loading
from logist.agents.protocol import Ask, Sending
from logist.core.model import Model, Provider, Request

url, count = sys.argv[1], int(sys.argv[2])
provider = PROVIDER
model = Model(name="m", provider_model="openai/m", endpoint=url)
ask = Ask(request=Request(prompt="p"), model=model, role="r", max_output_tokens=100, provider=provider)
client = loading.load_client(ask)
messages = [{"role": "user", "content": "Say something."}]
for _ in range(count):
    pieces = []
    answer = client.call_model(ask, Sending(messages, [], 100, False), "key", 60.0, pieces.append)
    assert answer.tokens is not None and len("".join(pieces)) > 40, answer
"""
BUILT_IN = LOGIST_CLIENT.replace(
    "PROVIDER", 'Provider(name="openai", base_url=url, protocol="openai", model="m")'
)
LITELLM = LOGIST_CLIENT.replace("PROVIDER", "None")
HTTPX = """
import json, sys
import httpx

url, count, body = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
for _ in range(count):
    pieces, usage = [], None
    with httpx.Client() as client, client.stream("POST", f"{url}/chat/completions", json=body) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                event = json.loads(line[6:])
                pieces += [choice["delta"].get("content") or "" for choice in event["choices"]]
                usage = event.get("usage") or usage
    assert usage and len("".join(pieces)) > 40
"""
STANDARD = """
import http.client, json, ssl, sys
from urllib.parse import urlsplit

url, count, body = urlsplit(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
for _ in range(count):
    pieces, usage = [], None
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.request("POST", f"{url.path}/chat/completions", body, {"content-type": "application/json"})
    for line in connection.getresponse():
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            pieces += [choice["delta"].get("content") or "" for choice in event["choices"]]
            usage = event.get("usage") or usage
    connection.close()
    assert usage and len("".join(pieces)) > 40
"""
OPENAI = """
import json, sys
import openai

url, count, body = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
client = openai.OpenAI(base_url=url, api_key="key")
for _ in range(count):
    pieces, usage = [], None
    for event in client.chat.completions.create(**body):
        pieces += [choice.delta.content or "" for choice in event.choices]
        usage = event.usage or usage
    assert usage and len("".join(pieces)) > 40
"""
CLIENTS = {
    "standard library": STANDARD,
    "httpx alone": HTTPX,
    "built-in client": BUILT_IN,
    "openai": OPENAI,
    "litellm": LITELLM,
}


class Handler(BaseHTTPRequestHandler):
    """Answers each request with a stream of words and the usage."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(ANSWER)


def build_answer() -> bytes:
    """Return the events of an answer: one for each word, the reason of the end, the usage."""
    usage = {"prompt_tokens": 9, "completion_tokens": len(WORDS), "total_tokens": 9 + len(WORDS)}
    choices: list[dict[str, Any]] = [
        {"delta": {"content": f"{word} "}, "finish_reason": None} for word in WORDS
    ]
    choices.append({"delta": {}, "finish_reason": "stop"})
    frame = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    frames = [{**frame, "choices": [{"index": 0, **choice}]} for choice in choices]
    frames.append({**frame, "choices": [], "usage": usage})
    return b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in frames) + b"data: [DONE]\n\n"


ANSWER = build_answer()


@contextmanager
def serve() -> Iterator[str]:
    """Yield the base address of a model that answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--more", type=int, default=100, help="further calls in one process")
    options = parser.parse_args()
    rows: list[list[object]] = [["CPU in ms", "imports", "and a call", "each further call"]]
    with tempfile.TemporaryDirectory() as folder, serve() as url:
        for name, code in CLIENTS.items():
            argv = [sys.executable, "-c", code, url]
            imports, one, all_calls = (
                cpu_ms([*argv, str(count), json.dumps(BODY)], Path(folder), options.runs)
                for count in (0, 1, 1 + options.more)
            )
            rows.append([name, imports, one, (all_calls - one) / options.more])
    table(rows)


if __name__ == "__main__":
    main()
