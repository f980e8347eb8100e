"""How fast `logist run` makes many short calls, beside loops over the openai SDK and over litellm.

The model is an endpoint on 127.0.0.1 that takes 200 ms to answer. Every job is one call: no repository, no
review, no tools. The ideal is N calls in 200 ms plus the time of the fsyncs that one call waited for.

Run: python benchmarks/calls.py [--jobs 100] [--parallel 1 4 8] [--agents model litellm]
    [--beside openai litellm] [--place DIRECTORY]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from ctypes import CDLL
from pathlib import Path
from typing import Any, NamedTuple

from measure import clean_environment, table

ROOT = Path(__file__).resolve().parent.parent
DELAY = 0.2
KEY = "dummy-key-for-benchmarks"
MODEL = "openai/benchmark"
PROMPT = "Say that it is done."
ANSWER = json.dumps(
    {"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Did what the task asks for."}
)
GOALS = {1: 0.8, 4: 0.8}
"""The least share of the ideal, by the number of calls at a time."""
RATES = {8: 30.0}
"""The fewest calls a second."""
AGENTS = {"model": 20.0, "litellm": 200.0}
"""The agents of `logist run`, and the most milliseconds of CPU that a courier of the fork server may use."""
SERVE = "--serve"
"""In the command line of a fork server."""
SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: what outlives its parent becomes a child of this process, so that its CPU counts."""
WATCH = """
import os, signal, sys
_fsync, _signal, _log = os.fsync, signal.signal, os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
def fsync(descriptor):
    import time
    began = time.perf_counter()
    try:
        _fsync(descriptor)
    finally:
        os.write(_log, b"%.6f\\n" % (time.perf_counter() - began))
def set_handler(number, handler):
    if (number, handler) != (signal.SIGCHLD, signal.SIG_IGN):
        return _signal(number, handler)
os.fsync, signal.signal = fsync, set_handler
if {serve!r} not in sys.orig_argv:
    import atexit, time
    atexit.register(lambda: os.write(_log, b"cpu %.6f\\n" % time.process_time()))
"""
"""Makes every Python process of the run write down how long each fsync took, and at its end the CPU that it used itself.

The fork server leaves it to the kernel to remove its couriers, and then nobody learns what CPU they used. Here it doesn't:
when the server has ended, they become children of the benchmark.
"""


class Spent(NamedTuple):
    """What one way to make the calls took."""

    seconds: float
    """Without the start: from the first call of a loop on; of `logist run`, beside one without jobs."""
    cpu: float
    """Seconds of all processes, the start included."""
    starting: float
    """Of it CPU seconds of the start."""
    couriers: float = 0.0
    """Of it CPU seconds of the forked couriers: from the fork to the removal of the process."""
    command: float = 0.0
    """Of it CPU seconds of `logist run` itself; the rest are those of its fork servers."""
    fsyncs: tuple[float, ...] = ()
    """How long each took."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--parallel", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--agents", nargs="+", choices=list(AGENTS), default=["model"])
    parser.add_argument("--beside", nargs="*", choices=list(LOOPS), default=list(LOOPS))
    parser.add_argument(
        "--place", type=Path, default=Path(tempfile.gettempdir()), help="a directory on the disk"
    )
    parser.add_argument("--loop", nargs=3, metavar=("WAY", "N", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop:
        way, parallel, url = options.loop
        return print_loop(way, options.jobs, int(parallel), url)
    if CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("prctl failed: the CPU of couriers would not be counted")
    busy = f"load {os.getloadavg()[0]:.1f}"
    print(f"{os.cpu_count()} cores, {busy}, {options.jobs} calls, {DELAY * 1000:.0f} ms each\n")
    head = [
        "",
        "at a time",
        "calls/s",
        "ideal",
        "share",
        "fsyncs a call",
        "ms of them",
        "CPU ms a call",
        "command",
        "fork server",
        "courier",
        "start ms",
    ]
    rows: list[list[object]] = [head]
    goals = []
    with tempfile.TemporaryDirectory(dir=options.place) as folder, endpoint() as url:
        place = Path(folder)
        python = watched_python(place / "python", place / "fsyncs")
        for parallel in options.parallel:
            for agent in options.agents:
                run = Run(place / f"run-{agent}-{parallel}", python, place / "fsyncs", agent)
                spent = run.measure(options.jobs, parallel, url)
                rows.append(row(f"logist run, {agent}", options.jobs, parallel, spent))
                goals += judge(agent, options.jobs, parallel, spent)
            for way in options.beside:
                rows.append(
                    row(f"{way}, asyncio", options.jobs, parallel, run_loop(way, options.jobs, parallel, url))
                )
    table(rows)
    print("\nwithout the start, which is apart: the imports of a loop, a `logist run` without ready jobs;")
    print("the fork server's CPU includes its start")
    print(*goals, sep="\n")
    return None


def row(name: str, jobs: int, parallel: int, spent: Spent) -> list[object]:
    flushing = sum(spent.fsyncs) / jobs
    rate, ideal = jobs / spent.seconds, parallel / (DELAY + flushing)
    counted = [len(spent.fsyncs) / jobs, flushing * 1000] if spent.fsyncs else ["", ""]
    calling = (spent.cpu - spent.starting) / jobs * 1000
    share = f"{rate / ideal:.0%}"
    return [
        name,
        str(parallel),
        rate,
        ideal,
        share,
        *counted,
        calling,
        *parts(jobs, spent),
        spent.starting * 1000,
    ]


def parts(jobs: int, spent: Spent) -> list[object]:
    """Milliseconds of CPU a call: of the command, of the fork server with its start, of the courier."""
    if not spent.command:
        return ["", "", ""]
    command = spent.command - spent.starting
    server = spent.cpu - spent.command - spent.couriers
    return [each / jobs * 1000 for each in (command, server, spent.couriers)]


def judge(agent: str, jobs: int, parallel: int, spent: Spent) -> Iterator[str]:
    """The goals for so many calls at a time, and whether they were met."""
    rate, ideal = jobs / spent.seconds, parallel / (DELAY + sum(spent.fsyncs) / jobs)
    couriers = spent.couriers / jobs * 1000
    verdict = "met" if couriers <= AGENTS[agent] else "MISSED"
    yield f"goal: {agent}: {couriers:.1f} ms of CPU a courier, at most {AGENTS[agent]:g}: {verdict}"
    if agent != "model":
        return
    if parallel in GOALS:
        share = rate / ideal
        verdict = "met" if share >= GOALS[parallel] else "MISSED"
        yield f"goal: {parallel} at a time: {share:.0%} of the ideal, at least {GOALS[parallel]:.0%}: {verdict}"
    if parallel in RATES:
        verdict = "met" if rate >= RATES[parallel] else "MISSED"
        yield f"goal: {parallel} at a time: {rate:.1f} calls a second, at least {RATES[parallel]:g}: {verdict}"


def watched_python(place: Path, log: Path) -> str:
    """An interpreter like this one that writes down its fsyncs, and so do the processes that it starts."""
    venv.create(place, symlinks=True, with_pip=False)
    site = next(place.glob("lib/python*/site-packages"))
    (site / "fsync_watch.py").write_text(WATCH.format(log=str(log), serve=SERVE), "utf-8")
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join([*ours, str(ROOT), "import fsync_watch"]) + "\n", "utf-8")
    return str(place / "bin" / "python")


class Run(NamedTuple):
    """A new project, in which `logist run` works as for a user."""

    place: Path
    python: str
    log: Path
    """Where the interpreter writes down its fsyncs."""
    agent: str
    config: str = ""
    """Of the project, if not that of a model at the endpoint."""

    def measure(self, jobs: int, parallel: int, url: str) -> Spent:
        """Run so many new jobs."""
        self.place.mkdir()
        environment = clean_environment(self.place) | {"BENCHMARK_KEY": KEY, "LOGIST_STEWARD": "benchmark"}
        logist = [self.python, "-m", "logist"]

        def call(*argv: str) -> None:
            subprocess.run(argv, cwd=self.place, env=environment, check=True, stdout=subprocess.DEVNULL)

        call(*logist, "init")
        (self.place / ".logist" / "config.yaml").write_text(
            self.config
            or f"models: {{benchmark: {{provider_model: {MODEL}, endpoint: '{url}', api_key_env: BENCHMARK_KEY}}}}\n"
            f"allow_unknown_price: true\nagent: {self.agent}\n",
            "utf-8",
        )
        (self.place / ".logist" / "roles" / "Clerk.yaml").write_text(ROLE, "utf-8")
        if self.config:
            call(*logist, "trust", "--yes")
        command = [*logist, "run", "--parallel", str(parallel)]
        start = measured(command, self.place, environment)[0]
        call(self.python, "-c", CREATE, str(jobs), PROMPT)
        self.log.write_bytes(b"")
        spent = measured(command, self.place, environment)[0]
        spent = spent._replace(seconds=spent.seconds - start.seconds, starting=start.cpu)
        states = [
            json.loads(path.read_bytes()) for path in (self.place / ".logist" / "jobs").glob("*/state.json")
        ]
        assert [state["status"] for state in states] == ["SUCCESS"] * jobs, "not every job ended well"
        lines = self.log.read_text("ascii").splitlines()
        own = sum(float(line.split()[1]) for line in lines if line.startswith("cpu"))
        return spent._replace(
            fsyncs=tuple(float(line) for line in lines if not line.startswith("cpu")), command=own
        )


ROLE = """
name: Clerk
description: Answers without tools.
llm_model: benchmark
instructions: Do the task.
permissions: {can_read_files: false, can_write_files: false, can_delete_files: false, can_execute_commands: false}
"""
CREATE = """
import sys
from logist import Project
project = Project.open()
for number in range(int(sys.argv[1])):
    project.create_job(sys.argv[2], job_id=f"job-{number}", role="Clerk", repo=False, review=False, approval="none")
"""


def run_loop(way: str, jobs: int, parallel: int, url: str) -> Spent:
    """The calls of an asyncio loop, in a process of its own."""
    argv = [sys.executable, __file__, "--jobs", str(jobs), "--loop", way, str(parallel), url]
    with tempfile.TemporaryDirectory() as folder:
        spent, printed = measured(argv, Path(folder), clean_environment(Path(folder)))
    seconds, starting = map(float, printed.split())
    return spent._replace(seconds=seconds, starting=starting)


def measured(argv: list[str], place: Path, environment: dict[str, str]) -> tuple[Spent, str]:
    """Run a command until it and all that it started have ended; what they took, and what it printed."""
    running, before = children(), resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(argv, cwd=place, env=environment, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{argv} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    couriers = 0.0
    for left in children() - running:  # adopted from the command, because this process is a subreaper
        couriers += sum(os.wait4(left, 0)[2][:2])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(seconds, cpu, 0.0, couriers), done.stdout


def children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii").split()))


def print_loop(way: str, jobs: int, parallel: int, url: str) -> None:
    """Make the calls, and print the seconds that they took, and the CPU seconds before them."""
    ask = LOOPS[way](url)
    starting = time.process_time()
    began = time.perf_counter()
    asyncio.run(ask_all(ask, jobs, parallel))
    print(time.perf_counter() - began, starting)


async def ask_all(ask: Callable[[], Awaitable[str]], jobs: int, parallel: int) -> None:
    room = asyncio.Semaphore(parallel)

    async def once() -> None:
        async with room:
            assert await ask() == ANSWER

    await asyncio.gather(*(once() for _ in range(jobs)))


def over_openai(url: str) -> Callable[[], Awaitable[str]]:
    """A streamed call of the openai SDK; one client for all, as its documentation advises."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key=KEY)

    async def ask() -> str:
        stream = await client.chat.completions.create(
            model=MODEL.partition("/")[2],
            messages=[{"role": "user", "content": PROMPT}],
            stream=True,
            stream_options={"include_usage": True},
        )
        return "".join([event.choices[0].delta.content or "" async for event in stream if event.choices])

    return ask


def over_litellm(url: str) -> Callable[[], Awaitable[str]]:
    """A streamed call of litellm."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no network
    import litellm

    async def ask() -> str:
        stream: Any = await litellm.acompletion(
            model=MODEL,
            api_base=url,
            api_key=KEY,
            messages=[{"role": "user", "content": PROMPT}],
            stream=True,
            stream_options={"include_usage": True},
        )
        return "".join([event.choices[0].delta.content or "" async for event in stream if event.choices])

    return ask


LOOPS: dict[str, Callable[[str], Callable[[], Awaitable[str]]]] = {
    "openai": over_openai,
    "litellm": over_litellm,
}


@contextmanager
def endpoint() -> Iterator[str]:
    """The address of the model, which runs in a process of its own."""
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import calls; calls.serve()",
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def serve() -> None:
    """Answer every request after DELAY, until the process is ended."""

    async def listen() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(listen())


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The streamed answers to the requests of one connection."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.lower().split(b"\r\n")
            length = next(line for line in lines if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            await asyncio.sleep(DELAY)
            writer.write(STREAM)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def events() -> Iterator[str]:
    frame = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "benchmark"}
    for start in range(0, len(ANSWER), 16):
        delta = {"role": "assistant", "content": ANSWER[start : start + 16]}
        yield json.dumps(frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield json.dumps(frame | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    yield json.dumps(frame | {"choices": [], "usage": usage})
    yield "[DONE]"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM = b"".join(
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        *(chunk(f"data: {event}\n\n".encode()) for event in events()),
        chunk(b""),
    ]
)


if __name__ == "__main__":
    main()
