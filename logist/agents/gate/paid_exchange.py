"""One paid request: forwarded once, its answer kept on disk and passed on as it arrives, and its end recorded.

The program gets no byte of the answer that is not in the stream file, and not the end of the answer before the file is on disk
and the cost is recorded. If the program hangs up, the answer is read to its end: it is being paid for.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from io import StringIO
from threading import Lock
from typing import Protocol

import httpx

from logist.agents.clients.answers import ModelAnswer, make_failure
from logist.agents.clients.chat import ChatReader
from logist.agents.clients.direct import AnswerReader, HttpExchange, HttpRequest, describe_status
from logist.agents.clients.event_stream import EventSplitter, StreamEvent
from logist.agents.clients.messages import MessageReader
from logist.agents.gate import refusals
from logist.agents.gate.gemini_reader import GeminiReader
from logist.agents.gate.paid_requests import PaidRequest
from logist.agents.gate.patience import Patience
from logist.agents.gate.recorder import Admission, Format, GateEnd, GateRecorder
from logist.agents.gate.responses_reader import ResponsesReader
from logist.core.model import ErrorKind, JsonObject, TransportError
from logist.store import files

LONGEST_EVENT = 16 << 20
"""Bytes of one event of a stream; the last one of a response repeats the whole answer."""
LONGEST_ANSWER = 64 << 20
"""Bytes of an answer that is not a stream."""
LONGEST_STREAM = 256 << 20
"""Bytes of an answer that is a stream: no model says so much, and all of it is kept on disk."""
LONGEST_TEXT = 1 << 20
"""Characters of the text and of the calls that are kept for the transcript."""
LONGEST_HELD = 1 << 20
"""Bytes that are held back at the end of a stream, until its cost is known."""
PIECE = 1 << 16
"""Bytes that are unpacked at once, if the answer is compressed."""

DRAIN_SECONDS = 1.0
"""How long the gate waits for the end of an answer that is complete."""

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_FAILURES: dict[str, int] = {
    ErrorKind.TIMEOUT: refusals.GATEWAY_TIMEOUT,
    ErrorKind.OUTAGE: refusals.BAD_GATEWAY,
    ErrorKind.TRANSIENT: refusals.BAD_GATEWAY,
}
_READERS: dict[Format, Callable[[int], AnswerReader]] = {
    "chat": ChatReader,
    "responses": ResponsesReader,
    "messages": MessageReader,
    "gemini": GeminiReader,
}


class ProgramAnswers(Protocol):
    """The program's side of the connection. Once the program has hung up, nothing is sent, and nothing raised."""

    def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin an answer whose length isn't known yet."""
        ...

    def send_piece(self, data: bytes) -> None:
        """Send a piece of the answer."""
        ...

    def end_answer(self) -> None:
        """End the answer."""
        ...

    def send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send an answer at once."""
        ...

    def hang_up(self) -> None:
        """Close the connection: the answer is not complete."""
        ...


class _Stopped(Exception):
    """The gate has ended, or the exchange."""


class PaidExchange:
    """An exchange that is on disk and reserved."""

    def __init__(
        self,
        paid: PaidRequest,
        admission: Admission,
        recorder: GateRecorder,
        url: str,
        headers: Mapping[str, str],
        secret: str | None,
        deadline: float,
        patience: Patience,
    ) -> None:
        self._paid, self._admission, self._recorder = paid, admission, recorder
        self._url, self._headers, self._deadline = url, headers, deadline
        self._patience = patience
        self._secret = secret.encode() if secret else b""
        self._reader = _READERS[paid.target.format](LONGEST_TEXT)
        secrets = [secret] if secret else []
        self._call = HttpExchange(paid.ask, HttpRequest(url, {}, {}), self._reader, _ignore_text, secrets)
        self._began = time.monotonic()
        self._text = StringIO()
        self._held = bytearray()
        self._broken: Exception | None = None
        self._lock = Lock()
        self._is_over = False
        """Whether the end is recorded, or nothing may be recorded any more."""
        self._is_sent = False
        self._has_program_begun = False

    def run(self, client: httpx.Client, program: ProgramAnswers) -> None:
        """Forward the request, and pass on the answer. Raises what the recorder raises, and StorageError for the stream file."""
        body = self._paid.take_body(self._admission.max_output_tokens)
        with files.convert_os_errors(self._admission.stream_file):
            file = os.open(self._admission.stream_file, _APPEND, 0o600)
        try:
            self._mark_sent()
            self._forward(client, body, file, program)
        finally:
            os.close(file)

    def give_up(self, message: str) -> None:
        """End the exchange for the record; the provider may still be at work."""
        self._settle(ModelAnswer(failure=make_failure(ErrorKind.TIMEOUT, message, billed=self._is_sent)))

    def _mark_sent(self) -> None:
        with self._lock:
            if self._is_over:
                raise _Stopped
            self._recorder.mark_sent(self._admission.k)
            self._is_sent = True

    def _forward(self, client: httpx.Client, body: bytes, file: int, program: ProgramAnswers) -> None:
        left = max(0.001, self._deadline - time.monotonic())
        limits = httpx.Timeout(left, connect=min(30.0, left))
        try:
            with client.stream(
                "POST", self._url, headers=dict(self._headers), content=body, timeout=limits
            ) as response:
                del body
                self._call.status = describe_status(response.status_code)
                with closing(self._receive(response, file)) as pieces:
                    if not response.is_success:
                        self._pass_refusal(response, pieces, file, program)
                    elif self._is_stream(response):
                        self._call.has_begun = True
                        self._pass_stream(response, pieces, file, program)
                    else:
                        self._call.has_begun = True
                        self._pass_whole(response, pieces, file, program)
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            httpx.StreamError,
            OverflowError,
            ValueError,
            zlib.error,
        ) as error:
            self._fail(error, file, program)

    def _receive(self, response: httpx.Response, file: int) -> Generator[bytes]:
        """Yield the pieces of an answer; each is in the file before."""
        for piece in _hide_secret(_decompress(response), self._secret):
            self._call.received += len(piece)
            if self._call.received > LONGEST_STREAM:
                raise OverflowError(f"the answer is longer than {LONGEST_STREAM:,} bytes")
            try:  # for each event of a stream: faster than `convert_os_errors`
                files.write_all(file, piece)
            except OSError as error:
                raise files.make_storage_error(self._admission.stream_file, error) from error
            yield piece
            if time.monotonic() > self._deadline:
                raise httpx.ReadTimeout("the time of the step is over")

    def _pass_refusal(
        self, response: httpx.Response, pieces: Iterator[bytes], file: int, program: ProgramAnswers
    ) -> None:
        body = bytearray()
        with suppress(httpx.HTTPError, zlib.error, ValueError):  # then the beginning says enough
            for piece in pieces:
                body += piece[: LONGEST_HELD - len(body)]
                if len(body) >= LONGEST_HELD:
                    break
        said = body.decode("utf-8", "replace")
        failure = self._call.classify_refusal(response, said)
        self._end(ModelAnswer(failure=failure), file)
        if response.is_error:
            program.send_whole(response.status_code, self._choose_headers(response), bytes(body))
        else:  # a redirect, or a status with which a program would wait for more
            self._send_failure(failure.error, program)

    def _pass_whole(
        self, response: httpx.Response, pieces: Iterator[bytes], file: int, program: ProgramAnswers
    ) -> None:
        body = bytearray()
        for piece in pieces:
            body += piece
            if len(body) > LONGEST_ANSWER:
                raise OverflowError(f"the answer is longer than {LONGEST_ANSWER:,} bytes")
        answer = self._read_whole(bytes(body))
        self._end(answer, file)
        program.send_whole(response.status_code, self._choose_headers(response), bytes(body))

    def _choose_headers(self, response: httpx.Response) -> dict[str, str]:
        return choose_headers(response.headers, self._secret.decode())

    def _is_stream(self, response: httpx.Response) -> bool:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code == httpx.codes.NO_CONTENT:
            return False
        return kind == "text/event-stream" or (self._paid.stream and kind not in _WHOLE)

    def _read_whole(self, body: bytes) -> ModelAnswer:
        try:
            parsed = json.loads(body)
            # Without `alt=sse`, Gemini's stream is a list.
            for each in parsed if isinstance(parsed, list) else [parsed]:
                self._keep_text(self._reader.read_whole(each))
        except Exception as error:  # noqa: BLE001  a server can send anything
            return ModelAnswer(failure=self._call.classify_error(error))
        return self._call.build_answer()

    def _pass_stream(
        self, response: httpx.Response, pieces: Iterator[bytes], file: int, program: ProgramAnswers
    ) -> None:
        splitter = EventSplitter(LONGEST_EVENT)
        program.send_head(response.status_code, self._choose_headers(response))
        self._has_program_begun = True
        for piece in pieces:
            for event in splitter.feed(piece):
                self._pass_event(event, program)
                if self._is_last(event):
                    self._end_stream(file, program)
                    self._drain(response, pieces)
                    return
        for event in splitter.finish():
            self._pass_event(event, program)
        self._end_stream(file, program)

    def _pass_event(self, event: StreamEvent, program: ProgramAnswers) -> None:
        """Pass an event on, or hold it back if the answer may be over with it."""
        is_hidden = self._read_event(event.data) if event.data and event.data != "[DONE]" else False
        if is_hidden:
            return
        is_ending = self._reader.finish is not None or self._reader.error is not None
        if not is_ending and event.data != "[DONE]":
            program.send_piece(event.raw)
            return
        if self._paid.target.format == "gemini":  # some models mark each piece as the last one
            program.send_piece(bytes(self._held))
            self._held.clear()
        self._held += event.raw
        if len(self._held) > LONGEST_HELD:
            raise OverflowError("the answer continues after its end")

    def _read_event(self, data: str) -> bool:
        """Read an event; return whether the program didn't ask for it: the usage of a chat."""
        if self._broken is not None:
            return False
        try:
            event: JsonObject = json.loads(data)
            self._keep_text(self._reader.read_event(event))
        except Exception as error:  # noqa: BLE001  a server can send anything; the program gets it as it is
            self._broken = error
            return False
        return self._paid.hides_usage and event.get("choices") == [] and event.get("usage") is not None

    def _is_last(self, event: StreamEvent) -> bool:
        # A chat is over with its usage, but its program waits for `[DONE]`.
        is_over = self._reader.is_over and self._paid.target.format != "chat"
        return is_over or self._reader.error is not None or event.data == "[DONE]"

    def _end_stream(self, file: int, program: ProgramAnswers) -> None:
        broken = self._broken
        answer = (
            self._call.build_answer()
            if broken is None
            else ModelAnswer(failure=self._call.classify_error(broken))
        )
        self._end(answer, file)
        if self._held:
            program.send_piece(bytes(self._held))
        program.end_answer()

    def _drain(self, response: httpx.Response, pieces: Iterator[bytes]) -> None:
        """Read what follows the last event, so that the connection can be used again."""
        stream = response.extensions.get("network_stream")
        connection = stream.get_extra_info("socket") if stream is not None else None
        if connection is None:
            return
        with (
            suppress(httpx.HTTPError, OSError, OverflowError, zlib.error),
            self._patience.limit(connection, DRAIN_SECONDS),
        ):
            for _ in pieces:
                pass

    def _fail(self, error: Exception, file: int, program: ProgramAnswers) -> None:
        if self._is_over:  # the answer was complete, and only what follows it is missing
            return
        answer = ModelAnswer(failure=self._call.classify_error(error))
        # As in the built-in client: the answer is complete, only what follows it is missing.
        if self._reader.finish is not None and self._broken is None and not isinstance(error, OverflowError):
            answer = self._call.build_answer()
        self._end(answer, file)
        if self._has_program_begun and answer.failure is None:
            program.send_piece(bytes(self._held))
            program.end_answer()
        elif self._has_program_begun:
            program.hang_up()
        elif answer.failure is not None:
            self._send_failure(answer.failure.error, program)

    def _send_failure(self, error: TransportError, program: ProgramAnswers) -> None:
        """Send an error of the gate: after some, it makes sense to ask again."""
        status = _FAILURES.get(error.kind, refusals.BAD_REQUEST)
        message = refusals.build_error(self._paid.target.format, status, error.message)
        program.send_whole(status, refusals.JSON, message)

    def _end(self, answer: ModelAnswer, file: int) -> None:
        """Put the answer and its end on disk. Raises _Stopped if the gate has ended the exchange meanwhile."""
        with files.flush_meanwhile(file, self._admission.stream_file):
            is_settled = self._settle(answer)
        if not is_settled:
            raise _Stopped

    def _settle(self, answer: ModelAnswer) -> bool:
        with self._lock:
            if self._is_over:
                return False
            self._is_over = True
            seconds = time.monotonic() - self._began
            self._recorder.end(self._admission.k, GateEnd(answer, self._text.getvalue(), seconds))
            return True

    def _keep_text(self, pieces: Iterator[str]) -> None:
        for text in pieces:
            self._text.write(text[: max(0, LONGEST_TEXT - self._text.tell())])


def choose_headers(headers: httpx.Headers, secret: str | None) -> dict[str, str]:
    """Return the headers of the provider that the program gets: those that it may need, can be sent and have no key."""
    return {
        name: value
        for name, value in headers.items()
        if (name in _PASSED_HEADERS or name.startswith(("x-ratelimit-", "anthropic-ratelimit-")))
        and (value.isascii() and value.isprintable())
        and not (secret and secret in value)
    }


_WHOLE = ("application/json", "text/html")
_PASSED_HEADERS = frozenset(
    {
        *("content-type", "retry-after", "retry-after-ms", "x-should-retry"),
        *("request-id", "x-request-id", "openai-model", "openai-version"),
    }
)


def _ignore_text(text: str) -> None:
    pass


def _decompress(response: httpx.Response) -> Iterator[bytes]:
    """Yield the bytes of an answer, of limited length: some servers compress although they were asked not to."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        yield from response.iter_raw()
        return
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"the answer is compressed as `{encoding}`, which was not asked for")
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)
    for piece in response.iter_raw():
        while piece:
            data = decompressor.decompress(piece, PIECE)
            piece = decompressor.unconsumed_tail
            if data:
                yield data
    if rest := decompressor.flush():
        yield rest


def _hide_secret(pieces: Iterator[bytes], secret: bytes) -> Iterator[bytes]:
    """Yield the pieces without the secret, also if it is cut apart."""
    held = b""
    for piece in pieces:
        data = (held + piece).replace(secret, b"***") if secret else piece
        begun = _find_beginning(data, secret)
        held = data[len(data) - begun :]
        if data := data[: len(data) - begun]:
            yield data
    if held:
        yield held


def _find_beginning(data: bytes, secret: bytes) -> int:
    """Return how many bytes at the end of the data may be the beginning of the secret."""
    place = data.find(secret[:1], max(0, len(data) - len(secret) + 1)) if secret else -1
    while place >= 0 and not secret.startswith(data[place:]):
        place = data.find(secret[:1], place + 1)
    return len(data) - place if place >= 0 else 0
