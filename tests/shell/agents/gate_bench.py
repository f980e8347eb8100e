"""A spend gate with a recorder in memory, and a program that talks to it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from logist.agents.gate.recorder import Admission, GateEnd, GateRefusal, GateRequest
from logist.agents.gate.spend_gate import SpendGate
from logist.agents.protocol import Ask
from logist.core.model import Model, Provider, Request

Json = dict[str, Any]

KEY = "sk-real-0123456789abcdefghij"
TOKEN = "token-of-this-run"
SECONDS = 60.0
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/real:generateContent",
}
SCHEMA: Json = {"type": "object", "properties": {"command": {"type": "string"}}}
TOOLS: dict[str, list[Json]] = {
    "chat": [{"type": "function", "function": {"name": "Bash", "parameters": SCHEMA}}],
    "responses": [{"type": "function", "name": "Bash", "parameters": SCHEMA}],
    "messages": [{"name": "Bash", "input_schema": SCHEMA}],
    "gemini": [{"functionDeclarations": [{"name": "Bash", "parameters": SCHEMA}]}],
}
STREAM_PATHS = PATHS | {"gemini": "/v1beta/models/real:streamGenerateContent?alt=sse"}
TEXT = "Say something about gates."
BODIES: dict[str, Json] = {
    "chat": {"model": "real", "messages": [{"role": "user", "content": TEXT}]},
    "responses": {"model": "real", "input": TEXT},
    "messages": {"model": "real", "max_tokens": 500, "messages": [{"role": "user", "content": TEXT}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": TEXT}]}]},
}
FORMATS = tuple(PATHS)


class MemoryRecorder:
    """Keeps what the gate records, in order."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.events: list[tuple[str, int]] = []
        self.requests: list[GateRequest] = []
        self.bodies: list[bytes] = []
        self.ends: dict[int, GateEnd] = {}
        self.refusals: list[GateRefusal] = []
        self.lock = threading.Lock()
        self.answers: list[GateRefusal | int] = []
        """What `admit` does: refuse, or allow that many tokens; it allows everything if there is nothing left."""
        self.failing: set[str] = set()
        """The methods that raise."""
        self.on_sent: Callable[[], object] = lambda: None
        self.on_end: Callable[[int], object] = lambda k: None

    def admit(self, request: GateRequest, build: Callable[[int], bytes]) -> Admission | GateRefusal:
        with self.lock:
            self._fail("admit")
            self.requests.append(request)
            answer = self.answers.pop(0) if self.answers else request.max_output_tokens
            if isinstance(answer, GateRefusal):
                return answer
            self.bodies.append(build(answer))
            k = len(self.bodies)
            self.events.append(("admit", k))
            return Admission(k, answer, self.directory / f"{k}.stream")

    def mark_sent(self, k: int) -> None:
        self._fail("mark_sent")
        assert (self.directory / f"{k}.stream").exists()
        with self.lock:
            self.events.append(("sent", k))
        self.on_sent()

    def end(self, k: int, end: GateEnd) -> None:
        self._fail("end")
        with self.lock:
            assert k not in self.ends, "an exchange ends once"
            self.ends[k] = end
            self.events.append(("end", k))
        self.on_end(k)

    def count_refusal(self, refusal: GateRefusal) -> None:
        self._fail("count_refusal")
        with self.lock:
            self.refusals.append(refusal)

    def _fail(self, method: str) -> None:
        if method in self.failing:
            raise OSError(28, "No space left on device")

    def wait_for_end(self, k: int = 1) -> GateEnd:
        """Return the end of an exchange that happens in another thread."""
        until(lambda: k in self.ends)
        return self.ends[k]

    def read_stream(self, k: int = 1) -> bytes:
        return (self.directory / f"{k}.stream").read_bytes()


class Got(NamedTuple):
    """An answer that a program got."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> list[Json]:
        """The events of a stream that are JSON."""
        lines = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


class Bench(NamedTuple):
    """A gate that listens, its recorder, and a way to it."""

    gate: SpendGate
    recorder: MemoryRecorder

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.gate.port, timeout=SECONDS)

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Got:
        """Send a request with the token, and return the answer."""
        connection = self.connect()
        try:
            return send(connection, method, path, body, headers)
        finally:
            connection.close()

    def ask(
        self, form: str, more: Json | None = None, *, stream: bool = False, path: str | None = None
    ) -> Got:
        """Send the usual request of a format."""
        body = BODIES[form] | (more or {})
        if stream and form != "gemini":
            body |= {"stream": True}
        path = path or (STREAM_PATHS if stream else PATHS)[form]
        return self.send("POST", path, json.dumps(body).encode())

    def open_raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.gate.port), timeout=SECONDS)


def send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Got:
    given = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    connection.request(method, path, body, given | (headers or {}))
    with connection.getresponse() as response:
        fields = {name.lower(): value for name, value in response.getheaders()}
        return Got(response.status, fields, response.read())


def make_ask(url: str, **more: Any) -> Ask:
    name, context = more.pop("name", "custom"), more.pop("context_window", None)
    model = Model(
        name="m",
        provider_model=f"{name}/real",
        endpoint=more.pop("endpoint", None),
        max_output_tokens=800,
        context_window=context,
    )
    protocol = more.pop("protocol", "openai")
    provider = Provider(name=name, base_url=url, protocol=protocol, model="real")
    return Ask(request=Request(prompt="p"), model=model, role="r", provider=provider, **more)


@contextmanager
def open_gate(url: str, directory: Path, *, seconds: float = SECONDS, **more: Any) -> Iterator[Bench]:
    recorder = MemoryRecorder(directory)
    gate = SpendGate(recorder, make_ask(url, **more), KEY, TOKEN, time.monotonic() + seconds)
    gate.start()
    try:
        yield Bench(gate, recorder)
    finally:
        gate.close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)
