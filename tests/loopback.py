"""The tests' model: an OpenAI-compatible chat endpoint on 127.0.0.1 that answers from a script.

A step is one answer; the last one is repeated. Its keys, all optional:

text, finish, usage   the answer; usage is {"input": n, "output": n, "cached": n}, or None to tell none
calls                 tools that are called, [{"name": n, "args": object or text, "id": i}]
gate                  a threading.Event: the answer waits until it is set
delay, chunk_delay    seconds before the answer, and before each streamed piece; both end with the server
chunk                 characters a streamed piece carries
status, message, headers   an error in OpenAI's shape
close                 "before": hang up without a byte; "middle": hang up half way
raw, type             a whole body with status 200, as it is
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]

GATE_SECONDS = 120.0
"""A test whose gate is closed this long has failed."""


@dataclass(frozen=True)
class Received:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: Json


class Loopback:
    """The server; it listens inside `with`."""

    def __init__(self, *steps: Json) -> None:
        self.steps: Sequence[Json] = steps
        self.requests: list[Received] = []
        self.closing = threading.Event()
        self.arrived = threading.Condition()
        self.at_work = self.most_at_work = 0

    def __enter__(self) -> Loopback:
        self.server = _Server(("127.0.0.1", 0), _handler(self))
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def url(self) -> str:
        """The base address, as a client wants it."""
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def wait_for(self, count: int, seconds: float = 300.0) -> None:
        """Until so many requests have come in."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.requests) >= count, seconds), "no request came"

    def take(self, received: Received) -> Json:
        """Records a request; the step that answers it."""
        with self.arrived:
            self.requests.append(received)
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            self.arrived.notify_all()
            return self.steps[min(len(self.requests), len(self.steps)) - 1]


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for the answers that are still going out


def _handler(loopback: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        owner = loopback

    return Handler


class _Handler(BaseHTTPRequestHandler):
    owner: Loopback
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        sent = self.rfile.read(size)
        if len(sent) < size:
            return  # a client that died half way: nothing was asked
        body = json.loads(sent)
        headers = {name.lower(): value for name, value in self.headers.items()}
        step = self.owner.take(Received(self.path, headers, body))
        self.close_connection = True
        try:
            self._answer(step, body)
        except ConnectionError:
            return  # a client may leave at any time

    def _answer(self, step: Json, body: Json) -> None:
        if "gate" in step:
            step["gate"].wait(GATE_SECONDS)
        self.owner.closing.wait(step.get("delay", 0))
        with self.owner.arrived:
            self.owner.at_work -= 1  # before the client can know the answer, and make its next call
        if self.owner.closing.is_set() or step.get("close") == "before":
            self._hang_up()
        elif not self.path.endswith("/chat/completions"):
            self._send(404, _error(404, f"nothing at {self.path}"))
        elif "status" in step:
            error = _error(step["status"], step.get("message", "scripted"))
            self._send(step["status"], error, headers=step.get("headers", {}))
        elif "raw" in step:
            self._send(200, step["raw"].encode(), step.get("type", "application/json"))
        elif body.get("stream"):
            self._stream(step, [json.dumps(event) for event in _events(step, body)] + ["[DONE]"])
        else:
            self._send(200, json.dumps(_plain(step, body)).encode())

    def _send(
        self, status: int, data: bytes, kind: str = "application/json", headers: Json | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, step: Json, events: list[str]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("connection", "close")
        self.end_headers()
        for number, event in enumerate(events):
            self.owner.closing.wait(step.get("chunk_delay", 0))
            if self.owner.closing.is_set() or (step.get("close") == "middle" and 2 * number >= len(events)):
                return self._hang_up()
            piece = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)


def _error(status: int, message: str) -> bytes:
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(status, "api_error")
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}}).encode()


def _usage(step: Json) -> Json | None:
    told = step.get("usage", {"input": 100, "output": 20})
    if told is None:
        return None
    total = told["input"] + told["output"]
    cached = {"prompt_tokens_details": {"cached_tokens": told["cached"]}} if "cached" in told else {}
    return {
        "prompt_tokens": told["input"],
        "completion_tokens": told["output"],
        "total_tokens": total,
        **cached,
    }


def _calls(step: Json) -> list[Json]:
    return [
        {
            "index": number,
            "id": call.get("id", f"call_{number}"),
            "type": "function",
            "function": {
                "name": call["name"],
                "arguments": call["args"] if isinstance(call["args"], str) else json.dumps(call["args"]),
            },
        }
        for number, call in enumerate(step.get("calls", []))
    ]


def _finish(step: Json) -> str:
    return str(step.get("finish", "tool_calls" if step.get("calls") else "stop"))


def _plain(step: Json, body: Json) -> Json:
    message = {"role": "assistant", "content": step.get("text", "")}
    if step.get("calls"):
        message["tool_calls"] = [{k: v for k, v in c.items() if k != "index"} for c in _calls(step)]
    choice = {"index": 0, "message": message, "finish_reason": _finish(step)}
    return _frame("chat.completion", body) | {"choices": [choice], "usage": _usage(step)}


def _events(step: Json, body: Json) -> Iterator[Json]:
    frame, text, size = _frame("chat.completion.chunk", body), step.get("text", ""), step.get("chunk", 16)

    def event(delta: Json, finish: str | None = None) -> Json:
        return frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield event({"role": "assistant", "content": ""})
    for start in range(0, len(text), size):
        yield event({"content": text[start : start + size]})
    for call in _calls(step):
        whole = call["function"]["arguments"]
        first = {**call, "function": {"name": call["function"]["name"], "arguments": whole[:size]}}
        yield event({"tool_calls": [first]})
        for start in range(size, len(whole), size):
            piece = {"index": call["index"], "function": {"arguments": whole[start : start + size]}}
            yield event({"tool_calls": [piece]})
    yield event({}, _finish(step))
    if (body.get("stream_options") or {}).get("include_usage") and _usage(step):
        yield frame | {"choices": [], "usage": _usage(step)}


def _frame(kind: str, body: Json) -> Json:
    return {"id": "chatcmpl-1", "object": kind, "created": 1700000000, "model": body.get("model")}
