"""The spend gate over real HTTP: each format, and what is recorded when."""

from __future__ import annotations

import errno
import gzip
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from logist.agents.clients.answers import Tokens
from logist.agents.gate import paid_exchange, program_connection, spend_gate
from logist.agents.gate.recorder import GateEnd, GateRefusal
from logist.core.model import ErrorKind
from logist.errors import InvalidFile, StorageError
from logist.store import files
from tests.endpoint import Endpoint
from tests.raw_server import END, Authority, Piece, Proxy, RawServer
from tests.shell.agents.gate_bench import (
    BODIES,
    FORMATS,
    KEY,
    PATHS,
    SECONDS,
    STREAM_PATHS,
    TOKEN,
    TOOLS,
    Got,
    open_gate,
    send,
    until,
)
from tests.support import ROOT

Json = dict[str, Any]

STEP = {"text": "A gate is a door without a house.", "usage": {"input": 1000, "cached": 400, "output": 50}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_an_answer_is_passed_on_and_recorded(tmp_path: Path, form: str, stream: bool) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        got = bench.ask(form, stream=stream)
    assert got.status == 200
    assert "door" in got.body.decode().replace("\\", "") or "".join(map(str, got.data))
    end = bench.recorder.ends[1]
    assert end.answer.failure is None
    assert end.text == STEP["text"]
    assert end.answer.finish == "stop"
    assert end.answer.tokens == Tokens(read=1000, written=50, cached=400)
    assert bench.recorder.events == [("admit", 1), ("sent", 1), ("end", 1)]
    sent = endpoint.requests[0]
    assert TOKEN not in json.dumps(sent)
    assert KEY in json.dumps(sent["headers"])
    assert KEY.encode() not in got.body
    assert bench.recorder.requests[0].stream is stream
    assert json.loads(bench.recorder.bodies[0]) == sent["body"]
    if not stream:
        assert bench.recorder.read_stream() == got.body


def stream_of(*events: Json, end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + end


def chat_event(text: str = "", finish: str | None = None) -> Json:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
CHAT_STREAM = stream_of(chat_event("Hello "), chat_event("world"), chat_event("", "stop"), USAGE)


def sse(body: bytes, head: bytes = b"") -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + head + b"connection: close\r\n\r\n" + body
    )


def whole(
    body: bytes, head: bytes = b"content-type: application/json\r\n", status: bytes = b"200 OK"
) -> bytes:
    return b"HTTP/1.1 " + status + b"\r\n" + head + b"content-length: %d\r\n\r\n" % len(body) + body


PLAIN = json.dumps(
    {
        "choices": [{"message": {"content": "Hello world"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
).encode()


def describe_failure(end: GateEnd) -> tuple[str, bool]:
    """Return the kind of a failure, and whether it may be billed."""
    assert end.answer.failure is not None
    assert end.answer.tokens is None
    return end.answer.failure.error.kind, end.answer.failure.billed


# ---- streams


def test_a_stream_is_passed_on_byte_by_byte(tmp_path: Path) -> None:
    with RawServer(sse(CHAT_STREAM)) as server, open_gate(server.url, tmp_path) as bench:
        got = bench.ask("chat", {"stream_options": {"include_usage": True}}, stream=True)
    assert got.body == CHAT_STREAM == bench.recorder.read_stream()
    assert got.headers["content-type"] == "text/event-stream"


def test_a_program_gets_no_usage_that_it_did_not_ask_for(tmp_path: Path) -> None:
    """Many programs read the first choice of each event; the event of the usage has none."""
    with RawServer(sse(CHAT_STREAM)) as server, open_gate(server.url, tmp_path) as bench:
        got = bench.ask("chat", stream=True)
    assert got.body == CHAT_STREAM.replace(b"data: " + json.dumps(USAGE).encode() + b"\n\n", b"")
    assert bench.recorder.read_stream() == CHAT_STREAM
    assert bench.recorder.ends[1].answer.tokens == Tokens(read=10, written=5)


@pytest.mark.parametrize("form", FORMATS)
def test_the_end_of_a_stream_waits_until_it_is_recorded(tmp_path: Path, form: str) -> None:
    """All that comes before the event with which the answer is complete is passed on at once."""
    recorded = threading.Event()
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        bench.recorder.on_end = lambda k: recorded.wait(SECONDS)
        got = bytearray()
        ending = {
            "chat": b'"stop"',
            "responses": b"response.completed",
            "messages": b"end_turn",
            "gemini": b"STOP",
        }[form]

        def read() -> None:
            connection = bench.connect()
            body = BODIES[form] | ({} if form == "gemini" else {"stream": True})
            headers = {"authorization": f"Bearer {TOKEN}"}
            connection.request("POST", STREAM_PATHS[form], json.dumps(body).encode(), headers)
            with closing(connection), connection.getresponse() as response:
                while piece := response.read1():
                    got.extend(piece)

        reader = threading.Thread(target=read)
        reader.start()
        bench.recorder.wait_for_end()
        until(lambda: b"house" in got or b"hout" in got)  # the text is there
        assert ending in bench.recorder.read_stream()
        assert ending not in got
        recorded.set()
        reader.join(SECONDS)
    assert ending in got


def test_each_piece_is_on_disk_before_the_program_has_it(tmp_path: Path) -> None:
    pieces = [b"data: %s\n\n" % json.dumps(chat_event(f"{number} ")).encode() for number in range(20)]
    answer = (sse(b""), *(each for piece in pieces for each in (piece, 0.002)), CHAT_STREAM)
    with RawServer(answer) as server, open_gate(server.url, tmp_path) as bench:
        connection = bench.connect()
        body = json.dumps(BODIES["chat"] | {"stream": True}).encode()
        connection.request("POST", PATHS["chat"], body, {"authorization": f"Bearer {TOKEN}"})
        got = b""
        with closing(connection), connection.getresponse() as response:
            while piece := response.read1():
                got += piece
                assert len(bench.recorder.read_stream()) >= len(got)
    assert got.count(b"data: ") == 24


def test_the_program_waits_for_the_flush_of_the_answer_and_for_the_record_of_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, fsync = threading.Event(), os.fsync

    def flush_slowly(fd: int) -> None:
        may_end.wait(SECONDS)
        fsync(fd)

    with (
        Endpoint(STEP) as endpoint,
        open_gate(endpoint.url, tmp_path) as bench,
        ThreadPoolExecutor(1) as pool,
    ):
        monkeypatch.setattr(os, "fsync", flush_slowly)
        got = pool.submit(bench.ask, "chat")
        bench.recorder.wait_for_end()  # both at the same time
        with pytest.raises(TimeoutError):
            got.result(0.1)
        may_end.set()
        assert got.result(SECONDS).status == 200


def test_an_answer_that_can_not_be_flushed_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        monkeypatch.setattr(files, "_unsynced", [])
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            bench.ask("chat")
        until(lambda: bench.gate.fault)
        assert "Input/output error" in str(bench.gate.fault)
        assert bench.ask("chat").status == 400
    assert len(endpoint.requests) == 1


def test_an_answer_is_read_to_its_end_if_the_program_hangs_up(tmp_path: Path) -> None:
    begun = threading.Event()

    def answer() -> Iterator[Piece]:
        yield sse(stream_of(chat_event("Hello "), end=b""))
        begun.wait(SECONDS)
        for _ in range(100):  # more than fits into the buffers of a connection that nobody reads
            yield stream_of(chat_event("x" * 65536), end=b"")
        yield CHAT_STREAM

    with RawServer(answer) as server, open_gate(server.url, tmp_path) as bench:
        raw = bench.open_raw()
        raw.sendall(build_request("chat", stream=True))
        assert b"Hello" in receive_until(raw, b"Hello")
        raw.close()
        begun.set()
        end = bench.recorder.wait_for_end()
    assert end.answer.tokens == Tokens(read=10, written=5)
    assert bench.recorder.read_stream().endswith(CHAT_STREAM)


def test_nothing_that_follows_the_end_of_an_answer_is_waited_for(tmp_path: Path) -> None:
    with RawServer((sse(CHAT_STREAM), END)) as server, open_gate(server.url, tmp_path) as bench:
        assert bench.ask("chat", stream=True).body.endswith(b"data: [DONE]\n\n")
        assert bench.ask("chat", stream=True).status == 200


def test_a_server_may_forget_the_last_event(tmp_path: Path) -> None:
    body = CHAT_STREAM.removesuffix(b"data: [DONE]\n\n")
    with RawServer(sse(body)) as server, open_gate(server.url, tmp_path) as bench:
        got = bench.ask("chat", {"stream_options": {"include_usage": True}}, stream=True)
    assert got.body == body
    assert bench.recorder.ends[1].answer.tokens == Tokens(read=10, written=5)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_answer_is_passed_on_as_it_is_meant(tmp_path: Path, encoding: str) -> None:
    packed = gzip.compress(CHAT_STREAM) if encoding == "gzip" else zlib.compress(CHAT_STREAM)
    answer = sse(packed, b"content-encoding: " + encoding.encode() + b"\r\n")
    with RawServer(answer) as server, open_gate(server.url, tmp_path) as bench:
        got = bench.ask("chat", {"stream_options": {"include_usage": True}}, stream=True)
    assert server.asked[0].headers["accept-encoding"] == "identity"
    assert got.body == CHAT_STREAM == bench.recorder.read_stream()
    assert "content-encoding" not in got.headers


def test_an_unknown_compression_fails(tmp_path: Path) -> None:
    answer = sse(b"xxxx", b"content-encoding: br\r\n")
    with (
        RawServer(answer) as server,
        open_gate(server.url, tmp_path) as bench,
        pytest.raises(http.client.IncompleteRead),
    ):
        bench.ask("chat", stream=True)
    assert describe_failure(bench.recorder.ends[1]) == (ErrorKind.TRANSIENT, True)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("stream", [False, True])
def test_calls_and_a_cut_answer_are_recorded(tmp_path: Path, form: str, stream: bool) -> None:
    steps = ({"calls": [{"shell": "ls"}]}, {"text": "half", "cut": True})
    with Endpoint(*steps) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        for _ in range(2):
            bench.ask(form, {"tools": TOOLS[form]}, stream=stream)
    first, second = bench.recorder.ends[1].answer, bench.recorder.ends[2].answer
    assert [call.name for call in first.calls] == ["Bash"]
    assert [json.loads(call.arguments) for call in first.calls] == [{"command": "ls"}]
    assert first.finish == "tool_calls"
    assert second.finish == "length"


# ---- failures of the provider


@pytest.mark.parametrize(
    ("status", "kind", "billed"),
    [
        (400, ErrorKind.BAD_REQUEST, False),
        (401, ErrorKind.AUTH, False),
        (429, ErrorKind.OUTAGE, False),
        (500, ErrorKind.OUTAGE, False),
        (504, ErrorKind.TIMEOUT, True),
        (507, ErrorKind.TRANSIENT, True),
    ],
)
def test_an_error_of_the_provider_is_passed_on_unchanged(
    tmp_path: Path, status: int, kind: ErrorKind, billed: bool
) -> None:
    step = {"status": status, "message": "no such luck", "headers": {"Retry-After": "7", "set-cookie": "a=b"}}
    with Endpoint(step) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        got = bench.ask("chat", stream=True)
    assert got.status == status
    assert got.json["error"]["message"] == "no such luck"
    assert got.headers["retry-after"] == "7"
    assert "set-cookie" not in got.headers
    assert describe_failure(bench.recorder.ends[1]) == (kind, billed)


def test_a_key_in_an_error_is_hidden(tmp_path: Path) -> None:
    with (
        Endpoint({"status": 401, "message": f"bad key {KEY}!"}) as endpoint,
        open_gate(endpoint.url, tmp_path) as bench,
    ):
        got = bench.ask("chat")
    assert got.json["error"]["message"] == "bad key ***!"
    failure = bench.recorder.ends[1].answer.failure
    assert failure is not None
    assert KEY not in failure.error.message
    assert KEY.encode() not in bench.recorder.read_stream()


def test_a_key_that_arrives_in_pieces_is_hidden(tmp_path: Path) -> None:
    said = f'{{"error": {{"message": "bad key {KEY}!"}}}}'.encode()
    cut = said.index(KEY.encode()) + 5
    head = b"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nx-request-id: " + KEY.encode()
    chunks = [b"%x\r\n%s\r\n" % (len(each), each) for each in (said[:cut], said[cut:])]
    answer = head + b"\r\ntransfer-encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\n\r\n"
    with RawServer(answer) as server, open_gate(server.url, tmp_path) as bench:
        got = bench.ask("chat")
    assert got.json["error"]["message"] == "bad key ***!"
    assert KEY not in str(got.headers)
    assert KEY.encode() not in bench.recorder.read_stream()


def test_a_header_that_can_not_be_passed_on_is_left_out(tmp_path: Path) -> None:
    head = "content-type: application/json\r\nx-request-id: \N{SNOWMAN}\r\nrequest-id: r1\r\n".encode()
    with RawServer(whole(PLAIN, head)) as server, open_gate(server.url, tmp_path) as bench:
        got = bench.ask("chat")
    assert (got.body, got.headers["request-id"]) == (PLAIN, "r1")
    assert "x-request-id" not in got.headers


@pytest.mark.parametrize("status", [b"101 Switching Protocols", b"304 Not Modified", b"999 Odd"])
def test_a_status_that_programs_would_misread_is_not_passed_on(tmp_path: Path, status: bytes) -> None:
    with (
        RawServer(whole(b"", b"upgrade: x\r\nconnection: upgrade\r\n", status)) as server,
        open_gate(server.url, tmp_path) as bench,
    ):
        got = bench.ask("chat")
    assert got.status in (400, 502)
    assert got.json["error"]["message"]


def test_an_empty_success_has_no_answer(tmp_path: Path) -> None:
    with (
        RawServer(b"HTTP/1.1 204 No Content\r\n\r\n") as server,
        open_gate(server.url, tmp_path) as bench,
    ):
        assert bench.ask("chat", stream=True).status == 204
    assert describe_failure(bench.recorder.ends[1])[1]


def test_an_endless_error_is_cut(tmp_path: Path) -> None:
    chunk = b"10000\r\n%s\r\n" % (b"x" * 0x10000)
    head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
    size = paid_exchange.LONGEST_HELD
    with (
        RawServer((head + chunk * (size // 0x10000 + 2), END)) as server,
        open_gate(server.url, tmp_path) as bench,
    ):
        assert len(bench.ask("chat").body) == size


def test_an_endless_stream_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paid_exchange, "LONGEST_STREAM", 100_000)
    with (
        RawServer(sse(stream_of(*[chat_event("x")] * 5000))) as server,
        open_gate(server.url, tmp_path) as bench,
    ):
        with pytest.raises(http.client.IncompleteRead):
            bench.ask("chat", stream=True)
        assert describe_failure(bench.recorder.wait_for_end()) == (ErrorKind.TRANSIENT, True)
    assert len(bench.recorder.read_stream()) <= 100_000


def test_a_proxy_that_can_not_be_used_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://127.0.0.1:1")
    with (
        pytest.raises(InvalidFile, match="can't use the proxy of the environment"),
        open_gate("http://127.0.0.1:1/v1", tmp_path),
    ):
        pass


def test_certificates_that_can_not_be_read_are_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    with (
        pytest.raises(InvalidFile, match="can't read the certificates in SSL_CERT_FILE"),
        open_gate("https://127.0.0.1:1/v1", tmp_path),
    ):
        pass


def test_a_redirect_is_not_followed_nor_passed_on(tmp_path: Path) -> None:
    answer = whole(b"", b"location: http://127.0.0.1:1/evil\r\n", b"307 Temporary Redirect")
    with RawServer(answer) as server, open_gate(server.url, tmp_path) as bench:
        got = bench.ask("messages")
    assert len(server.asked) == 1
    assert got.status == 400
    assert "redirects to http://127.0.0.1:1/evil" in got.json["error"]["message"]
    assert "location" not in got.headers
    assert describe_failure(bench.recorder.ends[1]) == (ErrorKind.BAD_REQUEST, False)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999999\r\n\r\n" + PLAIN,
        sse(b""),
        sse(CHAT_STREAM[:60]),
        sse(stream_of(chat_event("Hello"), end=b"")),
        sse(stream_of(chat_event("Hello"), {"error": {"message": "overloaded"}}, end=b"")),
        sse(b"data: {not json}\n\n" + CHAT_STREAM),
        sse(stream_of({"choices": 5})),
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9999\r\nx",
        whole(b"<html>hello</html>", b"content-type: text/html\r\n"),
        whole(b"[]"),
        whole(b"{}"),
        whole(b"[" * 100_000),
    ],
)
def test_an_answer_that_is_cut_or_garbled_may_be_billed(tmp_path: Path, answer: bytes, stream: bool) -> None:
    with RawServer(answer) as server, open_gate(server.url, tmp_path) as bench:
        with suppress(http.client.HTTPException, ConnectionError):  # the program sees that it is cut
            bench.ask("chat", stream=stream)
        end = bench.recorder.wait_for_end()
    assert describe_failure(end)[1], end


def test_an_answer_without_usage_may_be_billed(tmp_path: Path) -> None:
    body = stream_of(chat_event("Hello"), chat_event("", "stop"))
    with RawServer(sse(body)) as server, open_gate(server.url, tmp_path) as bench:
        assert bench.ask("chat", stream=True).body == body
    answer = bench.recorder.ends[1].answer
    assert (answer.failure, answer.tokens, answer.finish) == (None, None, "stop")


def test_what_follows_a_length_is_no_part_of_the_answer(tmp_path: Path) -> None:
    with (
        RawServer(whole(PLAIN) + b"HTTP/1.1 200 OK\r\n\r\nmore") as server,
        open_gate(server.url, tmp_path) as bench,
    ):
        assert bench.ask("chat").body == PLAIN
    assert bench.recorder.ends[1].answer.tokens == Tokens(read=10, written=5)


@pytest.mark.parametrize("form", FORMATS)
def test_a_server_that_is_not_there_costs_nothing(tmp_path: Path, form: str) -> None:
    with open_gate("http://127.0.0.1:1/v1", tmp_path) as bench:
        got = bench.ask(form)
    assert got.status == 502
    assert "can't connect to http://127.0.0.1:1" in got.json["error"]["message"]
    assert describe_failure(bench.recorder.ends[1]) == (ErrorKind.OUTAGE, False)


def test_a_server_that_stalls_ends_with_the_time_of_the_step(tmp_path: Path) -> None:
    answers = ((END,), (sse(stream_of(chat_event("Hello"), end=b"")), END))
    for number, answer in enumerate(answers):
        directory = tmp_path / str(number)
        directory.mkdir()
        with RawServer(answer) as server, open_gate(server.url, directory, seconds=2) as bench:
            try:
                got = bench.ask("chat", stream=True)
                assert got.status == 504
            except http.client.IncompleteRead:
                assert number == 1
            end = bench.recorder.wait_for_end()
            assert describe_failure(end) == (ErrorKind.TIMEOUT, True)
            assert bench.ask("chat").status == 400
        assert bench.recorder.refusals[0].message == "the time of this step is over"


def test_a_server_that_trickles_ends_with_the_time_of_the_step(tmp_path: Path) -> None:
    def answer() -> Iterator[Piece]:
        yield sse(b"")
        while True:
            yield b": wait\n\n"
            yield 0.01

    with RawServer(answer) as server, open_gate(server.url, tmp_path, seconds=2) as bench:
        with pytest.raises(http.client.IncompleteRead):
            bench.ask("chat", stream=True)
        assert describe_failure(bench.recorder.wait_for_end()) == (ErrorKind.TIMEOUT, True)


def test_an_endless_event_is_cut(tmp_path: Path) -> None:
    body = b"data: " + b"x" * (paid_exchange.LONGEST_EVENT + 1000)
    with RawServer(sse(body)) as server, open_gate(server.url, tmp_path) as bench:
        with pytest.raises(http.client.IncompleteRead):
            bench.ask("chat", stream=True)
        assert describe_failure(bench.recorder.wait_for_end()) == (ErrorKind.TRANSIENT, True)


def test_a_proxy_of_the_environment_forwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the built-in client; a gate is not between the proxy and the program."""
    with Proxy() as proxy, RawServer(whole(PLAIN)) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with open_gate(server.url, tmp_path) as bench:
            assert bench.ask("chat").body == PLAIN
        assert proxy.asked[0].line.split()[:2] == ["POST", f"{server.url}/chat/completions"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_proxy_of_the_environment_opens_a_tunnel_to_a_server_with_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority, *, stream: bool
) -> None:
    answer = (sse(CHAT_STREAM), END) if stream else whole(PLAIN)
    with Proxy() as proxy, RawServer(answer, tls=authority.server) as server:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        with open_gate(server.url, tmp_path) as bench:
            assert bench.ask("chat", stream=stream).status == 200
            assert bench.recorder.ends[1].answer.failure is None
        assert [asked.line for asked in proxy.asked] == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]
        assert KEY not in str(proxy.asked)
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("status", [403, 407])
def test_a_proxy_that_opens_no_tunnel_is_a_failure_that_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    with Proxy(refuses=status) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with open_gate("https://127.0.0.1:9/v1", tmp_path) as bench:
            got = bench.ask("chat")
            assert describe_failure(bench.recorder.wait_for_end()) == (ErrorKind.REFUSED, False)
    assert got.status == 400
    assert "HTTPS_PROXY" in got.json["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_with_an_address_of_ipv6(tmp_path: Path, *, stream: bool) -> None:
    answer = (sse(CHAT_STREAM), END) if stream else whole(PLAIN)
    with RawServer(answer, host="::1") as server, open_gate(server.url, tmp_path) as bench:
        assert bench.ask("chat", stream=stream).status == 200
        assert bench.recorder.ends[1].answer.failure is None
        assert server.asked[0].headers["host"] == f"[::1]:{server.port}"


def test_tls_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority) -> None:
    with RawServer((sse(CHAT_STREAM), END), tls=authority.server) as server:
        (tmp_path / "1").mkdir()
        with open_gate(server.url, tmp_path / "1") as bench:
            got = bench.ask("chat")
            assert got.status == 400  # the next request would fail, too
            assert "SSL_CERT_FILE" in got.json["error"]["message"]
            assert describe_failure(bench.recorder.ends[1]) == (ErrorKind.REFUSED, False)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        (tmp_path / "2").mkdir()
        with open_gate(server.url, tmp_path / "2") as bench:
            for _ in range(2):  # the server doesn't end its answers
                assert bench.ask("chat", stream=True).body.endswith(b"data: [DONE]\n\n")
            assert bench.gate.fault is None


# ---- refusals


@pytest.mark.parametrize("form", FORMATS)
def test_a_refusal_has_the_form_of_the_format(tmp_path: Path, form: str) -> None:
    with open_gate("http://127.0.0.1:1/v1", tmp_path) as bench:
        bench.recorder.answers = [GateRefusal("limit", "the job has $0.01 left: raise its limit")]
        got = bench.ask(form, stream=True)
    assert got.status == 400
    assert got.headers["content-type"] == "application/json"
    assert got.json["error"]["message"] == "the job has $0.01 left: raise its limit"
    fields: dict[str, Json] = {
        "chat": {"type": "invalid_request_error", "param": None, "code": "logist_limit"},
        "responses": {"type": "invalid_request_error", "param": None, "code": "logist_limit"},
        "messages": {"type": "invalid_request_error"},
        "gemini": {"code": 400, "status": "FAILED_PRECONDITION"},
    }
    assert fields[form].items() <= got.json["error"].items()
    assert ("type" in got.json) is (form == "messages")
    assert bench.recorder.refusals == [GateRefusal("limit", "the job has $0.01 left: raise its limit")]
    assert bench.recorder.events == []


def test_a_program_may_ask_again_later_if_only_running_calls_prevent_its_request(tmp_path: Path) -> None:
    with open_gate("http://127.0.0.1:1/v1", tmp_path) as bench:
        bench.recorder.answers = [GateRefusal("busy", "others")]
        got = bench.ask("chat")
    assert (got.status, got.headers["retry-after"]) == (429, "5")


def test_another_model_and_a_bad_request_are_refused_and_counted(tmp_path: Path) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        assert bench.ask("chat", {"model": "dear"}).status == 404
        assert bench.ask("chat", {"n": 2}).status == 400
        assert bench.send("POST", PATHS["chat"], b"{").status == 400
        assert bench.ask("responses", {"previous_response_id": "x"}).status == 400
        assert bench.ask("chat").status == 200
    assert [each.reason for each in bench.recorder.refusals] == ["model", "request", "request", "request"]
    assert len(endpoint.requests) == 1


def test_the_limit_that_the_recorder_allows_is_forwarded(tmp_path: Path) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        bench.recorder.answers = [123]
        bench.ask("messages")
    assert endpoint.requests[0]["body"]["max_tokens"] == 123
    assert bench.recorder.requests[0].max_output_tokens == 500


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Bearer x"}, {"x-api-key": KEY}, {"authorization": TOKEN}]
)
@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/models", "/nothing"])
def test_nobody_without_the_token_is_served(tmp_path: Path, headers: dict[str, str], path: str) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        for method in ("POST", "GET"):
            got = bench.send(method, path, b"{}", {"authorization": ""} | headers)
            assert got.status == 401
            assert "only for the program" in got.json["error"]["message"]
    assert (endpoint.requests, bench.recorder.refusals, bench.recorder.events) == ([], [], [])


@pytest.mark.parametrize("name", ["x-api-key", "x-goog-api-key", "api-key", "?key="])
def test_the_token_may_be_where_a_format_has_its_key(tmp_path: Path, name: str) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        path, headers = PATHS["gemini"], {name: TOKEN, "authorization": ""}
        if name == "?key=":
            path, headers = f"{path}?key={TOKEN}", {"authorization": ""}
        got = bench.send("POST", path, json.dumps(BODIES["gemini"]).encode(), headers)
    assert got.status == 200
    assert TOKEN not in json.dumps(endpoint.requests)
    assert KEY in json.dumps(endpoint.requests[0]["headers"])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/batches", 404),
        ("POST", "/v1/embeddings", 404),
        ("POST", "/v1/messages/batches", 404),
        ("POST", "/other/v1/chat/completions", 404),
        ("POST", "/v1/models", 404),
        ("GET", "/v1/responses/resp_1", 404),
        ("GET", "/v1/chat/completions", 405),
        ("PUT", "/v1/chat/completions", 405),
        ("DELETE", "/v1/files/1", 405),
        ("CONNECT", "api.openai.com:443", 405),
        ("OPTIONS", "*", 405),
    ],
)
def test_anything_else_is_refused_and_not_forwarded(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        got = bench.send(method, path, json.dumps(BODIES["chat"]).encode())
        assert got.status == status
        assert got.json["error"]["message"]
        assert bench.ask("chat").status == 200  # the gate goes on
    assert len(endpoint.requests) == 1
    assert [each.reason for each in bench.recorder.refusals] == ["request"]


def test_another_protocol_is_refused(tmp_path: Path) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        got = bench.send("GET", "/v1/responses", None, {"connection": "upgrade", "upgrade": "websocket"})
        assert got.status == 405
        for nonsense in (
            b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"hello\r\n\r\n",
        ):
            with bench.open_raw() as raw:
                raw.sendall(nonsense)
                assert b"HTTP/1.1 200" not in receive_all(raw)
        assert bench.ask("chat").status == 200
    assert len(endpoint.requests) == 1


def test_the_gate_itself_lists_the_model(tmp_path: Path) -> None:
    with open_gate("http://127.0.0.1:1/v1", tmp_path) as bench:
        assert [one["id"] for one in bench.send("GET", "/v1/models").json["data"]] == ["real"]
        assert bench.send("GET", "/v1/models/real").json["id"] == "real"
        gemini = bench.send("GET", "/v1beta/models").json["models"]
        assert [one["name"] for one in gemini] == ["models/real"]
        assert bench.send("HEAD", "/", None, {"authorization": ""}).status == 200
    assert bench.recorder.refusals == []


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1beta/models/real:countTokens"])
def test_counting_tokens_is_free(tmp_path: Path, path: str) -> None:
    body = json.dumps({"model": "real", "messages": [], "contents": []}).encode()
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        assert bench.send("POST", path, body).json["input_tokens"] == 100
        assert bench.send("POST", path.replace("real", "dear"), body.replace(b"real", b"dear")).status == 404
    assert bench.recorder.events == []
    assert endpoint.requests == []  # the server doesn't list them


# ---- HTTP


def build_request(form: str, *, stream: bool = False, head: str = "", body: bytes | None = None) -> bytes:
    data = json.dumps(BODIES[form] | ({"stream": True} if stream else {})).encode() if body is None else body
    length = "" if "transfer-encoding" in head else f"content-length: {len(data)}\r\n"
    return (
        f"POST {PATHS[form]} HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\n{length}{head}\r\n".encode() + data
    )


def receive_until(raw: socket.socket, end: bytes) -> bytes:
    data = b""
    while end not in data and (piece := raw.recv(65536)):
        data += piece
    return data


def receive_all(raw: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionResetError):
        while piece := raw.recv(65536):
            data += piece
    return data


def test_requests_follow_each_other_on_one_connection(tmp_path: Path) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        connection = bench.connect()
        for number in range(1, 7):
            body = BODIES["chat"] | {"stream": number % 2 == 0}
            assert send(connection, "POST", PATHS["chat"], json.dumps(body).encode()).status == 200
            assert send(connection, "GET", "/v1/models").status == 200
        connection.close()
    assert len(endpoint.requests) == len(bench.recorder.ends) == 6


def test_a_request_may_come_in_chunks(tmp_path: Path) -> None:
    data = json.dumps(BODIES["chat"]).encode()
    chunks = (
        b"".join(b"%X;x=y\r\n%s\r\n" % (len(part), part) for part in (data[:7], data[7:]))
        + b"0\r\na: b\r\n\r\n"
    )
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench, bench.open_raw() as raw:
        raw.sendall(build_request("chat", head="transfer-encoding: chunked\r\n", body=chunks) * 2)
        raw.shutdown(socket.SHUT_WR)
        assert receive_all(raw).count(b"HTTP/1.1 200 OK") == 2
    assert endpoint.requests[0]["body"]["messages"] == BODIES["chat"]["messages"]


def test_a_body_is_asked_for_only_if_it_is_wanted(tmp_path: Path) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        head, _, data = build_request("chat", head="expect: 100-continue\r\n").partition(b"\r\n\r\n")
        with bench.open_raw() as raw:
            raw.sendall(head + b"\r\n\r\n")
            assert receive_until(raw, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            raw.sendall(data)
            assert b"200 OK" in receive_until(raw, b"}")
        with bench.open_raw() as raw:
            raw.sendall(head.replace(TOKEN.encode(), b"x") + b"\r\n\r\n")
            assert receive_until(raw, b"\r\n").startswith(b"HTTP/1.1 401")
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("content-length: 99999999\r\n", 413),
        ("content-length: x\r\n", 400),
        ("content-length: -1\r\n", 400),
        ("transfer-encoding: gzip\r\n", 400),
        ("content-length: 5\r\ntransfer-encoding: chunked\r\n", 400),
        ("transfer-encoding: chunked\r\nx: y\r\n", 400),
        ("content-encoding: gzip\r\ncontent-length: 5\r\n", 415),
        ("", 411),
    ],
)
def test_a_request_that_is_too_large_or_unclear_is_refused(tmp_path: Path, head: str, status: int) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench, bench.open_raw() as raw:
        request = f"POST {PATHS['chat']} HTTP/1.1\r\nx-api-key: {TOKEN}\r\n{head}\r\nnot a chunk\r\n"
        raw.sendall(request.encode() + b"x" * 100_000)  # it is still sending
        assert receive_until(raw, b"}}").startswith(f"HTTP/1.1 {status} ".encode())
    assert endpoint.requests == []


def test_too_many_chunks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_connection, "LONGEST_REQUEST", 1000)
    with open_gate("http://127.0.0.1:1/v1", tmp_path) as bench, bench.open_raw() as raw:
        raw.sendall(
            build_request(
                "chat", head="transfer-encoding: chunked\r\n", body=b"64\r\n" + b"x" * 100 + b"\r\n"
            )
        )
        for _ in range(10):
            raw.sendall(b"64\r\n" + b"x" * 100 + b"\r\n")
        assert receive_until(raw, b"}}").startswith(b"HTTP/1.1 413 ")


def test_a_request_that_ends_early_is_not_forwarded(tmp_path: Path) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        for cut in range(1, len(build_request("chat")), 9):
            with bench.open_raw() as raw:
                raw.sendall(build_request("chat")[:cut])
        assert bench.ask("chat").status == 200
    assert len(endpoint.requests) == len(bench.recorder.ends) == 1


def test_an_old_program_gets_a_stream_that_ends_with_the_connection(tmp_path: Path) -> None:
    with (
        RawServer(sse(CHAT_STREAM)) as server,
        open_gate(server.url, tmp_path) as bench,
        bench.open_raw() as raw,
    ):
        raw.sendall(build_request("chat", stream=True).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert receive_all(raw).endswith(b'"stop"}]}\n\ndata: [DONE]\n\n')


def test_many_programs_at_once(tmp_path: Path) -> None:
    """Each answer goes to its own request; connections above the limit are closed, if all have requests."""
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        failures: list[Got] = []

        def ask(number: int) -> None:
            form = FORMATS[number % 4]
            got = bench.ask(form, stream=number % 8 < 4)
            failures.extend([got] if got.status != 200 else [])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(48)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert failures == []
        assert len(bench.recorder.ends) == 48
        with ExitStack() as stack:
            for _ in range(spend_gate.MOST_CONNECTIONS):
                stack.enter_context(bench.open_raw()).sendall(build_request("chat")[:-1])
            until(lambda: len(bench.gate._open) == spend_gate.MOST_CONNECTIONS and not bench.gate._idle)
            with bench.open_raw() as one_more:
                assert receive_all(one_more) == b""
        until(lambda: not bench.gate._open)
        assert bench.ask("chat").status == 200


def test_connections_without_the_token_take_no_place_from_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user of the machine can open as many as they like."""
    monkeypatch.setattr(spend_gate, "MOST_CONNECTIONS", 4)
    heads = [
        b"GET /v1/models HTTP/1.1\r\n",
        b"POST /v1/messages HTTP/1.1\r\nx-api-key: wrong\r\n",
        b"POST /v1/messages HTTP/1.1\r\nx-api-key: wrong\r\ncontent-length: 9\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nx-api-key: wrong\r\ncontent-length: 9\r\n\r\n",
    ]
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench, ExitStack() as stack:
        for head in heads:
            stack.enter_context(bench.open_raw()).sendall(head)
        until(lambda: len(bench.gate._open) == len(heads))
        for _ in range(3):
            assert bench.ask("chat").status == 200


def test_a_head_that_does_not_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_connection, "HEAD_SECONDS", 0.1)
    with open_gate("http://127.0.0.1:1/v1", tmp_path) as bench, bench.open_raw() as raw, suppress(OSError):
        raw.sendall(b"POST /v1/messages HTTP/1.1\r\n")
        raw.settimeout(0.1)
        for number in range(90):
            raw.sendall(b"x-%d: slow\r\n" % number)  # each one is in time
            with suppress(TimeoutError):
                assert receive_all(raw) == b""
                break
        else:
            pytest.fail("it was read to its end")


def test_headers_of_the_program_that_matter_are_forwarded(tmp_path: Path) -> None:
    headers = {"anthropic-beta": "a-b", "User-Agent": "prog/1", "cookie": "x=y", "x-forwarded-for": "1.2.3.4"}
    headers |= {
        "authorization": "",
        "x-api-key": TOKEN,
        "openai-organization": "org",
        "proxy-authorization": "Basic x",
        "te": "trailers",
    }
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        bench.send("POST", PATHS["messages"], json.dumps(BODIES["messages"]).encode(), headers)
    sent = endpoint.requests[0]["headers"]
    assert (sent["anthropic-beta"], sent["user-agent"], sent["anthropic-version"]) == (
        "a-b",
        "prog/1",
        "2023-06-01",
    )
    assert sent["x-api-key"] == KEY
    assert not {
        "cookie",
        "x-forwarded-for",
        "openai-organization",
        "proxy-authorization",
        "te",
        "authorization",
    } & set(sent)


@pytest.mark.parametrize("more", [{}, {"context_window": 1_000_000}])
def test_a_longer_context_is_asked_for_only_if_the_model_has_one(tmp_path: Path, more: Json) -> None:
    given = {"anthropic-beta": "context-1m-2025-08-07, files-api-2025-04-14"}
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path, **more) as bench:
        bench.send("POST", PATHS["messages"], json.dumps(BODIES["messages"]).encode(), given)
    wanted = given["anthropic-beta"] if more else "files-api-2025-04-14"
    assert endpoint.requests[0]["headers"]["anthropic-beta"] == wanted


def test_a_query_can_not_change_the_request(tmp_path: Path) -> None:
    query = f"?alt=sse&fields=candidates&%6Bey={TOKEN}&generationConfig.candidateCount=8&$alt=proto&beta=true"
    with RawServer(whole(PLAIN)) as server, open_gate(server.url, tmp_path) as bench:
        bench.ask("chat", path=PATHS["chat"] + query)
    assert server.asked[0].line.split()[1] == "/v1/chat/completions?alt=sse&beta=true"


@pytest.mark.parametrize("form", ["messages", "gemini", "chat"])
def test_the_key_is_where_the_program_had_the_token(tmp_path: Path, form: str) -> None:
    """Servers that imitate a provider may want it there."""
    body = json.dumps(BODIES[form]).encode()
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        bench.send("POST", PATHS[form], body)
        bench.send("POST", PATHS[form], body, {"authorization": "", "api-key": TOKEN})
        bench.send("POST", PATHS[form], body, {"x-api-key": TOKEN, "x-goog-api-key": TOKEN})
    usual = {"messages": "x-api-key", "gemini": "x-goog-api-key", "chat": "authorization"}[form]
    sent = [request["headers"] for request in endpoint.requests]
    assert [
        KEY in headers.get(name, "")
        for headers, name in zip(sent, ("authorization", "api-key", usual), strict=True)
    ] == [True] * 3
    assert [str(headers).count(KEY) for headers in sent] == [1, 1, 1]


def test_anthropic_itself_gets_the_key_as_it_wants_it(tmp_path: Path) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path, protocol="anthropic") as bench:
        bench.ask("messages")
    headers = endpoint.requests[0]["headers"]
    assert (headers["x-api-key"], headers.get("authorization")) == (KEY, None)


def test_a_model_may_mark_each_piece_as_the_last_one(tmp_path: Path) -> None:
    pieces = [
        {"candidates": [{"content": {"parts": [{"text": f"{number} "}]}, "finishReason": "STOP"}],
         "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": number, "totalTokenCount": 10 + number}}
        for number in range(1, 4)
    ]  # fmt: skip
    body = stream_of(*pieces, end=b"")
    with RawServer(sse(body)) as server, open_gate(server.url, tmp_path) as bench:
        assert bench.ask("gemini", stream=True).body == body
    assert bench.recorder.ends[1].text == "1 2 3 "
    assert bench.recorder.ends[1].answer.tokens == Tokens(read=10, written=3)


@pytest.mark.parametrize("target", ["http://api.openai.com/v1/chat/completions", "http://[", "x"])
def test_the_gate_is_no_proxy_for_other_hosts(tmp_path: Path, target: str) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench, bench.open_raw() as raw:
        raw.sendall(build_request("chat").replace(PATHS["chat"].encode(), target.encode()))
        assert receive_until(raw, b"}}").startswith(b"HTTP/1.1 404 ")
        assert bench.gate.fault is None
    assert endpoint.requests == []


def test_the_body_of_a_request_that_has_none_is_no_request(tmp_path: Path) -> None:
    smuggled = build_request("chat")
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench, bench.open_raw() as raw:
        raw.sendall(
            f"GET /v1/models HTTP/1.1\r\nx-api-key: {TOKEN}\r\ncontent-length: {len(smuggled)}\r\n\r\n".encode()
            + smuggled
        )
        assert receive_all(raw).count(b"HTTP/1.1 ") == 1
    assert endpoint.requests == []


def test_large_requests_at_once_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spend_gate, "MOST_BYTES", 1000)
    going_on = threading.Event()

    def answer() -> Iterator[Piece]:
        going_on.wait(SECONDS)
        yield whole(PLAIN)

    large = {"messages": [{"role": "user", "content": "x" * 700}]}
    with RawServer(answer) as server, open_gate(server.url, tmp_path) as bench:
        asking = threading.Thread(target=bench.ask, args=("chat", large))
        asking.start()
        until(lambda: server.asked)
        assert bench.ask("chat", large).status == 429
        going_on.set()
        asking.join(SECONDS)
        until(lambda: bench.gate._bytes == 0)  # the program has its answer a moment earlier
        assert bench.ask("chat", large).status == 200
    assert [each.reason for each in bench.recorder.refusals] == ["busy"]


# ---- the gate as a whole


def test_two_gates_have_two_ports_and_no_other_server_gets_one(tmp_path: Path) -> None:
    with (
        open_gate("http://127.0.0.1:1/v1", tmp_path) as one,
        open_gate("http://127.0.0.1:1/v1", tmp_path) as two,
    ):
        assert one.gate.port != two.gate.port
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            with socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, option, 1)
                with pytest.raises(OSError, match="in use"):
                    listen_at(other, one.gate.port)


def listen_at(other: socket.socket, port: int) -> None:
    other.bind(("127.0.0.1", port))
    other.listen()


def test_a_program_may_forget_to_close_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spend_gate, "MOST_CONNECTIONS", 4)
    with ExitStack() as kept, Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        for _ in range(12):
            connection = kept.enter_context(closing(bench.connect()))
            assert send(connection, "POST", PATHS["chat"], json.dumps(BODIES["chat"]).encode()).status == 200


def test_the_gate_listens_only_on_this_machine(tmp_path: Path) -> None:
    with open_gate("http://127.0.0.1:1/v1", tmp_path) as bench:
        assert bench.gate._listeners[0].getsockname()[0] == "127.0.0.1"


def test_the_gate_also_accepts_on_a_listener_from_elsewhere(tmp_path: Path) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "gate"))
        listener.listen()
        bench.gate.listen_on(listener)
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(str(tmp_path / "gate"))
                raw.sendall(build_request("chat"))
                assert receive_until(raw, b"house").startswith(b"HTTP/1.1 200 OK")
        assert bench.ask("chat").status == 200
    assert listener.fileno() == -1


def test_a_closed_gate_gives_up_what_does_not_arrive(tmp_path: Path) -> None:
    with RawServer((END,)) as server, open_gate(server.url, tmp_path) as bench:
        raw = bench.open_raw()
        raw.sendall(build_request("chat"))
        until(lambda: server.asked)
        bench.gate.close()
        assert describe_failure(bench.recorder.ends[1]) == (ErrorKind.TIMEOUT, True)
        assert receive_all(raw) == b""
        raw.close()
        with pytest.raises(OSError, match="refused"):
            bench.open_raw()
    assert bench.recorder.events == [("admit", 1), ("sent", 1), ("end", 1)]
    assert bench.gate.fault is None


@pytest.mark.parametrize("method", ["admit", "mark_sent", "end", "count_refusal"])
@pytest.mark.parametrize("stream", [False, True])
def test_nothing_more_is_forwarded_if_the_recorder_fails(tmp_path: Path, method: str, stream: bool) -> None:
    with Endpoint(STEP) as endpoint, open_gate(endpoint.url, tmp_path) as bench:
        bench.recorder.failing = {method}
        if method == "count_refusal":
            assert bench.ask("chat", {"model": "other"}, stream=stream).status == 404
        else:
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                bench.ask("chat", stream=stream)
        assert isinstance(bench.gate.fault, OSError)
        bench.recorder.failing = set()
        got = bench.ask("chat")
        assert got.status == 400
        assert "can't record" in got.json["error"]["message"]
    assert len(endpoint.requests) == (1 if method == "end" else 0)


def test_a_stream_file_is_not_opened_through_a_link(tmp_path: Path) -> None:
    with RawServer(sse(CHAT_STREAM)) as server, open_gate(server.url, tmp_path) as bench:
        Path(tmp_path / "1.stream").symlink_to("/dev/null")
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            bench.ask("chat", stream=True)
    assert isinstance(bench.gate.fault, StorageError)
    assert server.asked == []


def test_nothing_is_passed_on_that_is_not_on_disk(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with RawServer(sse(CHAT_STREAM)) as server, open_gate(server.url, tmp_path) as bench:
        bench.recorder.on_sent = lambda: replace_descriptor(full, tmp_path / "1.stream")
        with bench.open_raw() as raw:
            raw.sendall(build_request("chat", stream=True))
            assert b"data:" not in receive_all(raw)
        until(lambda: bench.gate.fault)
        assert "No space left" in str(bench.gate.fault)
        assert bench.ask("chat").status == 400
    assert bench.recorder.ends == {}  # in doubt: it may be billed
    os.close(full)


def replace_descriptor(other: int, path: Path) -> None:
    """Let the open file of this process at a path be another one, as if the disk were full."""
    for name in os.listdir("/proc/self/fd"):
        if os.path.realpath(f"/proc/self/fd/{name}") == str(path):
            os.dup2(other, int(name))


LONG_STREAM = """
import http.client, json, resource, sys
from pathlib import Path
from tests.raw_server import RawServer
from tests.shell.agents.gate_bench import BODIES, PATHS, TOKEN, open_gate
from tests.shell.agents.test_gate import CHAT_STREAM, chat_event, sse, stream_of

def read(bench):
    connection = bench.connect()
    body = json.dumps(BODIES["chat"] | {"stream": True}).encode()
    connection.request("POST", PATHS["chat"], body, {"authorization": f"Bearer {TOKEN}"})
    response, size = connection.getresponse(), 0
    while piece := response.read(65536):
        size += len(piece)
    return size

def answer():
    yield sse(b"")
    block = stream_of(chat_event("word " * 40), end=b"") * 200
    for _ in range(next(megabytes) * 1_000_000 // len(block)):
        yield block
    yield CHAT_STREAM

megabytes = iter((3, 100))
with RawServer(answer) as server, open_gate(server.url, Path(sys.argv[1]), seconds=600) as bench:
    before = (read(bench), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    after = (read(bench), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    tokens = bench.recorder.wait_for_end(2).answer.tokens
    print(after[0], after[1] - before[1], tokens.read, len(bench.recorder.ends[2].text))
"""


@pytest.mark.deep
def test_a_long_stream_takes_no_memory(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", LONG_STREAM, str(tmp_path)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=ROOT)
    size, kilobytes, read, kept = map(int, done.stdout.split())
    assert size > 99_000_000
    assert kilobytes < 8_000
    assert (read, kept) == (10, paid_exchange.LONGEST_TEXT)
    assert (tmp_path / "2.stream").stat().st_size > size
