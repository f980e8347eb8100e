"""A model that works with the tools of an MCP server: what is offered, run, recorded, and replayed without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from logist.core.model import EVERYTHING, Permissions, Status
from logist.core.step.step import StepPlan
from logist.errors import InvalidFile
from logist.jobs.archive import archive_drift, archive_replay
from logist.jobs.turn.next_request import Choice, preview_request
from tests.jobs.bench import Bench, Json
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import KEY, paid
from tests.jobs.test_working import END, call, role, turn
from tests.loopback import Loopback
from tests.tool_server import SDK_SERVER

PARAMETERS: Json = {"type": "object", "properties": {"word": {"type": "string"}}}
TOOL: Json = {"name": "lookup", "description": "As it was pinned.", "parameters": PARAMETERS}


def with_server(
    b: Bench,
    place: Path,
    permissions: Permissions = EVERYTHING,
    program: str = sys.executable,
    **tool: object,
) -> Bench:
    """Give the Worker the server of the SDK, whose own descriptions differ from the pinned ones."""
    place.mkdir(exist_ok=True)
    (place / "notes.py").write_text(SDK_SERVER, "utf-8")
    server = {"command": [program, str(place / "notes.py")], "tools": [TOOL | tool]}
    role(b, "Worker", permissions, mcp_servers={"notes": server})
    return b


def test_a_model_calls_a_tool_of_a_server(bench: MakeBench, tmp_path: Path) -> None:
    steps = [turn(call("notes__lookup", word="gull")), END]
    place = tmp_path / "servers"
    with Loopback(*steps) as server:
        b = paid(bench(), server.url, sandbox={"readable": [str(place)]})
        with_server(b, place)
        b.create()
        result = b.step()
    assert result.state.status is Status.REVIEW_REQUIRED
    entry = b.history()[-1]
    assert entry.response.tools == {"notes__lookup": 1}
    assert entry.response.tools_failed is None
    assert [change.path for change in entry.observed.changes] == ["looked-up.txt"]  # type: ignore[union-attr]
    offered = [tool for tool in server.requests[0].body["tools"] if "__" in tool["function"]["name"]]
    described = {"name": "notes__lookup", "description": "As it was pinned.", "parameters": PARAMETERS}
    assert offered == [{"type": "function", "function": described}]
    assert entry.request.metadata["server_tools"] == offered
    assert entry.request.metadata["tools"][-1] == "notes__lookup"
    assert server.requests[1].body["messages"][-1]["content"] == "gull: a kind of bird"


def test_a_preview_starts_no_server_and_counts_its_tools(bench: MakeBench, tmp_path: Path) -> None:
    b = paid(bench(), "http://127.0.0.1:9/v1")
    b.create()

    def preview() -> StepPlan:
        _, plan = preview_request(b.project, "j", Choice())
        assert isinstance(plan, StepPlan)
        return plan

    before = preview()
    with_server(b, tmp_path / "servers", description="x" * 4000)
    (tmp_path / "servers" / "notes.py").unlink()
    after = preview()
    assert after.offered_tokens >= before.offered_tokens + 1000
    assert before.reserved_microcents is not None
    assert after.reserved_microcents is not None
    assert after.reserved_microcents > before.reserved_microcents
    assert [tool.name for tool in after.tools][-1] == "notes__lookup"


def test_a_role_that_may_not_run_programs_is_offered_no_server(bench: MakeBench, tmp_path: Path) -> None:
    b = with_server(paid(bench(), "http://127.0.0.1:9/v1"), tmp_path / "s", Permissions(can_read_files=True))
    b.create()
    _, plan = preview_request(b.project, "j", Choice())
    assert isinstance(plan, StepPlan)
    assert [tool.name for tool in plan.tools] == ["read_file", "list_directory", "search"]
    assert "server_tools" not in plan.request.metadata


def test_replay_needs_no_server_and_names_what_changed(bench: MakeBench, tmp_path: Path) -> None:
    place = tmp_path / "servers"
    with Loopback(turn(call("notes__lookup", word="gull")), END) as server:
        b = with_server(paid(bench(), server.url, sandbox={"readable": [str(place)]}), place)
        b.create()
        b.step()
    (place / "notes.py").unlink()

    b.drifts = True

    def replay() -> dict[str, str]:
        prompts = archive_drift.build_drift_finder(b.project)
        replayed = archive_replay.replay_job(b.project, b.project.open_job("j"), prompts=prompts)
        assert replayed.differences == ()
        return {drift.source: drift.cause for drift in replayed.drifts}

    assert replay() == {}
    role(
        b,
        "Worker",
        EVERYTHING,
        mcp_servers={"notes": {"command": ["x"], "tools": [{**TOOL, "description": "New."}]}},
    )
    assert list(replay()) == ["server_tools"]
    assert replay()["server_tools"].endswith("has changed: its mcp_servers")
    role(b, "Worker", EVERYTHING, mcp_servers={})
    assert list(replay()) == ["tools"]
    assert replay()["tools"].endswith("has changed: its mcp_servers")


def test_a_description_with_a_secret_is_not_sent(bench: MakeBench, tmp_path: Path) -> None:
    b = paid(bench(), "http://127.0.0.1:9/v1")
    with_server(b, tmp_path / "servers", description=f"Use {KEY}.")
    b.create()
    with pytest.raises(InvalidFile, match="notes__lookup contains what looks like a secret"):
        b.step()
