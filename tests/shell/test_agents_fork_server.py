"""Couriers from a fork server: separate, without each other's secrets, and safe if the server dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logist.agents.courier import ask_files, ending, process
from logist.agents.courier.fork_server import ForkServer
from logist.agents.courier.fork_servers import ForkServers
from logist.core.model import EffectiveSpec, JsonObject, Model, Provider, Request
from logist.store import JobDir
from tests.loopback import Loopback
from tests.support import process_environment

WAIT = 300.0
KEYS = {"job-1": "sk-first-0123456789abcdefghij", "job-2": "sk-second-0123456789abcdefghij"}


def envelope(url: str) -> JsonObject:
    model = Model(name="short", provider_model="custom/real-name", endpoint=url)
    return {
        "sequence": 2,
        "agent": "model",
        "phase": "doer",
        "role": "Worker",
        "request": Request(prompt="Do this.").model_dump(mode="json"),
        "model": model.model_dump(mode="json"),
        "provider": Provider(name="custom", base_url=url, model="real-name").model_dump(mode="json"),
        "max_output_tokens": 4000,
        "deadline_seconds": WAIT,
        "max_tries": 1,
        "backoff_seconds": 0.01,
        "step": "task",
        "attempt": 1,
        "checkpoint_before": "0" * 40,
        "spec": EffectiveSpec(title="t").model_dump(mode="json"),
    }


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForkServer]:
    started = ForkServer.start("direct", environment(tmp_path))
    yield started
    started.close()


def make_job(tmp_path: Path, name: str) -> JobDir:
    jobs = tmp_path / "jobs"
    jobs.mkdir(exist_ok=True)
    with JobDir.create_job(jobs, name):
        pass
    return JobDir.open(jobs, name)


@contextmanager
def courier_of(job: JobDir, url: str, server: ForkServer | None) -> Iterator[process.CourierProcess]:
    with job.hold_lock(command="test", since="2026-01-01T00:00:00Z") as lock:
        job.begin_exchange(1, envelope(url))
        private: dict[str, Any] = {"api_key": KEYS[job.id], "secrets": []}
        yield process.launch_courier(job, lock, private, environment(job.path.parent), server)


def collect(job: JobDir) -> ask_files.Collected:
    return ask_files.collect_ask(job.read_exchanges())


def list_targets(pid: int) -> list[str]:
    folder = Path(f"/proc/{pid}/fd")
    return [os.readlink(folder / name) for name in os.listdir(folder)]


def read_memory(pid: int) -> bytes:
    """Everything in the memory of a process that it could have written."""
    parts = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if rights.startswith("rw"):
                start, end = (int(edge, 16) for edge in span.split("-"))
                memory.seek(start)
                try:
                    parts.append(memory.read(end - start))
                except OSError:
                    continue
    return b"".join(parts)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


def test_two_couriers_of_one_server_share_nothing(tmp_path: Path, server: ForkServer) -> None:
    gate = threading.Event()
    first, second = make_job(tmp_path, "job-1"), make_job(tmp_path, "job-2")
    with (
        Loopback({"text": "done", "gate": gate}) as loopback,
        courier_of(first, loopback.url, server) as one,
        courier_of(second, loopback.url, server) as two,
    ):
        loopback.wait_for(2)
        pids = {first.id: one.pid, second.id: two.pid}
        sent = {request.headers["authorization"] for request in loopback.requests}
        targets = {name: list_targets(pid) for name, pid in pids.items()}
        memory = {name: read_memory(pid) for name, pid in pids.items()}
        of_server = read_memory(server.pid)
        shown = b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids.values())
        for job, pid in ((first, one.pid), (second, two.pid)):
            assert os.getsid(pid) == pid
            holder = job.find_lock_holder()
            assert holder is not None
            assert holder.courier is not None
            assert ending.is_here(holder.courier, job.path)
        gate.set()
        assert one.has_ended(WAIT)
        assert two.has_ended(WAIT)
    assert sent == {f"Bearer {key}" for key in KEYS.values()}
    assert [collect(job).reply.text for job in (first, second)] == ["done", "done"]
    for name, other in (("job-1", "job-2"), ("job-2", "job-1")):
        assert not [target for target in targets[name] if target.endswith(f"jobs/{other}")]
        assert KEYS[name].encode() in memory[name]
        assert KEYS[other].encode() not in memory[name]
        assert KEYS[name].encode() not in of_server
        assert KEYS[name].encode() not in shown


def test_a_killed_server_leaves_its_courier_at_work_and_the_next_call_works(tmp_path: Path) -> None:
    gate = threading.Event()
    servers = ForkServers()
    server = servers.get("direct", environment(tmp_path))
    assert server is not None
    first, second = make_job(tmp_path, "job-1"), make_job(tmp_path, "job-2")
    with Loopback({"text": "late", "gate": gate}, {"text": "next"}) as loopback:
        with courier_of(first, loopback.url, server) as one:
            loopback.wait_for(1)
            os.kill(server.pid, signal.SIGKILL)
            while is_alive(server.pid):
                time.sleep(0.01)
            with courier_of(second, loopback.url, servers.get("direct", environment(tmp_path))) as two:
                assert two.has_ended(WAIT)
            assert is_alive(one.pid)
            gate.set()
            assert one.has_ended(WAIT)
        assert len(loopback.requests) == 2
    assert [collect(job).reply.text for job in (first, second)] == ["late", "next"]
    assert servers.get("direct", environment(tmp_path)) is not server
    servers.close()


def test_a_courier_whose_command_ended_before_it_handed_over_the_key_sends_nothing(
    tmp_path: Path, server: ForkServer
) -> None:
    job = make_job(tmp_path, "job-1")
    reading, writing = os.pipe()
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    with Loopback({"text": "never"}) as loopback:
        with job.hold_lock(command="test", since="now") as lock:
            job.begin_exchange(1, envelope(loopback.url))
            pid = server.fork(job.path, (lock.fd, log, reading))
            assert pid is not None
            for descriptor in (reading, log, writing):
                os.close(descriptor)
        deadline = time.monotonic() + WAIT
        while is_alive(pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert loopback.requests == []
    assert (tmp_path / "log").read_bytes() == b""
    assert collect(job).kind == "not_sent"
    with job.hold_lock(command="test", since="now"):  # nothing holds it any more
        pass


def test_the_server_ends_with_its_command_and_has_one_thread(tmp_path: Path) -> None:
    server = ForkServer.start("direct", environment(tmp_path))
    job = make_job(tmp_path, "job-1")
    with Loopback({"text": "done"}) as loopback, courier_of(job, loopback.url, server) as one:
        assert one.has_ended(WAIT)
        assert len(os.listdir(f"/proc/{server.pid}/task")) == 1
        left = list_targets(server.pid)
    assert not [target for target in left if "jobs" in target or target.startswith("pipe:")]
    server.close()
    assert not is_alive(server.pid)


def test_an_unused_python_still_starts_a_courier(tmp_path: Path) -> None:
    job = make_job(tmp_path, "job-1")
    assert ForkServers(enabled=False).get("direct", environment(tmp_path)) is None
    with Loopback({"text": "done"}) as loopback, courier_of(job, loopback.url, None) as one:
        assert one.has_ended(WAIT)
        assert one.exit_status == 0
    assert collect(job).reply.text == "done"


def test_a_forked_courier_loads_no_more_of_logist() -> None:
    """What the server has not loaded, each courier would load again."""
    code = """
import sys
from logist import lazy_modules
from logist.agents.courier import fork_server
fork_server._load("direct")
names = ("process", "exchange", "tool_turns")
print(sorted(lazy_modules._specs), [name for name in names if f"logist.agents.courier.{name}" not in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=process_environment(), capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[] []\n", "")
