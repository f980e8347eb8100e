"""The program's side of the gate: reads its requests, and sends answers."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import SplitResult, parse_qs, urlsplit

from logist.agents.gate import refusals
from logist.agents.gate.paid_requests import (
    PaidRequest,
    RequestRefused,
    check_model,
    encode_body,
    parse_body,
)
from logist.agents.gate.recorder import Format, GateRefusal
from logist.agents.gate.targets import RequestTarget, build_url, find_target, guess_format
from logist.core.model import JsonObject
from logist.lazy_patterns import compile_on_use

if TYPE_CHECKING:
    from logist.agents.gate.spend_gate import SpendGate

LONGEST_REQUEST = 32 << 20
"""Bytes of the body of a request; providers accept no more."""
LARGE_REQUEST = 1 << 20
"""Bytes from which requests are read one after the other, to limit memory."""
IDLE_SECONDS = 300.0
"""Seconds that a program may be silent, or not read."""
HEAD_SECONDS = 5.0
"""Seconds for the head of a request, from its first line on: until then, anyone on this machine may have sent it."""
_PASSED_QUERY = compile_on_use(r"alt=(sse|json)|beta=true|api-version=[\w.-]+")
LINGER_SECONDS = 2.0
"""Seconds in which a program can read a refusal before its connection is closed, although it still sends."""


class ConnectionUnusable(Exception):
    """The connection can't be used further."""


class ProgramConnection(BaseHTTPRequestHandler):
    """One connection of a program, and its requests one after the other."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def __init__(self, connection: socket.socket, peer: Any, gate: SpendGate) -> None:
        self.gate = gate
        self._is_gone = self._is_chunked = False
        super().__init__(connection, peer, gate)  # type: ignore[arg-type]  # it only keeps it

    def setup(self) -> None:
        """Prepare to read and to write."""
        if self.request.family == socket.AF_INET:
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def handle_one_request(self) -> None:
        """Wait for a request, and answer it."""
        self.gate.set_idle(self.request, is_idle=True)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Read the head of a request that has begun to arrive."""
        with self.gate.patience.limit(self.request, HEAD_SECONDS):
            return super().parse_request()

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def version_string(self) -> str:
        """Return the name of the server."""
        return "logist"

    def handle_expect_100(self) -> bool:
        """Answer `Expect: 100-continue` only when the body is wanted."""
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error of the HTTP server as JSON, for requests that can't be read or have another method."""
        self._refuse_early(int(code) if code < 500 else refusals.WRONG_METHOD, message or "not possible here")

    def do_HEAD(self) -> None:
        """Answer that there is a server: programs try this before anything else."""
        self.send_whole(200, {}, b"")

    def do_GET(self) -> None:
        """Answer which models there are: the model of the step."""
        path = self._split_path().path
        target = find_target(path)
        if self.headers.get("content-length") or self.headers.get("transfer-encoding"):
            self.close_connection = True  # its body is not read
        if not self._check_token(guess_format(path)):
            return
        if target is None:
            self._refuse_early(refusals.NOT_FOUND, _describe_unknown(path))
        elif target.purpose == "models":
            self.send_whole(200, refusals.JSON, json.dumps(self._list_models(target, path)).encode())
        else:
            self._refuse_early(
                refusals.WRONG_METHOD, "only POST is possible here, without an upgrade to another protocol"
            )

    def do_POST(self) -> None:
        """Forward a request."""
        url = self._split_path()
        target = find_target(url.path)
        form = guess_format(url.path) if target is None else target.format
        if not self._check_token(form):
            return
        assert self.gate.ask.provider is not None
        provider = self.gate.ask.provider
        address = target and build_url(
            provider.base_url, target, provider.model, url.path, _choose_query(url.query)
        )
        is_of_proxy = not self.path.startswith("/")  # a whole address, of any host
        if target is None or address is None or target.purpose == "models" or is_of_proxy:
            self._refuse_early(refusals.NOT_FOUND, _describe_unknown(url.path), form)
            return
        try:
            self._read_and_forward(target, address)
        except RequestRefused as error:
            self.gate.refuse(target.format, error.refusal, self)

    def _read_and_forward(self, target: RequestTarget, address: str) -> None:
        given = {name.lower(): value for name, value in self.headers.items()}
        headers = self.gate.build_headers(target.format, given)
        if target.purpose == "count":
            body = parse_body(self._read_body(target.format))
            wanted = target.model or body.get("model")
            check_model(self.gate.ask, wanted)
            self.gate.forward_free(encode_body(body), address, headers, target.format, self)
            return
        is_large = self._get_length() > LARGE_REQUEST
        with self.gate.large_requests if is_large else nullcontext():
            paid = PaidRequest(self.gate.ask, target, self._read_body(target.format))
        self.gate.forward(paid, address, headers, self)

    # ---- the request

    def _split_path(self) -> SplitResult:
        try:
            return urlsplit(getattr(self, "path", ""))
        except ValueError:  # `http://[`
            return urlsplit("")

    def _check_token(self, form: Format) -> bool:
        if self._has_token():
            self.gate.set_idle(self.request, is_idle=False)
            return True
        message = "this address is only for the program that Logist has started"
        self._refuse_early(refusals.UNAUTHORIZED, message, form)
        return False

    def _has_token(self) -> bool:
        headers = getattr(self, "headers", None)
        if headers is None:
            return False
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        tokens = [
            bearer.strip() if scheme.lower() == "bearer" else "",
            *(headers.get(name, "") for name in ("x-api-key", "x-goog-api-key", "api-key")),
            *parse_qs(self._split_path().query).get("key", []),
        ]
        return any(self.gate.is_allowed(token) for token in tokens if token)

    def _get_length(self) -> int:
        """Return the length of the body; that of a large one if it isn't known."""
        length = self.headers.get("content-length")
        if self.headers.get("transfer-encoding") or length is None:
            return LONGEST_REQUEST
        return int(length) if length.isdecimal() and length.isascii() else -1

    def _read_body(self, form: Format) -> bytes:
        encoding = self.headers.get("transfer-encoding", "").strip().lower()
        length = self.headers.get("content-length")
        if self.headers.get("content-encoding", "identity").strip().lower() != "identity":
            self._stop_reading(415, "compressed requests are not possible here", form)
        if encoding not in ("", "chunked") or (encoding and length is not None):
            self._stop_reading(refusals.BAD_REQUEST, "a request needs either a length or chunks", form)
        if not encoding and length is None:
            self._stop_reading(411, "a request needs a length", form)
        size = self._get_length()
        if not encoding and size < 0:
            self._stop_reading(refusals.BAD_REQUEST, "the length of the request is not a number", form)
        if not encoding and size > LONGEST_REQUEST:
            self._stop_too_large(form)
        if self.headers.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self._read_chunks(form) if encoding else self._read_exactly(size)

    def _read_exactly(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            self.close_connection = True
            raise ConnectionUnusable
        return data

    def _read_chunks(self, form: Format) -> bytes:
        body = bytearray()
        while size := self._read_chunk_size(form):
            if len(body) + size > LONGEST_REQUEST:
                self._stop_too_large(form)
            body += self._read_exactly(size)
            self._read_line()
        while self._read_line().strip():
            pass  # trailers
        return bytes(body)

    def _read_chunk_size(self, form: Format) -> int:
        digits = self._read_line().partition(b";")[0].strip()
        if not digits or len(digits) > 16 or digits.strip(b"0123456789abcdefABCDEF"):
            self._stop_reading(refusals.BAD_REQUEST, "the chunks of the request can't be read", form)
        return int(digits, 16)

    def _read_line(self) -> bytes:
        line = self.rfile.readline(65_537)
        if not line.endswith(b"\n"):
            self.close_connection = True
            raise ConnectionUnusable
        return line

    def _stop_too_large(self, form: Format) -> NoReturn:
        message = f"the request is larger than {LONGEST_REQUEST >> 20} MB"
        self._stop_reading(refusals.TOO_LARGE, message, form)

    def _stop_reading(self, status: int, message: str, form: Format) -> NoReturn:
        self._refuse_early(status, message, form)
        raise ConnectionUnusable

    # ---- the answer

    def _refuse_early(self, status: int, message: str, form: Format | None = None) -> None:
        """Refuse a request whose body is not read; the connection ends with that."""
        if self._has_token():  # what others send is not the program's
            self.gate.count_refusal(GateRefusal("request", message))
        self.close_connection = True
        form = form or guess_format(self._split_path().path)
        self.send_whole(status, refusals.JSON, refusals.build_error(form, status, message))
        self._linger()

    def _linger(self) -> None:
        """Wait until the program has read a refusal: closing while it still sends would discard it."""
        end = time.monotonic() + LINGER_SECONDS
        with suppress(OSError):
            self.request.shutdown(socket.SHUT_WR)
            self.request.settimeout(LINGER_SECONDS)
            while time.monotonic() < end and self.request.recv(1 << 16):
                pass

    def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin an answer whose length isn't known yet."""
        self._is_chunked = self.request_version != "HTTP/1.0"
        more = {"transfer-encoding": "chunked"} if self._is_chunked else {"connection": "close"}
        self.close_connection = self.close_connection or not self._is_chunked
        self._begin(status, headers, more)
        self._send(self._take_head())

    def send_piece(self, data: bytes) -> None:
        """Send a piece of the answer."""
        if data:
            self._send(b"%x\r\n%s\r\n" % (len(data), data) if self._is_chunked else data)

    def end_answer(self) -> None:
        """End the answer."""
        if self._is_chunked:
            self._send(b"0\r\n\r\n")

    def send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send an answer at once."""
        closing = {"connection": "close"} if self.close_connection else {}
        self._begin(status, headers, {"content-length": str(len(body)), **closing})
        self._send(self._take_head() + (body if self.command != "HEAD" else b""))

    def hang_up(self) -> None:
        """Close the connection: the answer is not complete."""
        self.close_connection = self._is_gone = True
        with suppress(OSError):
            self.request.shutdown(socket.SHUT_RDWR)

    def _begin(self, status: int, headers: Mapping[str, str], more: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in [*headers.items(), *more.items()]:
            self.send_header(name, value)

    def _take_head(self) -> bytes:
        lines: list[bytes] = getattr(self, "_headers_buffer", [])  # HTTP/0.9 has none
        self._headers_buffer: list[bytes] = []
        return b"".join([*lines, b"\r\n"]) if lines else b""

    def _send(self, data: bytes) -> None:
        if self._is_gone:
            return
        try:
            self.connection.sendall(data)
        except OSError:  # it has hung up, or doesn't read; the answer is still read to its end
            self._is_gone = self.close_connection = True

    def _list_models(self, target: RequestTarget, path: str) -> JsonObject:
        """Return the list of models, or the one that is asked for, in a form that programs of each provider read."""
        assert self.gate.ask.provider is not None
        model, name = self.gate.ask.model, self.gate.ask.provider.model
        is_list = path.rstrip("/").endswith("/models")
        one: JsonObject
        if target.format == "gemini":
            methods = ["generateContent", "countTokens"]
            one = {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
            one |= {"inputTokenLimit": model.context_window, "outputTokenLimit": model.max_output_tokens}
            return {"models": [one]} if is_list else one
        one = {"id": name, "object": "model", "type": "model", "display_name": name, "owned_by": "logist"}
        one |= {"created": 0, "created_at": "1970-01-01T00:00:00Z"}
        many = {"object": "list", "data": [one], "first_id": name, "last_id": name, "has_more": False}
        return many if is_list else one


def _describe_unknown(path: str) -> str:
    shown = path if len(path) <= 100 else f"{path[:99]}…"
    return f"Logist's gate doesn't forward {shown}: it knows chat completions, responses, messages and generateContent"


def _choose_query(query: str) -> str:
    """Return what the provider gets of the query of an address: neither the token, nor anything that changes the request,
    nor what leaves the usage out of the answer.
    """
    return "&".join(part for part in query.split("&") if _PASSED_QUERY.fullmatch(part))
