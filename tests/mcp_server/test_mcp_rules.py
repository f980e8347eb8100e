"""What an agent can't do through the MCP server, whatever it tries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cli.desk import Desk, answer, command
from tests.mcp_server.talking import Agent, ToolFailed, read, talk
from tests.support import ROOT

DIAGRAM = "flowchart TD\n    build[Build] --> check[Check]\n"
REVIEWED = """flowchart TD
    build[Build] --> check[Check]

%% === WORKFLOW_CONFIG ===
%% @build: {"prompt": "Build it.", "review": true}
%% @check: {"prompt": "Check it.", "review": true}
%% === END_CONFIG ===
"""
DECISIONS = ("approve", "override", "merge", "limit", "trust", "resubmit", "reject", "role", "config")


def test_no_tool_decides_and_all_are_short(desk: Desk) -> None:
    async def act(agent: Agent) -> tuple[list[Any], int]:
        tools = (await agent.client.list_tools()).tools
        resources = (await agent.client.list_resource_templates()).resource_templates
        prompts = (await agent.client.list_prompts()).prompts
        every: list[Any] = [*tools, *resources, *prompts]
        texts = [each.model_dump_json(exclude_none=True, by_alias=True) for each in every]
        return tools, len("".join(texts) + (agent.client.instructions or ""))

    tools, size = talk(desk, act)
    assert len(tools) == 9
    assert not [each.name for each in tools if any(word in each.name for word in DECISIONS)]
    assert size / 4 < 2000
    fields = {name for each in tools for name in each.input_schema.get("properties", {})}
    assert not fields & {
        "approval",
        "auto_merge",
        "review",
        "limits",
        "cost_threshold",
        "review_mode",
        "repo",
    }


def test_read_only_has_no_tool_that_creates_or_runs(desk: Desk) -> None:
    async def act(agent: Agent) -> set[str]:
        return {each.name for each in (await agent.client.list_tools()).tools}

    assert talk(desk, act) - talk(desk, act, read_only=True) == {"create_job", "run_job"}


@pytest.mark.parametrize(
    ("config", "approval", "mode"),
    [
        ("", "end", "null"),
        ("review:\n  mode: yolo\n", "end", '"normal"'),
        ("review:\n  mode: strict\n", "each", "null"),
        ("review:\n  enabled: false\n  auto_merge: true\napproval: none\n", "end", "null"),
    ],
)
def test_a_new_job_keeps_the_rules_whatever_the_config_says(
    desk: Desk, config: str, approval: str, mode: str
) -> None:
    desk.settings("limits:\n  cost_threshold: 200\n" + config)

    async def act(agent: Agent) -> Any:
        more = {"auto_merge": True, "approval": "none", "review": False, "limits": {"cost_threshold": 9999}}
        return await agent.call("create_job", prompt="Write hello.txt", job="hello", **more)

    assert talk(desk, act)["status"] == "PENDING"
    spec = read(desk, "job", "show", "hello")["spec"]
    assert spec["review"] is True
    assert spec["approval"] == approval
    assert spec["auto_merge"] is False
    assert spec.get("review_mode", "normal" if mode != "null" else None) == (
        None if mode == "null" else "normal"
    )
    assert "limits" not in spec
    assert spec["tags"] == ["mcp"]


def test_no_job_without_a_cost_limit_that_a_person_set(desk: Desk) -> None:
    desk.settings("")
    with pytest.raises(ToolFailed, match=r"logist config set limits\.cost_threshold"):
        talk(desk, lambda agent: agent.call("create_job", prompt="Write hello.txt"))
    assert not desk.jobs.exists() or not list(desk.jobs.iterdir())
    assert desk("job", "create", "--id", "own", "--prompt", "x").code == 0
    with pytest.raises(ToolFailed, match="no cost limit"):
        talk(desk, lambda agent: agent.call("run_job", job="own"))


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--no-review",), "not reviewed"),
        (("--approval", "none"), "needs no approval"),
        (("--review-mode", "yolo", "--approval", "end"), "merged automatically"),
    ],
)
def test_jobs_of_a_person_with_other_rules_are_refused(
    desk: Desk, options: tuple[str, ...], rule: str
) -> None:
    assert desk("job", "create", "--id", "own", "--prompt", "x", *options).code == 0
    with pytest.raises(ToolFailed, match=f"{rule}.*logist job run --job own"):
        talk(desk, lambda agent: agent.call("run_job", job="own"))
    assert read(desk, "job", "status", "own")["revision"] == 1


@pytest.mark.parametrize(
    "job", ["../../etc", "/etc/passwd", "--all", "a/b", "", "x" * 200, "\x1b[31m", "a\n"]
)
@pytest.mark.parametrize("tool", ["show_job", "preview_job", "run_job", "replay_job", "ask_steward"])
def test_an_id_is_no_path_and_no_option(desk: Desk, tool: str, job: str) -> None:
    with pytest.raises(ToolFailed, match=r"invalid job id|not found"):
        talk(desk, lambda agent: agent.call(tool, job=job))


@pytest.mark.parametrize("workflow", ["../w.mmd", "/etc/passwd", "--help", "w.mmd#x", "-"])
def test_a_workflow_is_named_without_a_path(desk: Desk, workflow: str) -> None:
    for tool in ("workflow_next", "create_job"):
        with pytest.raises(ToolFailed, match="paths are not allowed"):
            talk(desk, lambda agent, tool=tool: agent.call(tool, workflow=workflow))  # type: ignore[misc]


def test_every_agent_step_of_a_workflow_is_reviewed(desk: Desk) -> None:
    with pytest.raises(ToolFailed, match=r"no review: build, check.*review.*true"):
        talk(desk, lambda agent: agent.call("create_job", mermaid=DIAGRAM, title="w"))
    made = talk(desk, lambda agent: agent.call("create_job", mermaid=REVIEWED, title="w"))
    assert made["status"] == "PENDING"
    assert read(desk, "job", "status", made["job"])["step"] == "build"


def test_the_workflow_of_the_skill_runs_until_the_steward_is_asked(desk: Desk) -> None:
    """An agent that has only the server and the skill: it copies the example, runs it, and can't approve its own work."""
    skill = (ROOT / "skills" / "logist" / "SKILL.md").read_text("utf-8")
    diagram = skill.split("```mermaid\n")[1].split("```")[0]
    passed = answer(command(output={"verdict": "PASS", "issues": [], "suggestions": []}))
    found = answer(command(output={"choice": "Yes"}))
    desk.script(found, passed, answer(files={"fix.txt": "fixed\n"}), passed)

    async def act(agent: Agent) -> tuple[Any, Any]:
        made = await agent.call("create_job", mermaid=diagram, title="The date is wrong in winter")
        await agent.call("run_job", job=made["job"])
        for _ in range(300):
            shown = await agent.call("show_job", job=made["job"])
            if shown["status"] not in ("PENDING", "REVIEW_REQUIRED", "RUNNING", "REVIEWING"):
                break
            await asyncio.sleep(0.1)
        return shown, await agent.call("ask_steward", job=made["job"])

    shown, asked = talk(desk, act)
    assert (shown["status"], shown["step"]) == ("APPROVAL_REQUIRED", "repair"), shown
    assert (asked["waits_for_person"], asked["kind"]) == (True, "approval")
    assert read(desk, "job", "status", shown["id"])["status"] == "APPROVAL_REQUIRED"


def test_a_command_in_a_workflow_has_no_effect(desk: Desk) -> None:
    mark = desk.place / "made-by-workflow"
    diagram = REVIEWED.replace(
        '"review": true', f'"review": true, "command": "touch {mark}", "checks": ["touch {mark}"]'
    )
    made = talk(desk, lambda agent: agent.call("create_job", mermaid=diagram, title="w"))
    talk(desk, lambda agent: agent.call("run_job", job=made["job"], one_step=True))
    assert not mark.exists()


def test_long_texts_are_refused(desk: Desk) -> None:
    for arguments in (
        {"prompt": "x" * 10_000_000},
        {"mermaid": "x" * 10_000_000},
        {"prompt": "x", "title": "y" * 10**7},
    ):
        with pytest.raises(ToolFailed, match=r"longer than|too long"):
            talk(desk, lambda agent, given=arguments: agent.call("create_job", **given))  # type: ignore[misc]


def test_unknown_tools_are_refused(desk: Desk) -> None:
    with pytest.raises(ToolFailed, match="Unknown tool"):
        talk(desk, lambda agent: agent.call("approve_job", job="hello"))


def test_nobody_is_asked_by_an_elicitation(desk: Desk) -> None:
    asked = []

    async def accept(context: Any, params: Any) -> Any:
        asked.append(params)
        raise AssertionError(params)

    async def act(agent: Agent) -> Any:
        await agent.call("create_job", prompt="Write hello.txt", job="hello")
        return await agent.call("ask_steward", job="hello")

    told = talk(desk, act, elicitation_callback=accept)
    assert not asked
    assert told["waits_for_person"] is False
    assert "logist serve" in told["page"]


def test_many_calls_at_once_are_answered_or_refused(desk: Desk) -> None:
    async def act(agent: Agent) -> list[Any]:
        calls = [agent.call("show_job", job="../x") for _ in range(1000)]
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = talk(desk, act)
    assert len(answers) == 1000
    assert all(isinstance(each, ToolFailed) for each in answers)
    assert {"invalid job id" in str(each) or "too many calls" in str(each) for each in answers} == {True}
