"""A server on 127.0.0.1 that answers with exact bytes: what no well-behaved server sends, and when."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

HUNG = 120.0
"""Seconds after which a client that a test waits for is taken for hung."""
END = object()
"""In an answer: nothing more comes, and the connection stays open until the client or the test ends."""

Piece = bytes | float | object
"""What is sent, or how many seconds pass before the next piece, or `END`."""
Answer = Callable[[], Iterator[Piece]]


@dataclass(frozen=True)
class Asked:
    """One request, as it came in."""

    line: str
    headers: dict[str, str]
    body: bytes


class RawServer:
    """The server; it listens inside `with`. Each request gets the next answer, and the last one is repeated."""

    def __init__(
        self,
        *answers: bytes | Sequence[Piece] | Answer,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.answers = answers
        self.tls, self.host = tls, host
        self.asked: list[Asked] = []
        self.connections = 0
        self.closing = threading.Event()
        self.reads = True
        """Whether it reads requests; otherwise it sends the first answer at once."""

    def __enter__(self) -> RawServer:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self.listener = socket.create_server((self.host, 0), family=family, backlog=64)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(HUNG)

    @property
    def url(self) -> str:
        """The base address of a provider."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/v1"

    def _serve(self) -> None:
        while not self.closing.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(HUNG)
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        if self.reads:
            asked = read_request(connection)
            if asked is None:
                return
            self.asked.append(asked)
        answer = self.answers[min(max(len(self.asked), 1), len(self.answers)) - 1]
        pieces: Iterator[Piece] = (
            answer() if callable(answer) else iter((answer,) if isinstance(answer, bytes) else answer)
        )
        for piece in pieces:
            if isinstance(piece, bytes):
                connection.sendall(piece)
            elif isinstance(piece, float):
                self.closing.wait(piece)
            else:
                self.closing.wait(HUNG)
        if not self.reads:
            connection.shutdown(socket.SHUT_WR)
            self.closing.wait(HUNG)


def read_request(connection: socket.socket) -> Asked | None:
    """Return the next request on a connection; None if the client ended it."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    size = int(headers.get("content-length", "0"))
    while len(body) < size:
        more = connection.recv(65536)
        if not more:
            return None
        body += more
    return Asked(line, headers, body)


class Proxy:
    """An HTTP proxy on 127.0.0.1: forwards requests, and opens tunnels; or refuses to, with a status."""

    def __init__(self, refuses: int = 0) -> None:
        self.refuses = refuses
        self.asked: list[Asked] = []

    def __enter__(self) -> Proxy:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(HUNG)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(connection,), daemon=True).start()

    def _forward(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            asked = read_request(connection)
            if asked is None:
                return
            self.asked.append(asked)
            if self.refuses:
                connection.sendall(b"HTTP/1.1 %d No\r\ncontent-length: 0\r\n\r\n" % self.refuses)
                return
            method, target, _ = asked.line.split(" ")
            if method == "CONNECT":
                host, _, port = target.rpartition(":")
                with socket.create_connection((host, int(port)), timeout=HUNG) as server:
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    back = threading.Thread(target=_copy, args=(server, connection), daemon=True)
                    back.start()
                    _copy(connection, server)
                    back.join(HUNG)
                return
            host_port, _, path = target.removeprefix("http://").partition("/")
            host, _, port = host_port.rpartition(":")
            fields = "".join(f"{name}: {value}\r\n" for name, value in asked.headers.items())
            request = f"{method} /{path} HTTP/1.1\r\n{fields}connection: close\r\n\r\n".encode("latin-1")
            with socket.create_connection((host, int(port)), timeout=HUNG) as server:
                server.sendall(request + asked.body)
                _copy(server, connection)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Authority(NamedTuple):
    """A certificate authority made for the tests, and the context of a server that it vouches for."""

    file: Path
    server: ssl.SSLContext


def make_authority(place: Path) -> Authority:
    """Make an authority in an empty directory."""

    def openssl(*words: str) -> None:
        subprocess.run(
            ["openssl", *words], cwd=place, check=True, capture_output=True, env={"PATH": os.environ["PATH"]}
        )

    new = ("req", "-newkey", "rsa:2048", "-nodes")
    # What Python 3.13 and newer ask of a certificate.
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=Tests", *usage, "-keyout", "ca.key", "-out", "ca.pem")
    openssl(*new, "-subj", "/CN=127.0.0.1", "-keyout", "server.key", "-out", "server.csr")
    extensions = "subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
    (place / "names").write_text(extensions, "ascii")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "names", "-out", "server.pem")  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "server.pem", place / "server.key")
    return Authority(place / "ca.pem", context)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens in another thread."""
    end = time.monotonic() + HUNG
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)
