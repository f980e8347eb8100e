"""The server that an agent program talks to instead of to its provider.

It listens on 127.0.0.1, for one run of a program. A request with the token of the run is checked (`paid_requests.py`), recorded
and reserved by the recorder, and only then forwarded with the real key (`paid_exchange.py`). The gate tries nothing again.
"""

from __future__ import annotations

import hmac
import math
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from threading import BoundedSemaphore, Lock, Thread
from typing import Any

import httpx

from logist.agents.clients import direct
from logist.agents.clients.messages import VERSION
from logist.agents.gate import refusals
from logist.agents.gate.paid_exchange import PaidExchange, choose_headers
from logist.agents.gate.paid_requests import PaidRequest, RequestRefused
from logist.agents.gate.patience import Patience
from logist.agents.gate.program_connection import ConnectionUnusable, ProgramConnection
from logist.agents.gate.recorder import Format, GateRecorder, GateRefusal
from logist.agents.protocol import Ask
from logist.errors import InvalidFile

MOST_CONNECTIONS = 128
MOST_BYTES = 256 << 20
"""Bytes of all requests that are being answered."""
KEPT_SECONDS = 2.0
"""Seconds that an idle connection to the provider is kept: less than any server keeps it, so that none closes it while a
request is on its way."""
MOST_COUNTED = 1 << 20
"""Bytes of the answer to a free request."""

_FORWARDED = frozenset(
    {
        *("accept", "content-type", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta"),
        *("http-referer", "x-title", "originator", "session_id", "conversation_id", "x-goog-api-client"),
    }
)
"""Headers of the program that the provider gets."""
_KEY_HEADERS = {"messages": "x-api-key", "gemini": "x-goog-api-key"}
_LONG_CONTEXT = "context-1m"
_USUAL_CONTEXT = 200_000
_TOKEN_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")


class SpendGate:
    """The gate of one run of a program."""

    def __init__(
        self, recorder: GateRecorder, ask: Ask, api_key: str | None, token: str, deadline: float
    ) -> None:
        """`ask.provider`: where requests go; `deadline`: when the ask ends, by `time.monotonic`.

        Raises InvalidFile if the environment has certificates or proxies that can't be used.
        """
        assert ask.provider is not None
        self.recorder, self.ask, self.api_key, self.deadline = recorder, ask, api_key, deadline
        self.fault: BaseException | None = None
        """Why nothing is forwarded any more: the recorder or the disk failed."""
        self.port = 0
        """The port of the address."""
        self._token = token.encode()
        self._client = _create_client(ask.provider.base_url)
        self.patience = Patience()
        self._listeners: list[socket.socket] = []
        self._connections = BoundedSemaphore(MOST_CONNECTIONS)
        self.large_requests = Lock()
        """Held while a large request is read."""
        self._lock = Lock()
        """Guards the five fields below."""
        self._bytes = 0
        self._exchanges: set[PaidExchange] = set()
        self._open: set[socket.socket] = set()
        self._idle: dict[socket.socket, None] = {}
        """Connections that have no request with the token, the longest idle first."""
        self._is_closed = False

    def start(self) -> str:
        """Begin to listen on 127.0.0.1; return the address, without a path."""
        assert not self.port, "a gate is started once"
        listener = socket.socket()
        # Without SO_REUSEADDR and SO_REUSEPORT: nothing else can listen on this port.
        listener.bind(("127.0.0.1", 0))
        listener.listen(MOST_CONNECTIONS)
        self.port = listener.getsockname()[1]
        self.listen_on(listener)
        return f"http://127.0.0.1:{self.port}"

    def listen_on(self, listener: socket.socket) -> None:
        """Also accept connections on another listening socket, such as one of a network namespace; it is closed with the
        gate.
        """
        with self._lock:
            if self._is_closed:
                listener.close()
                return
            self._listeners.append(listener)
        Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Refuse what comes from now on, and end what is open.

        An answer that is not complete is recorded as one that may be billed; nothing is recorded after that. To have its cost
        instead, wait for it before: the recorder knows what is open.
        """
        with self._lock:
            self._is_closed = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            open_exchanges = list(self._exchanges)
        for exchange in open_exchanges:
            try:
                exchange.give_up("the program has ended before the answer")
            except Exception as error:  # noqa: BLE001  the others must end too
                self.note_fault(error)
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._client.close()
        self.patience.end()

    def is_closed(self) -> bool:
        """Whether the run has ended."""
        return self._is_closed

    def note_fault(self, error: BaseException) -> None:
        """Remember why nothing may be forwarded any more."""
        self.fault = self.fault or error

    def is_allowed(self, token: str) -> bool:
        """Whether this is the token of the run."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def find_stop(self) -> GateRefusal | None:
        """Return the refusal of everything, if the gate has ended."""
        if self.fault is not None:
            return GateRefusal("stopped", "Logist can't record requests any more: see the job for the error")
        if self._is_closed:
            return GateRefusal("stopped", "this run of the program has ended")
        if time.monotonic() >= self.deadline:
            return GateRefusal("stopped", "the time of this step is over")
        return None

    def forward(
        self, paid: PaidRequest, url: str, headers: Mapping[str, str], program: ProgramConnection
    ) -> None:
        """Record and forward a request for a paid answer, or refuse it. Raises RequestRefused."""
        size = paid.measure()
        with self._lock:
            has_room = self._bytes + size <= MOST_BYTES
            self._bytes += size
        try:
            if has_room:
                self._record_and_forward(paid, url, headers, program)
            else:
                busy = GateRefusal("busy", "too many large requests at once: send them one after the other")
                self.refuse(paid.target.format, busy, program)
        finally:
            with self._lock:
                self._bytes -= size

    def _record_and_forward(
        self, paid: PaidRequest, url: str, headers: Mapping[str, str], program: ProgramConnection
    ) -> None:
        refusal = self.find_stop()
        admission = None
        try:
            if refusal is None:
                admitted = self.recorder.admit(paid.describe(), paid.build)
                if isinstance(admitted, GateRefusal):
                    refusal = admitted
                else:
                    admission = admitted
            if refusal is not None or admission is None:
                assert refusal is not None
                self.refuse(paid.target.format, refusal, program)
                return
            exchange = PaidExchange(
                paid, admission, self.recorder, url, headers, self.api_key, self.deadline, self.patience
            )
            with self._lock:
                if self._is_closed:
                    program.hang_up()
                    return
                self._exchanges.add(exchange)
            try:
                exchange.run(self._client, program)
            finally:
                with self._lock:
                    self._exchanges.discard(exchange)
        except RequestRefused:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is: what isn't recorded must not go on
            if not self._is_closed:
                self.note_fault(error)
            program.hang_up()

    def forward_free(
        self, body: bytes, url: str, headers: Mapping[str, str], form: Format, program: ProgramConnection
    ) -> None:
        """Forward a request that costs nothing, and pass on the answer."""
        if refusal := self.find_stop():
            self.refuse(form, refusal, program)
            return
        left = max(0.001, self.deadline - time.monotonic())
        try:
            with self._client.stream(
                "POST", url, headers=dict(headers), content=body, timeout=min(60.0, left)
            ) as response:
                answer = bytearray()
                for piece in response.iter_bytes():
                    answer += piece
                    if len(answer) > MOST_COUNTED:
                        raise OverflowError("the answer is too long")
                secret = (self.api_key or "").encode()
                said = bytes(answer).replace(secret, b"***") if secret else bytes(answer)
                status = (
                    response.status_code if response.is_error or response.is_success else refusals.BAD_GATEWAY
                )
                program.send_whole(status, choose_headers(response.headers, self.api_key), said)
        except (httpx.HTTPError, httpx.InvalidURL, OverflowError, ValueError) as error:
            message = refusals.build_error(
                form, refusals.BAD_GATEWAY, f"no answer: {type(error).__name__}: {error}"
            )
            program.send_whole(refusals.BAD_GATEWAY, refusals.JSON, message)

    def refuse(self, form: Format, refusal: GateRefusal, program: ProgramConnection) -> None:
        """Tell a program that its request is not forwarded."""
        self.count_refusal(refusal)
        status = refusals.choose_status(refusal)
        seconds = math.ceil(refusal.retry_after or refusals.BUSY_SECONDS)
        more = {"retry-after": str(seconds)} if refusal.reason == "busy" else {}
        body = refusals.build_error(form, status, refusal.message, f"logist_{refusal.reason}")
        program.send_whole(status, refusals.JSON | more, body)

    def count_refusal(self, refusal: GateRefusal) -> None:
        """Report a refusal to the recorder."""
        try:
            self.recorder.count_refusal(refusal)
        except Exception as error:  # noqa: BLE001  as for the other methods
            self.note_fault(error)

    def build_headers(self, form: Format, given: Mapping[str, str]) -> dict[str, str]:
        """Return the headers for the provider: those of the program that matter, and the key where the token was."""
        headers = {
            name: value
            for name, value in given.items()
            if name in _FORWARDED or name.startswith("x-stainless-")
        }
        headers["content-type"] = "application/json"
        self._drop_long_context(headers)
        key = self.api_key
        if form == "messages":
            headers.setdefault("anthropic-version", VERSION)
        if key:
            name = self._choose_key_header(form, given)
            headers[name] = f"Bearer {key}" if name == "authorization" else key
        return headers

    def _drop_long_context(self, headers: dict[str, str]) -> None:
        """Don't ask for a longer context than the prices are for: Anthropic charges more for long inputs then."""
        model = self.ask.model
        if "anthropic-beta" in headers and not model.tiers and (model.context_window or 0) <= _USUAL_CONTEXT:
            wanted = [each.strip() for each in headers.pop("anthropic-beta").split(",")]
            if kept := [each for each in wanted if not each.startswith(_LONG_CONTEXT)]:
                headers["anthropic-beta"] = ",".join(kept)

    def _choose_key_header(self, form: Format, given: Mapping[str, str]) -> str:
        """Return the header for the key: that of the format, unless a server that imitates a provider wants another one."""
        usual = _KEY_HEADERS.get(form, "authorization")
        used = [name for name in _TOKEN_HEADERS if self._token.decode() in given.get(name, "")]
        assert self.ask.provider is not None
        is_own = form == "messages" and self.ask.provider.protocol == "anthropic"
        return usual if is_own or usual in used or not used else used[0]

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, peer = listener.accept()
            except OSError:
                if self.is_closed():
                    return
                time.sleep(0.05)  # out of file descriptors: connections end
                continue
            Thread(target=self._serve, args=(connection, peer), daemon=True).start()

    def set_idle(self, connection: socket.socket, *, is_idle: bool) -> None:
        """Note that a connection waits for its next request, or has one with the token."""
        with self._lock:
            self._idle.pop(connection, None)
            if is_idle:
                self._idle[connection] = None

    def _acquire_place(self) -> bool:
        """Take one of the places for connections, if need be that of the longest idle one.

        Programs may forget to close connections, and other users of the machine can open as many as they like.
        """
        if self._connections.acquire(blocking=False):
            return True
        with self._lock:
            longest = next(iter(self._idle), None)
            if longest is None:
                return False
            del self._idle[longest]
            with suppress(OSError):
                longest.shutdown(socket.SHUT_RDWR)
        return self._connections.acquire(timeout=1.0)

    def _serve(self, connection: socket.socket, peer: Any) -> None:
        is_local = connection.family != socket.AF_INET or str(peer[0]).startswith("127.")
        with connection:
            if not is_local or not self._acquire_place():
                return  # hanging up is all that doesn't take a thread for long
            with self._lock:
                self._open.add(connection)
            try:
                ProgramConnection(connection, peer, self)
            except (OSError, ConnectionUnusable):
                pass
            except Exception as error:  # noqa: BLE001  a fault of the gate: the run must not go on as if there were none
                self.note_fault(error)
            finally:
                with self._lock:
                    self._open.discard(connection)
                    self._idle.pop(connection, None)
                self._connections.release()


def _create_client(url: str) -> httpx.Client:
    try:
        tls = direct.get_tls(url)
    except ValueError as error:
        raise InvalidFile(str(error)) from error
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=KEPT_SECONDS)
    try:
        return httpx.Client(verify=tls, limits=limits, headers={"accept-encoding": "identity"})
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        fix = "correct HTTP_PROXY, HTTPS_PROXY and ALL_PROXY; a SOCKS proxy is not possible here"
        raise InvalidFile(f"can't use the proxy of the environment: {error}", fix=fix) from error
