"""What the spend gate costs: milliseconds and CPU that it adds to a request, and its memory for a long stream.

A server on 127.0.0.1 answers at once. It is called directly and through a gate in another process, one after the other, on
connections that stay open. Once the gate keeps its records in memory; once it is that of the courier, with its log and a ledger.

Run: python benchmarks/gate.py [--runs 300] [--megabytes 100] [--prompt 20000] [--place DIRECTORY]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from measure import table

from logist.agents.courier.gate_records import GateRecords
from logist.agents.courier.reporting import ProgressReport
from logist.agents.courier.reservations import ExchangeLedger
from logist.agents.gate.recorder import Admission, GateEnd, GateRefusal, GateRequest
from logist.agents.gate.spend_gate import SpendGate
from logist.agents.protocol import Ask
from logist.core.model import Model, Provider, Request
from logist.core.money.budgets import SharedBudget
from logist.store import JobDir, inflight

TOKEN = "benchmark"
PIECES = 50
"""Events of a short stream."""
PACE = 0.005
"""Seconds between two events of a stream as models send it: about 200 tokens a second."""
WARM_UP = 10
"""Requests before those that are measured."""
PATH = "/v1/chat/completions"
USAGE = {"prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 60}


def build_event(text: str, finish: str | None = None) -> bytes:
    event = {"id": "1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


END = (
    build_event("", "stop")
    + b"data: "
    + json.dumps({"choices": [], "usage": USAGE}).encode()
    + b"\n\ndata: [DONE]\n\n"
)
PLAIN = json.dumps(
    {"choices": [{"message": {"content": "word " * 50}, "finish_reason": "stop"}], "usage": USAGE}
).encode()


class Answering(BaseHTTPRequestHandler):
    """Answers at once; `megabytes` in the request makes the stream that long, `pace` waits before each event."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.request.setsockopt(6, 1, 1)  # TCP_NODELAY

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not body.get("stream"):
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
                PLAIN
            )
            self.wfile.write(head + PLAIN)
            return
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        megabytes = body.get("megabytes", 0)
        piece = build_event("word " * 40) if megabytes else build_event("word ")
        count = megabytes * 1_000_000 // len(piece) if megabytes else PIECES
        block = 200 if megabytes else 1
        for _ in range(0, count, block):
            if "pace" in body:
                time.sleep(body["pace"])
            data = piece * block
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(END), END))


class MemoryRecorder:
    """Keeps nothing: what is left is the gate itself, and the file of the answer."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.count = 0

    def admit(self, request: GateRequest, build: Callable[[int], bytes]) -> Admission | GateRefusal:
        self.count += 1
        build(request.max_output_tokens)
        return Admission(self.count, request.max_output_tokens, self.place / f"{self.count}.stream")

    def mark_sent(self, k: int) -> None:
        pass

    def end(self, k: int, end: GateEnd) -> None:
        pass

    def count_refusal(self, refusal: GateRefusal) -> None:
        raise SystemExit(refusal.message)


def open_records(place: Path, ask: Ask) -> GateRecords:
    """Return the records of the courier, in a job and with a ledger that are in `place`."""
    job = JobDir(place / "jobs" / "j", "j")
    job.path.mkdir(parents=True)
    inflight.begin_exchange(job.inflight, 1, {})
    ledger = ExchangeLedger(
        place / "ledger",
        "j/1",
        "j",
        "custom",
        "custom/m",
        "",
        (),
        (SharedBudget("b", microcents=10**15),),
        None,
    )
    return GateRecords(job, ask, ledger, ["key"], ProgressReport(job.inflight, "Worker", ["key"]))


def run_server() -> None:
    """Be the server: print the port, and end with the input."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


def run_gate(url: str, place: Path, *, is_durable: bool) -> None:
    """Be the gate: print the port, end with the input, and print how many fsyncs there were, and their milliseconds."""
    flushes, real, lock = [0.0, 0.0], os.fsync, threading.Lock()

    def fsync(fd: int) -> None:
        began = time.perf_counter()
        real(fd)
        with lock:
            flushes[0] += 1
            flushes[1] += (time.perf_counter() - began) * 1000

    os.fsync = fsync
    provider = Provider(name="custom", base_url=url, model="m")
    ask = Ask(
        request=Request(prompt=""),
        model=Model(name="m", provider_model="custom/m", input_price=1.0, output_price=2.0),
        allowance_microcents=10**15,
        role="r",
        provider=provider,
    )
    records = open_records(place, ask) if is_durable else MemoryRecorder(place)
    gate = SpendGate(records, ask, "key", TOKEN, time.monotonic() + 3600)
    gate.start()
    print(gate.port, flush=True)
    sys.stdin.read()
    gate.close()
    if isinstance(records, GateRecords):
        records.close()
    print(*flushes)


class Child:
    """One of the above in another process."""

    def __init__(self, *arguments: str) -> None:
        argv = [sys.executable, __file__, *arguments]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def end(self) -> str:
        """End it, and return what it prints then."""
        return self.process.communicate()[0]


def ask(connection: http.client.HTTPConnection, body: bytes) -> float:
    """Return the milliseconds of one request with its answer."""
    began = time.perf_counter()
    connection.request("POST", PATH, body, {"authorization": f"Bearer {TOKEN}"})
    response = connection.getresponse()
    while response.read(1 << 16):
        pass
    if response.status != 200:
        raise SystemExit(f"status {response.status}")
    return (time.perf_counter() - began) * 1000


def measure_cpu(process: int) -> float:
    """Return the milliseconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def measure_peak(process: int) -> float:
    """Return the peak memory of a process in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def start_gate(server: int, place: Path, *, is_durable: bool) -> Child:
    """Start a gate whose files are in a new directory."""
    folder = tempfile.mkdtemp(dir=place)
    kind = ["--durable"] if is_durable else []
    return Child("--gate", f"http://127.0.0.1:{server}/v1", "--place", folder, *kind)


def compare(gate: Child, server: int, body: bytes, runs: int) -> list[object]:
    """Return milliseconds directly and through a gate, what is added, its fsyncs, and the CPU of the gate."""
    direct, through = (http.client.HTTPConnection("127.0.0.1", port) for port in (server, gate.port))
    times: tuple[list[float], list[float]] = ([], [])
    before = 0.0
    for number in range(-WARM_UP, runs):  # alternately, so that both see the same load
        if number == 0:
            before = measure_cpu(gate.process.pid)
        times[0].append(ask(direct, body))
        times[1].append(ask(through, body))
    spent = (measure_cpu(gate.process.pid) - before) / runs
    direct.close()
    through.close()
    count, milliseconds = map(float, gate.end().split())
    medians = [statistics.median(each[WARM_UP:]) for each in times]
    added = statistics.median(
        after - before for before, after in zip(*(each[WARM_UP:] for each in times), strict=True)
    )
    requests = runs + WARM_UP
    return [*medians, added, f"{count / requests:.0f} in {milliseconds / requests:.2f}", spent]


def measure_long_stream(server: int, place: Path, body: bytes, megabytes: int) -> str:
    """Return how much memory and CPU a gate needs for a long stream."""
    gate = start_gate(server, place, is_durable=True)
    connection = http.client.HTTPConnection("127.0.0.1", gate.port)
    ask(connection, body.replace(b'"megabytes": %d' % megabytes, b'"megabytes": 0'))
    before, used = measure_peak(gate.process.pid), measure_cpu(gate.process.pid)
    ask(connection, body)
    grown, spent = measure_peak(gate.process.pid) - before, measure_cpu(gate.process.pid) - used
    connection.close()
    gate.end()
    return f"a stream of {megabytes} MB: {grown:.1f} MB more memory, {spent / 1000:.1f} s of CPU in the gate"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--megabytes", type=int, default=100, help="length of the long stream")
    parser.add_argument("--prompt", type=int, default=20_000, help="bytes of the prompt")
    parser.add_argument("--place", type=Path, help="directory for the files")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--gate", help=argparse.SUPPRESS)
    parser.add_argument("--durable", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return run_server()
    if given.gate:
        return run_gate(given.gate, given.place, is_durable=given.durable)
    server = Child("--serve")
    with tempfile.TemporaryDirectory(dir=given.place) as name:
        place = Path(name)
        message = {"role": "user", "content": "word " * (given.prompt // 5)}
        body = {"model": "m", "messages": [message]}
        rows: list[list[object]] = [
            [
                "ms",
                "records",
                "direct",
                "through the gate",
                "added (median)",
                "fsyncs (mean)",
                "CPU of the gate",
            ]
        ]
        for label, more in (
            ("plain", {}),
            (f"stream of {PIECES} events", {"stream": True}),
            (f"the same, one in {PACE * 1000:.0f} ms", {"stream": True, "pace": PACE}),
        ):
            data = json.dumps(body | more).encode()
            for records, is_durable in (("in memory", False), ("durable", True)):
                gate = start_gate(server.port, place, is_durable=is_durable)
                runs = given.runs // 5 if "pace" in more else given.runs
                rows.append([label, records, *compare(gate, server.port, data, runs)])
        table(rows)
        long = json.dumps(body | {"stream": True, "megabytes": given.megabytes}).encode()
        print(measure_long_stream(server.port, place, long, given.megabytes))
    server.end()
    return None


if __name__ == "__main__":
    main()
