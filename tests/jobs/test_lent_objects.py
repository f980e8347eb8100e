"""A child job's own `.git` gets its objects when a program needs them."""

from __future__ import annotations

import os
from pathlib import Path

from logist.agents.function import FunctionAgent
from logist.core.model import EVERYTHING
from tests.jobs.bench import RUNS, Bench, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import paid
from tests.jobs.test_workflow_children import given_away
from tests.jobs.test_working import END, call, role, turn
from tests.loopback import Loopback

LOG = "git log --format=%s && git fsck --full --strict --no-progress"
SUBJECT = "Empty workspace"


def is_borrowing(b: Bench, child: str) -> bool:
    return os.path.lexists(b.workspace(child) / ".git" / "objects" / "info" / "alternates")


def test_before_a_model_runs_commands(bench: MakeBench) -> None:
    b = bench()
    (child,) = given_away(b, "one")
    assert is_borrowing(b, child)
    with Loopback(turn(call("execute_command", command=LOG)), END) as server:
        paid(b, server.url)
        role(b, "Worker", EVERYTHING)
        b.step(child)
    assert SUBJECT in server.requests[1].body["messages"][-1]["content"]
    assert not is_borrowing(b, child)
    b.drifts = True


def test_before_a_function_is_called(bench: MakeBench) -> None:
    b = bench()
    (child,) = given_away(b, "one")
    seen: list[bool] = []

    def work(request: object) -> str:
        seen.append(is_borrowing(b, child))
        return command()

    b.change(agent="function", function=FunctionAgent(work))
    b.step(child)
    assert seen == [False]
    b.drifts = True


def test_not_for_a_model_without_commands(bench: MakeBench) -> None:
    b = bench()
    (child,) = given_away(b, "one")
    with Loopback({"text": command()}) as server:
        paid(b, server.url)
        role(b, "Worker", EVERYTHING.model_copy(update={"can_execute_commands": False}))
        b.step(child)
    assert b.history(child)[-1].response.error is None
    b.drifts = True
    assert is_borrowing(b, child)


def test_before_a_check_runs(bench: MakeBench, tmp_path: Path) -> None:
    b = bench([], {"review": {"checks": {"log": {"severity": "error", "command": LOG}}}})
    workflow = tmp_path / "reviewed.yaml"
    text = (RUNS / "fan-out.yaml").read_text("utf-8")
    workflow.write_text(
        text.replace("    itemVariable: part\n", "    itemVariable: part\n    review: true\n")
    )
    (child,) = given_away(b, "one", workflow=str(workflow))
    assert is_borrowing(b, child)
    b.step(child)
    (result,) = b.state(child).checks or []
    assert (result.outcome, (result.output or "").splitlines()[0]) == ("passed", SUBJECT)
    assert not is_borrowing(b, child)
