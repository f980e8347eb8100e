"""A program without network reaches the gate, and nothing else."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from logist.agents import sandbox
from logist.agents.sandbox import GateAccess, boxed, inner_listener, launcher
from logist.errors import Refused
from tests.shell.sandbox_bench import Bench, confining, every
from tests.support import CRASHED

ANSWER = b"from the gate"


class EchoGate:
    """Answers each connection with a line, on every socket that it listens on."""

    def __init__(self) -> None:
        self.outside = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self.outside.getsockname()[1]
        self.listeners: list[socket.socket] = []
        self.accepted: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        self.listen_on(self.outside)

    @property
    def access(self) -> GateAccess:
        return GateAccess(self.port, self.listen_on)

    @property
    def inside(self) -> list[socket.socket]:
        return self.listeners[1:]

    def listen_on(self, listener: socket.socket) -> None:
        self.listeners.append(listener)
        self.threads.append(threading.Thread(target=self._accept, args=(listener,)))
        self.threads[-1].start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = listener.accept()
                self.accepted.append(connection)
                with suppress(OSError):  # the program has hung up already
                    connection.sendall(ANSWER)
                    connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for listener in self.listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in self.accepted:
            connection.close()
        for thread in self.threads:
            thread.join(CRASHED)
            assert not thread.is_alive()


@pytest.fixture
def gate() -> Iterator[EchoGate]:
    opened = EchoGate()
    yield opened
    opened.close()


def python(code: str) -> list[str]:
    """A program that has `ask(address)`, which prints what it reads there, or "refused"."""
    return [
        "python3",
        "-c",
        f"""
import os, socket, sys, threading
def ask(host, port, family=socket.AF_INET, kind=socket.SOCK_STREAM, protocol=0):
    try:
        with socket.socket(family, kind, protocol) as client:
            client.settimeout(5)
            client.connect((host, port))
            print(client.recv(99).decode(), flush=True)
    except OSError:
        print("refused", flush=True)
{code}""",
    ]


def is_closed(bench: Bench) -> bool:
    """Whether this sandbox closes the network at all, for a program that reaches a gate."""
    return bench.kind == "bubblewrap" or launcher.read_landlock_version() >= launcher.TCP_SINCE


@every
@pytest.mark.parametrize("network", [False, True])
def test_the_gate_is_reached_with_and_without_network(bench: Bench, gate: EchoGate, network: bool) -> None:
    out, err = bench(python(f"ask('127.0.0.1', {gate.port})"), gate=gate.access, network=network)
    assert (out, err) == ("from the gate\n", "")
    assert bench.end == (0, None, "exited")
    assert len(gate.inside) == (1 if bench.kind == "bubblewrap" and not network else 0)
    assert bench.ended is not None
    assert bench.ended.strays == 0


@confining
def test_nothing_but_the_gate_is_reached(bench: Bench, gate: EchoGate) -> None:
    if not is_closed(bench):
        pytest.skip("this Landlock does not restrict ports")
    other = EchoGate()
    try:
        with (
            socket.create_server(("127.0.0.2", 0)) as second,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
            socket.socket(socket.AF_UNIX) as abstract,
        ):
            datagrams.bind(("127.0.0.1", 0))
            name = f"logist-{os.getpid()}-{time.monotonic_ns()}"
            abstract.bind(f"\0{name}")
            abstract.listen()
            code = f"""
ask("127.0.0.1", {other.port})
ask("127.0.0.2", {second.getsockname()[1]})
ask("127.0.0.1", {other.port}, protocol=262)
for family in (socket.AF_INET, socket.AF_INET6):
    try:
        client = socket.socket(family)
        host = "127.0.0.1" if family == socket.AF_INET else "::ffff:127.0.0.1"
        client.sendto(b"fast open", socket.MSG_FASTOPEN, (host, {other.port}))
        print(client.recv(99))
    except OSError:
        print("refused")
try:
    print(socket.getaddrinfo("example.com", 80))
except OSError:
    print("refused")
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {datagrams.getsockname()[1]}))
except OSError:
    pass
try:
    socket.socket(socket.AF_UNIX).connect("\\0{name}")
    print("reached")
except OSError:
    print("refused")
ask("127.0.0.1", {gate.port})
"""
            out, err = bench(python(code), gate=gate.access)
            datagrams.setblocking(False)
            with pytest.raises(BlockingIOError):
                datagrams.recv(9)
    finally:
        other.close()
    assert (out, err) == ("refused\n" * 7 + "from the gate\n", "")
    assert not other.accepted


@confining
def test_hundreds_of_connections_at_once(bench: Bench, gate: EchoGate) -> None:
    code = f"""
threads = [threading.Thread(target=ask, args=("127.0.0.1", {gate.port})) for _ in range(300)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    out, err = bench(python(code), gate=gate.access)
    assert (out.count("from the gate"), err) == (300, "")


@confining
def test_the_gate_sees_that_a_killed_program_hung_up(bench: Bench, gate: EchoGate) -> None:
    code = f"""
client = socket.create_connection(("127.0.0.1", {gate.port}))
print(client.recv(99).decode(), flush=True)
if os.fork() == 0:
    os.setsid()
threading.Event().wait()
"""
    bench(python(code), gate=gate.access, stop=lambda: bool(gate.accepted))
    assert bench.end[2] == "stopped"
    for connection in gate.accepted:
        connection.settimeout(CRASHED)
        with suppress(ConnectionResetError):
            assert connection.recv(9) == b""


def test_a_program_cannot_take_the_port_from_the_gate(bench: Bench, gate: EchoGate) -> None:
    code = f"""
for host in ("127.0.0.1", "0.0.0.0", "::"):
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        server.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            server.bind((host, {gate.port}))
            server.listen()
            print("taken", host)
        except OSError:
            pass
ask("127.0.0.1", {gate.port})
"""
    assert bench(python(code), gate=gate.access) == ("from the gate\n", "")
    # What it does to its own network doesn't reach outside, and the next run has another one.
    assert bench(python(f"ask('127.0.0.1', {gate.port})"), gate=gate.access) == ("from the gate\n", "")
    with socket.create_connection(("127.0.0.1", gate.port), CRASHED) as client:
        assert client.recv(99) == ANSWER


def test_a_view_without_python_reaches_the_gate(bench: Bench, gate: EchoGate) -> None:
    script = f"exec 3<>/dev/tcp/127.0.0.1/{gate.port}; head -c {len(ANSWER)} <&3; ps -e | wc -l"
    out, err = bench(["bash", "-c", script], gate=gate.access)
    assert err == ""
    answer, processes = out[: len(ANSWER)], int(out[len(ANSWER) :])
    assert answer == ANSWER.decode()
    assert processes <= 6  # a header, bubblewrap, bash and the pipe: nothing of ours


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("sys.exit('no rights over this namespace')", "no rights over this namespace"),
        ("sys.exit(3)", "exit status 3"),
        ("socket.socket(fileno=int(sys.argv[3])).send(b'.')", "no room for another open file"),
        ("time.sleep(60)", "not ready within"),
    ],
)
def test_a_network_that_cannot_be_joined_ends_the_run_before_it_begins(
    bench: Bench, gate: EchoGate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, reason: str
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(f"import socket, sys, time\n{code}", "utf-8")
    monkeypatch.setattr(inner_listener, "__file__", str(broken))
    monkeypatch.setattr(boxed, "_LONGEST", 2.0)
    with pytest.raises(Refused, match=reason) as refused:
        bench("touch ran", gate=gate.access)
    assert "network: true" in str(refused.value)
    assert reason in str(sandbox.find_gate_problem())
    assert not (bench.workspace / "ran").exists()
    assert gate.inside == []


def test_the_gate_can_be_reached_on_this_machine(bench: Bench) -> None:
    assert sandbox.find_gate_problem() is None


def test_a_sandbox_that_fails_says_so_itself(bench: Bench, gate: EchoGate) -> None:
    """Its network is gone, too: but that is not what a person must know."""
    bench.home.rmdir()
    with pytest.raises(Exception, match="bwrap"):
        bench("true", gate=gate.access)
