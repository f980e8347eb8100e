"""A scripted model on 127.0.0.1 for agent programs: it answers in whatever format it is asked.

A step is one answer to a request that offers tools (or to any, as long as none did); the last one is
repeated. Requests aside, as for the title of a session, get `ok`. The keys of a step, all optional:

text, usage   the answer; usage is {"input": n, "cached": n, "output": n}
calls         tools: {"write": [PATH, CONTENT]} or {"shell": LINE}, by whatever tool is offered for it, or
              {"tool": [NAME, ARGUMENTS]}
thought       what the model thought before it answered
cut           the answer ends at the limit of the output
delay         seconds before the answer; it ends with the server
status, message, code, headers   a refusal in the shape of the format
close         "before": hang up without a byte; "middle": hang up half way
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests import wire
from tests.wire import Json

_FORMS = (
    ("/chat/completions", "chat"),
    ("/responses", "responses"),
    ("/messages", "anthropic"),
    (":generateContent", "gemini"),
    (":streamGenerateContent", "gemini"),
)
ASIDE: Json = {"text": "ok"}


class Endpoint:
    """The server; it listens inside `with`."""

    def __init__(self, *steps: Json, workspace: str = "/") -> None:
        self.steps: Sequence[Json] = steps
        self.workspace = workspace
        """Where the relative paths of `write` lie."""
        self.requests: list[Json] = []
        """`path`, `headers` and `body` of what was asked."""
        self.answered: list[tuple[int, int, int]] = []
        """Tokens of each answer: of input, of them cached, and of output."""
        self.taken = 0
        self.offered = False
        self.closing = threading.Event()
        self.arrived = threading.Condition()

    def __enter__(self) -> Endpoint:
        owner = self

        class Handler(_Handler):
            endpoint = owner

        self.server = _Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def base(self) -> str:
        """The address without a path; clients of OpenAI want `/v1` behind it."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def url(self) -> str:
        """The address as OpenAI clients want it."""
        return f"{self.base}/v1"

    def wait_for(self, count: int, seconds: float = 120.0) -> None:
        """Until so many steps were taken."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.taken >= count, seconds), "no request came"

    def take(self, request: Json) -> tuple[int, Json]:
        """Records a request; its number, and the step that answers it."""
        offers = bool(wire.tools(request["body"]))
        with self.arrived:
            self.requests.append(request)
            if offers and not self.offered:
                self.offered, self.taken = True, 0  # what came before was aside
            step = self.steps[min(self.taken + 1, len(self.steps)) - 1]
            if not offers and (self.offered or "calls" in step):
                return len(self.requests), ASIDE
            self.taken += 1
            self.arrived.notify_all()
            return len(self.requests), step


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """Above it, connections are reset."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client may leave at any time."""


class _Handler(BaseHTTPRequestHandler):
    endpoint: Endpoint
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(200, b"")

    def do_GET(self) -> None:
        models = [{"id": "scripted", "object": "model", "created": 1700000000, "owned_by": "test"}]
        self._send(200, json.dumps({"object": "list", "data": models}).encode())

    def do_POST(self) -> None:
        body = json.loads(self._body() or b"{}")
        path = self.path.split("?", 1)[0].rstrip("/")
        form = next((form for end, form in _FORMS if path.endswith(end)), None)
        if path.endswith(("/count_tokens", ":countTokens")):
            return self._send(200, json.dumps({"input_tokens": 100, "totalTokens": 100}).encode())
        if form is None:
            return self._send(404, json.dumps(wire.error("chat", 404, "nothing here")).encode())
        headers = {name.lower(): value for name, value in self.headers.items()}
        number, step = self.endpoint.take({"path": path, "headers": headers, "body": body})
        model = body.get("model") or path.rsplit("/", 1)[-1].split(":")[0]
        self.endpoint.closing.wait(step.get("delay", 0))
        if self.endpoint.closing.is_set() or step.get("close") == "before":
            return self._hang_up()
        if "status" in step:
            refusal = wire.error(form, step["status"], step.get("message", "scripted"), step.get("code"))
            return self._send(step["status"], json.dumps(refusal).encode(), step.get("headers", {}))
        said = wire.answer(step, body, model, number, self.endpoint.workspace)
        self.endpoint.answered.append((said.read, said.cached, said.written))
        if body.get("stream") or path.endswith(":streamGenerateContent"):
            return self._stream(form, said, step.get("close") == "middle")
        return self._send(200, json.dumps(wire.PLAIN[form](said)).encode(), cut=step.get("close") == "middle")

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        data = b""
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _send(self, status: int, data: bytes, headers: Json | None = None, cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self._hang_up()

    def _stream(self, form: str, said: wire.Answer, cut: bool) -> None:
        lines = [
            (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"
            for name, data in wire.STREAM[form](said)
        ]
        if form == "chat":
            lines.append("data: [DONE]\n\n")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for line in lines[: len(lines) // 2] if cut else lines:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line.encode()), line.encode()))
        if cut:
            return self._hang_up()
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
