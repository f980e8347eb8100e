"""Tools of MCP servers: real servers in the real sandbox, and what they can't do to Logist."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from logist.agents import sandbox
from logist.agents.protocol import AgentWork
from logist.agents.tools import servers
from logist.agents.tools.context import ToolError
from logist.agents.workplace import Workplace
from logist.core.model import Permissions, ServerTool, ToolServer
from tests.shell.agents.tool_bench import Bench, bench
from tests.tool_server import BARE_SERVER, SDK_SERVER

PROGRAMS = Permissions(can_read_files=True, can_execute_commands=True)
TOOL = ServerTool(name="lookup", description="Looks up.", parameters={"type": "object"})


def serving(folder: Path, script: str, *arguments: str, permissions: Permissions = PROGRAMS) -> Bench:
    """Return a bench with a server whose script is in the workspace, in the sandbox of this machine."""
    made = bench(folder, permissions)
    (made.root / "server.py").write_text(script, "utf-8")
    place = Workplace(made.root, made.context.scratch, {"PATH": "/usr/bin:/bin"})
    place.home.mkdir()
    server = ToolServer(command=(sys.executable, "server.py", *arguments), tools=(TOOL,))
    return made.with_(
        mcp_servers={"notes": server},
        confine_server=lambda: place.confine_server(AgentWork(permissions=permissions, marker="marker")),
        run=sandbox.run_program,
        marker=f"servers-{time.monotonic_ns()}",
    )


def test_a_server_of_the_sdk_answers(tmp_path: Path) -> None:
    tools = serving(tmp_path, SDK_SERVER)
    assert tools.done("notes__lookup", word="gull") == "gull: a kind of bird"
    assert (tools.root / "looked-up.txt").read_text() == "gull\n"
    assert list(tools.context.scratch.iterdir()) == [tools.context.scratch / "home"]


def test_each_call_meets_a_new_server_with_its_arguments(tmp_path: Path) -> None:
    tools = serving(tmp_path, BARE_SERVER, "good")
    for word in ("gull", "tern"):
        sent = json.loads(tools.done("notes__lookup", word=word, none=None))
        assert sent == {"name": "lookup", "arguments": {"word": word, "none": None}}


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("never ready", "no answer after 1 seconds"),
        ("hangs", "no answer after 1 seconds"),
        ("no start", "it refused to start: not today"),
        ("dies", "it ended without an answer; its last line of standard error: out of memory"),
        ("huge line", "it sent a message of more than 4 MB"),
        ("huge lines", "it sent more than 1,000 messages; 999 lines of its output are not messages"),
        ("chatty", "it sent more than 1,000 messages"),
        ("refuses", "it refused tools/call: no such tool"),
    ],
)
def test_a_server_that_gives_no_result_is_an_error_for_the_model(
    tmp_path: Path, mode: str, words: str
) -> None:
    tools = serving(tmp_path, BARE_SERVER, mode).ruled(command_seconds=1 if "1 seconds" in words else 60)
    content = tools.fails("notes__lookup")
    assert content == f"error: the MCP server notes gave no result: {words}"
    assert sandbox.end_leftover_processes(tools.context.marker) == 0


def test_what_is_not_a_message_is_passed_over(tmp_path: Path) -> None:
    assert "lookup" in serving(tmp_path, BARE_SERVER, "noise").done("notes__lookup")


@pytest.mark.parametrize("mode", ["children", "stays"])
def test_nothing_of_a_server_is_left_after_its_call(tmp_path: Path, mode: str) -> None:
    tools = serving(tmp_path, BARE_SERVER, mode)
    assert tools.done("notes__lookup")
    assert sandbox.end_leftover_processes(tools.context.marker) == 0


def test_a_server_may_ask_for_nothing(tmp_path: Path) -> None:
    replies = json.loads(serving(tmp_path, BARE_SERVER, "asks").done("notes__lookup"))
    assert [reply["id"] for reply in replies] == ["s0", "s1", "s2", "s3"]
    assert [reply.get("error", {}).get("code") for reply in replies] == [-32601, -32601, -32601, None]


def test_a_result_is_text_and_nothing_else(tmp_path: Path) -> None:
    parts = serving(tmp_path / "parts", BARE_SERVER, "parts").done("notes__lookup")
    assert parts == "[image: not shown, only text is]\n[an invalid part of the result]\ninside"
    assert serving(tmp_path / "data", BARE_SERVER, "structured").done("notes__lookup") == '{"sum": 3}'
    assert serving(tmp_path / "error", BARE_SERVER, "error").fails("notes__lookup") == "it rained"
    secret = serving(tmp_path / "secret", BARE_SERVER, "secret").done("notes__lookup")
    assert secret == "the key is [redacted]"


def test_a_server_is_a_program_so_its_tools_need_that_permission(tmp_path: Path) -> None:
    tools = serving(tmp_path, BARE_SERVER, "good", permissions=Permissions(can_read_files=True))
    outcome = tools.call("notes__lookup")
    assert outcome.refusal is not None
    assert outcome.refusal.missing == ["execute_commands"]


def test_approval_and_disabling_work_by_the_name_of_the_tool(tmp_path: Path) -> None:
    tools = serving(tmp_path, BARE_SERVER, "good")
    asked = tools.ruled(require_approval=("notes__lookup",)).call("notes__lookup", word="gull")
    assert asked.refusal is not None
    assert asked.refusal.kind == "approval"
    disabled = tools.ruled(disabled=("notes__lookup",)).call("notes__lookup")
    assert disabled.refusal is not None


def test_an_unknown_tool_of_a_server_is_an_ordinary_error(tmp_path: Path) -> None:
    content = serving(tmp_path, BARE_SERVER, "good").fails("notes__delete_all")
    assert content.startswith("error: unknown tool: notes__delete_all")
    assert content.endswith("execute_command, notes__lookup")


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    tools = serving(tmp_path, BARE_SERVER, "good")
    missing = replace(tools.context, mcp_servers={"notes": ToolServer(command=("no-such-server",))})
    with pytest.raises(ToolError, match=r"can't start the MCP server notes: .*program not found"):
        servers.call_server_tool("notes__lookup", {}, missing)
