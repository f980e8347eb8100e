"""Hostile and broken programs and model servers at the gate: no limit is exceeded, and history and ledger agree."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Status
from logist.core.money.amounts import MICROCENTS
from logist.core.money.budgets import Cost
from tests.jobs.bench import Json
from tests.jobs.conftest import MakeBench
from tests.jobs.test_gate import COST, SAYS, as_process, gated, made, sums, total, write_config
from tests.jobs.test_paid import KEY, paid, step_as_process, waiting_for
from tests.jobs.test_workflow_children import given_away
from tests.loopback import Loopback


def find_files_with(folder: Path, *secrets: str) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file() and "workspace" not in path.parts)
    return [path.name for path in files if any(each.encode() in path.read_bytes() for each in secrets)]


def test_what_a_program_prints_has_neither_the_key_nor_the_token(bench: MakeBench) -> None:
    body = "note('made.txt', os.environ['AGENT_KEY']); print(dict(os.environ)); print(dict(os.environ), file=sys.stderr); ask(os.environ['AGENT_KEY'])"
    with Loopback({**SAYS, "text": f"Your key is {KEY}."}) as server:
        b = made(bench, server, body)
        b.step()
    token = json.loads((b.project.open_job("j").workspace / "made.txt").read_text())
    assert len(token) > 30
    assert find_files_with(b.project.home.parent, token, KEY) == []


ODD: list[Any] = [
    {"prompt_tokens": -5, "completion_tokens": -5, "total_tokens": -10},
    {"prompt_tokens": "1000", "completion_tokens": "100"},
    {"prompt_tokens": 10**30, "completion_tokens": 1},
    {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 10**6}},
    {"prompt_tokens": 10},
    {"prompt_tokens": [], "completion_tokens": {}},
    [],
    None,
]


def test_history_and_ledger_agree_whatever_a_server_says_about_the_usage(bench: MakeBench) -> None:
    choice = {"message": {"content": "Hm."}, "finish_reason": "stop"}
    steps: list[Json] = [{"raw": json.dumps({"choices": [choice], "usage": usage})} for usage in ODD]
    with Loopback(*steps) as server:
        b = made(bench, server, f"[ask() for _ in range({len(ODD)})]")
        b.step()
        assert len(server.requests) == len(ODD)
    assert 0 < total(b) == sums(b).spent.microcents
    assert sums(b).reserved == Cost(0, 0, 0)


NOISE = """
import socket, threading
host, port = url.split("/")[2].split(":")
kept = []
for number in range(300):
    try:
        one = socket.create_connection((host, int(port)), timeout=5)
        if number % 3 == 0:
            one.sendall(b"POST /v1/chat/completions HTTP/1.1\\r\\nauthorization: Bearer " + os.environ["AGENT_KEY"].encode()
                        + b"\\r\\ncontent-length: 500\\r\\n\\r\\n{")
        kept.append(one)
    except OSError:
        pass
for one in kept[:100]:
    one.close()
answers = []
while not answers or answers[-1] is None:
    try:
        answers.append(ask())
    except OSError:
        answers.append(None)
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            ask()
        except OSError:
            pass
"""


def test_a_program_that_keeps_connections_open_and_stays_costs_only_what_was_answered(
    bench: MakeBench,
) -> None:
    with Loopback(SAYS) as server:
        b = made(bench, server, NOISE)
        b.step()
        seen = len(server.requests)
    assert seen > 0
    assert total(b) == sums(b).spent.microcents == seen * COST
    assert sums(b).reserved == Cost(0, 0, 0)


def test_programs_of_parallel_jobs_stay_within_the_limit_above_them(bench: MakeBench) -> None:
    b = bench(settings={"review": {"enabled": False}})
    limits = {"cost_threshold": 0.8}
    children = given_away(b, "one", "two", "three", limits=limits)
    body = """
pool = concurrent.futures.ThreadPoolExecutor(6)
def often(n):
    return [ask(f"{n} {turn}")[0] for turn in range(4)]
print(list(pool.map(often, range(6))), file=sys.stderr)
sys.exit("no answer")
"""
    with Loopback({**SAYS, "delay": 0.05}) as server:
        gated(paid(b, server.url, review={"enabled": False}, min_output_tokens=500), body)
        write_config(b)
        user = str(b.project.home.parent / "user")
        steppers = [step_as_process(b, "job", "step", child, XDG_CONFIG_HOME=user) for child in children]
        codes = [stepper.wait(120) for stepper in steppers]
        seen = len(server.requests)
    assert 7 in codes
    assert 0 < seen * COST == sums(b).spent.microcents <= 0.8 * MICROCENTS
    assert sums(b).reserved == Cost(0, 0, 0)
    assert sum(total_of(b, child) for child in children) == seen * COST


def total_of(b: Any, job: str) -> int:
    usage = b.state(job).usage
    cost: int = usage.cumulative_cost * MICROCENTS + usage.cumulative_cost_microcents
    return cost


@pytest.mark.parametrize(("words", "code"), [(("suspend", "j"), 8), (("cancel", "j", "--yes"), 0)])
def test_a_decision_while_the_program_works_loses_no_cost(
    bench: MakeBench, words: tuple[str, ...], code: int
) -> None:
    gate = threading.Event()
    with Loopback(SAYS, {**SAYS, "gate": gate}) as server:
        b = made(bench, server, "ask(); note('made.txt', 1); ask()")
        stepper = as_process(b)
        server.wait_for(2)
        decision = step_as_process(b, "job", *words, XDG_CONFIG_HOME=str(b.project.home.parent / "user"))
        assert decision.wait(60) == code
        gate.set()
        stepper.wait(60)
        waiting_for(lambda: sums(b).reserved == Cost(0, 0, 0))
    assert total(b) == sums(b).spent.microcents >= 2 * COST
    assert b.state().status is not Status.STUCK
