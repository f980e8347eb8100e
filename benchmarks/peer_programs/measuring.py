"""What the programs of all peers share: the turn's call of the model, and how turns are measured.

A program gets WHAT, SIZE, RUNS and URL: it does WHAT (`step`, `append` or `replay`) RUNS times after SIZE earlier turns,
in its working directory, and prints a line of JSON. With RUNS 0 it only prepares. It runs in the peer's own Python.
"""

from __future__ import annotations

import http.client
import json
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

PROMPT = "Say that it is done."
TEXT = "An answer of about three hundred characters. " * 7
RECORD = "A record of ten kilobytes. " * 380


class Wanted(NamedTuple):
    """The arguments of a program."""

    what: str
    size: int
    runs: int
    url: str


def read_arguments() -> Wanted:
    """The arguments of this process."""
    what, size, runs, url = sys.argv[1:]
    return Wanted(what, int(size), int(runs), url)


def ask_model(url: str, prompt: str = PROMPT) -> str:
    """One call with the standard library: the same for each peer that leaves the client to its user."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]})
    headers = {"content-type": "application/json", "authorization": "Bearer dummy-key"}
    connection.request("POST", f"{address.path}/chat/completions", body, headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    text: str = answer["choices"][0]["message"]["content"]
    assert text
    return text


def count_cpu() -> float:
    """Seconds of CPU of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure_turns(turn: Callable[[], object], runs: int) -> None:
    """Take turns, and print what one costs; the first one pays for what is loaded late, and isn't counted.

    One turn is the first one, for a process that takes no other.
    """
    if not runs:
        return
    if runs > 1:
        turn()
    began, walls = count_cpu(), []
    for _ in range(runs):
        start = time.perf_counter()
        turn()
        walls.append((time.perf_counter() - start) * 1000)
    report((count_cpu() - began) * 1000 / runs, statistics.median(walls))


async def measure_async_turns(turn: Callable[[], Awaitable[object]], runs: int) -> None:
    """The same for a coroutine."""
    if not runs:
        return
    if runs > 1:
        await turn()
    began, walls = count_cpu(), []
    for _ in range(runs):
        start = time.perf_counter()
        await turn()
        walls.append((time.perf_counter() - start) * 1000)
    report((count_cpu() - began) * 1000 / runs, statistics.median(walls))


def report(cpu_ms: float, ms: float, **more: Any) -> None:
    """Print the result."""
    print(json.dumps({"cpu_ms": cpu_ms, "ms": ms, **more}), flush=True)
