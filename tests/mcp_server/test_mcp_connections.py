"""The MCP server as a process, over standard input and output and over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests import support
from tests.cli.desk import Desk, command
from tests.dask_bench import wait_until
from tests.loopback import Loopback
from tests.mcp_server.talking import Agent, ToolFailed, as_process, read, talk, talk_to


async def _work(agent: Agent) -> list[Any]:
    """Create a job, run it until it waits for a person, and ask the steward."""
    made = await agent.call("create_job", prompt="Write hello.txt", job="hello")
    price = await agent.call("preview_job", job="hello")
    await agent.call("run_job", job="hello")
    for _ in range(600):
        state = await agent.call("show_job", job="hello", diff=True, tail=True)
        if "held_by" not in state and state["status"] not in ("PENDING", "REVIEW_REQUIRED"):
            break
    asked = await agent.call("ask_steward", job="hello")
    return [made["status"], price["role"], state["status"], asked["waits_for_person"], asked["kind"]]


VERDICT = command()
DONE = ["PENDING", "Worker", "APPROVAL_REQUIRED", True, "approval"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_works_over_standard_input_and_output(desk: Desk, mode: str) -> None:
    assert talk_to(as_process(desk), _work, mode=mode) == DONE
    assert len(read(desk, "job", "history", "hello")) == 3


def test_an_agent_works_over_http(desk: Desk) -> None:
    with _serving(desk) as (port, token):
        assert asyncio.run(_talk_http(port, token, _work)) == DONE


async def _talk_http(port: int, token: str, act: Callable[[Agent], Awaitable[Any]]) -> Any:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as client:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=client)
        async with Client(transport) as connected:
            return await act(Agent(connected))


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 200),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": "Bearer " + "x" * 43}, 401),
        ({"Host": "attacker.example"}, 421),
        ({"Host": "attacker.example:PORT"}, 421),
        ({"Origin": "http://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_http_refuses_strangers(desk: Desk, changed: dict[str, str], status: int) -> None:
    with _serving(desk) as (port, token):
        body = (
            '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
            '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'
        )
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **{name: value.replace("PORT", str(port)) for name, value in changed.items()},
        }
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=support.CRASHED)
        connection.request("POST", "/mcp", body, headers)
        assert connection.getresponse().status == status
        connection.close()


def test_the_token_is_kept_and_private(desk: Desk) -> None:
    with _serving(desk) as (_, first), _serving(desk) as (_, second):
        assert first == second
    folder = desk.home / "mcp"
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "token").stat().st_mode & 0o077 == 0
    assert (folder / ".gitignore").read_text() == "*\n"


def test_a_job_goes_on_when_the_server_is_killed_and_is_asked_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, usage = threading.Event(), {"input": 10, "output": 10}
    with Loopback(
        {"text": command(), "gate": gate, "usage": usage}, {"text": VERDICT, "usage": usage}
    ) as model:
        models = "".join(
            f"  {name}:\n    provider_model: openai/{name}\n    endpoint: {model.url}\n    api_key_env: MY_MODEL\n"
            "    input_price: 0.5\n    output_price: 2.0\n"
            for name in ("grok-code-fast-1", "gemini-2.5-flash")
        )
        desk.settings(f"agent: model\nlimits:\n  cost_threshold: 200\nmodels:\n{models}")
        monkeypatch.setenv("LOGIST_AGENT", "model")
        monkeypatch.setenv("MY_MODEL", "dummy-key-for-tests-0001")
        environment = {"LOGIST_AGENT": "model", "MY_MODEL": "dummy-key-for-tests-0001"}
        with _serving(desk, killed=True, env=environment) as (port, token):
            started = asyncio.run(_talk_http(port, token, _start))
            assert started["started"] is True
            model.wait_for(1)
        with pytest.raises(ToolFailed, match="hello"):
            talk(desk, lambda agent: agent.call("run_job", job="hello"))
        gate.set()
        wait_until(lambda: read(desk, "job", "status", "hello")["status"] == "APPROVAL_REQUIRED")
    assert len(model.requests) == 2
    assert len(read(desk, "job", "history", "hello")) == 3


async def _start(agent: Agent) -> Any:
    await agent.call("create_job", prompt="Write hello.txt", job="hello")
    return await agent.call("run_job", job="hello")


def test_outside_of_a_project_it_is_refused(desk: Desk, tmp_path: Any) -> None:
    ran = support.run_as_process("mcp", cwd=tmp_path, env={"HOME": str(tmp_path)})
    assert ran.code == 2
    assert "logist init" in ran.err


@contextmanager
def _serving(
    desk: Desk, *, killed: bool = False, env: dict[str, str] | None = None
) -> Iterator[tuple[int, str]]:
    words = ("mcp", "--http", "--port", "0")
    process = desk.started(*words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        first, second = process.stdout.readline().decode(), process.stdout.readline().decode()
        found = re.search(r"127\.0\.0\.1:(\d+)/mcp", first)
        assert found, first
        yield int(found[1]), second.split()[-1]
    finally:
        process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
        process.wait(support.CRASHED)
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_the_server_although_its_input_stays_open(desk: Desk, number: signal.Signals) -> None:
    greeting = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting}
    process = desk.started("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(number)
        assert process.wait(support.CRASHED) == 128 + number
    finally:
        process.kill()
        process.wait(support.CRASHED)
        process.stdin.close()
        process.stdout.close()
