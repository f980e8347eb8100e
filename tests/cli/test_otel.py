"""`logist otel`: spans that the official messages of OpenTelemetry accept, written and sent by a process."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.cli.desk import Desk, answer
from tests.cli.test_show_workflow import STUCK_ONE, follow
from tests.support import ROOT

Json = dict[str, Any]
FIXTURES = str(ROOT / "fixtures" / "jobs")
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def read_spans(*requests: str) -> list[Span]:
    """The spans of requests, as the official messages read them."""
    spans: list[Span] = []
    for request in requests:
        whole = json.loads(request)
        for scope in (scope for resource in whole["resourceSpans"] for scope in resource["scopeSpans"]):
            for span in scope["spans"]:
                for place in (span, *span.get("links", [])):
                    # OTLP writes ids in hexadecimal digits, the JSON form of protobuf in base64.
                    for name in place.keys() & {"traceId", "spanId", "parentSpanId"}:
                        place[name] = base64.b64encode(bytes.fromhex(place[name])).decode()
        message = json_format.ParseDict(whole, ExportTraceServiceRequest())
        spans += [s for r in message.resource_spans for scope in r.scope_spans for s in scope.spans]
    return spans


def attributes(span: Span) -> Json:
    kinds = {each.key: each.value.WhichOneof("value") for each in span.attributes}
    return {each.key: getattr(each.value, str(kinds[each.key])) for each in span.attributes}


class Receiver:
    """A receiver on 127.0.0.1 that gives these answers, one after the other, and then says that it took everything."""

    def __init__(self, *answers: tuple[int, Json, dict[str, str]]) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict[str, str], str]] = []
        self.url = ""

    def spans(self) -> list[Span]:
        return read_spans(*(body for _, _, body in self.requests))


@contextmanager
def listening(*answers: tuple[int, Json, dict[str, str]]) -> Iterator[Receiver]:
    receiver = Receiver(*answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            receiver.requests.append((self.path, dict(self.headers), body))
            status, said, headers = receiver.answers.pop(0) if receiver.answers else (200, {}, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            out = json.dumps(said).encode()
            self.send_header("content-length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_recorded_jobs_reach_a_receiver(desk: Desk) -> None:
    with listening() as receiver:
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"{receiver.url}/",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b,other=1",
        }
        ran = desk.process("otel", FIXTURES, env=env)
    assert (ran.code, ran.err) == (0, "")
    [(path, headers, _)] = receiver.requests
    assert (path, headers["x-key"], headers["other"]) == ("/v1/traces", "a b", "1")
    assert headers["content-type"] == "application/json"
    spans = receiver.spans()
    assert f"{len(spans)} spans of 5 jobs\n" in ran.out
    assert len({span.span_id for span in spans}) == len(spans)
    jobs = {span.span_id: span for span in spans if span.name.startswith("invoke_workflow")}
    assert len(jobs) == 5
    agents = [span for span in spans if span.name.startswith("invoke_agent")]
    assert agents
    for span in agents:
        job = jobs[span.parent_span_id]
        assert job.trace_id == span.trace_id
        assert (
            job.start_time_unix_nano
            <= span.start_time_unix_nano
            <= span.end_time_unix_nano
            <= job.end_time_unix_nano
        )
        assert attributes(span)["gen_ai.operation.name"] == "invoke_agent"
        assert "gen_ai.usage.input_tokens" in attributes(span)
    failed = [attributes(span) for span in agents if span.status.code == Status.STATUS_CODE_ERROR]
    assert failed
    assert all(each["error.type"] for each in failed)


def test_the_same_history_gives_the_same_bytes_and_no_content(desk: Desk) -> None:
    desk("job", "create", "--id", "j1", "--title", "t", "--prompt", "PROMPTWORD")
    desk.script(answer("ANSWERWORD"))
    assert desk("job", "step", "j1").code == 3, "it has no exit command"
    first, second = desk("otel", "--output", "-"), desk("otel", "--output", "-")
    assert first.out == second.out
    assert "PROMPTWORD" not in first.out
    assert "ANSWERWORD" not in first.out
    spans = read_spans(*desk("otel", "--content").out.splitlines())
    [agent] = [span for span in spans if span.name.startswith("invoke_agent")]
    assert "PROMPTWORD" in attributes(agent)["gen_ai.input.messages"]
    assert "ANSWERWORD" in attributes(agent)["gen_ai.output.messages"]


def test_the_spans_of_children_are_below_those_of_their_parent(desk: Desk) -> None:
    follow(desk, STUCK_ONE)
    spans = read_spans(*desk("otel", "--output", "-").out.splitlines())
    jobs = {attributes(s)["logist.job.id"]: s for s in spans if s.name.startswith("invoke_workflow")}
    parent = jobs.pop("j1")
    assert len(jobs) == 2
    assert {job.parent_span_id for job in jobs.values()} == {parent.span_id}
    assert {span.trace_id for span in spans} == {parent.trace_id}


def test_a_fork_has_only_its_own_spans_and_a_link(desk: Desk) -> None:
    desk("job", "create", "--id", "j1", "--title", "t", "--prompt", "p")
    desk("job", "step", "j1")
    before = read_spans(*desk("otel", "--output", "-").out.splitlines())
    assert desk("job", "fork", "j1", "--id", "j2").code == 0
    spans = read_spans(*desk("otel", "--output", "-").out.splitlines())
    assert len({span.span_id for span in spans}) == len(spans)
    [fork] = [span for span in spans if span.links]
    [link] = fork.links
    last = max(
        (s for s in before if "logist.sequence" in attributes(s)),
        key=lambda s: attributes(s)["logist.sequence"],
    )
    assert (link.trace_id, attributes(fork)["logist.job.id"]) == (last.trace_id, "j2")
    assert link.span_id in {span.span_id for span in before}
    assert fork.trace_id != last.trace_id


def test_the_jobs_belong_to_the_trace_of_the_caller(desk: Desk) -> None:
    spans = read_spans(*desk("otel", FIXTURES, env={"TRACEPARENT": PARENT}).out.splitlines())
    _, trace, above, _ = PARENT.split("-")
    assert {span.trace_id.hex() for span in spans} == {trace}
    jobs = [span for span in spans if span.name.startswith("invoke_workflow")]
    assert {span.parent_span_id.hex() for span in jobs} == {above}
    alone = desk("otel", FIXTURES).out
    for wrong in (
        PARENT[:-1],
        PARENT.replace("4bf9", "xxxx"),
        f"00-{'0' * 32}-{above}-01",
        "ff" + PARENT[2:],
    ):
        assert desk("otel", FIXTURES, env={"TRACEPARENT": wrong}).out == alone


def test_a_busy_receiver_gets_the_same_request_again(desk: Desk) -> None:
    busy: tuple[int, Json, dict[str, str]] = (503, {}, {"Retry-After": "0"})
    with listening(busy) as receiver:
        assert desk.process("otel", FIXTURES, "--endpoint", receiver.url).code == 0
    first, second = receiver.requests
    assert first[2] == second[2]


def test_a_refusal_is_not_repeated(desk: Desk) -> None:
    with listening((400, {"code": 3, "message": "bad span"}, {})) as receiver:
        ran = desk("otel", FIXTURES, "--endpoint", receiver.url)
    assert (ran.code, len(receiver.requests)) == (6, 1)
    assert "it answered 400 Bad Request: bad span" in ran.err


def test_a_redirect_is_not_followed(desk: Desk) -> None:
    with listening() as other, listening((307, {}, {"Location": f"{other.url}/v1/traces"})) as receiver:
        env = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=secret"}
        assert desk("otel", FIXTURES, "--endpoint", receiver.url, env=env).code == 6
    assert not other.requests


@pytest.mark.parametrize(
    ("rejected", "exit_code", "said"),
    [
        ("2", 6, "the receiver did not take 2 spans: too old"),
        ("0", 0, "the receiver warns: too old"),
    ],
)
def test_what_a_receiver_says_of_spans_is_reported(
    desk: Desk, rejected: str, exit_code: int, said: str
) -> None:
    partial = {"partialSuccess": {"rejectedSpans": rejected, "errorMessage": "too old"}}
    with listening((200, partial, {})) as receiver:
        ran = desk("otel", FIXTURES, "--endpoint", receiver.url)
    assert ran.code == exit_code
    assert said in ran.err


@pytest.mark.parametrize(
    "address", ["http://[::1", "http://127.0.0.1:99999", "ftp://u:word@h", "http://u:word@", "http://h/?a=1"]
)
def test_an_address_that_is_none_is_refused_without_its_password(desk: Desk, address: str) -> None:
    ran = desk("otel", FIXTURES, "--endpoint", address)
    assert ran.code == 2
    assert "not the address of a receiver" in ran.err
    assert "word" not in ran.err


@pytest.mark.parametrize("headers", ["Authorization=a%0Aword", "authorization=wördword", "word", "a b=word"])
def test_headers_that_are_none_are_refused_without_their_value(desk: Desk, headers: str) -> None:
    env = {"OTEL_EXPORTER_OTLP_HEADERS": headers}
    ran = desk("otel", FIXTURES, "--endpoint", "http://127.0.0.1:1", env=env)
    assert ran.code == 2
    assert "OTEL_EXPORTER_OTLP_HEADERS: not a list of headers" in ran.err
    assert "word" not in ran.err


def test_a_damaged_history_is_exported_as_far_as_it_goes(desk: Desk) -> None:
    desk("job", "create", "--id", "j1", "--title", "t", "--prompt", "p")
    desk("job", "step", "j1")
    history = desk.jobs / "j1" / "jobHistory.json"
    history.write_bytes(history.read_bytes().replace(b'"sequence":2', b'"sequence":7'))
    ran = desk("otel", "--output", "spans.jsonl")
    assert ran.code == 10
    spans = read_spans(*(desk.place / "spans.jsonl").read_text().splitlines())
    [job] = [span for span in spans if span.name.startswith("invoke_workflow")]
    assert attributes(job)["logist.incomplete"] is True
    assert {span.parent_span_id for span in spans if span is not job} == {job.span_id}


def test_a_file_is_not_overwritten(desk: Desk) -> None:
    file = desk.place / "spans.jsonl"
    file.write_text("mine")
    assert desk("otel", FIXTURES, "--output", "spans.jsonl").code == 8
    assert file.read_text() == "mine"
    assert desk("otel", FIXTURES, "--output", "spans.jsonl", "--force").code == 0
    assert read_spans(*file.read_text().splitlines())
