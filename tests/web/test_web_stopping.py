"""Stopping an agent that works, from the page; real couriers and a model on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.desk import Desk
from tests.cli.test_interrupted import Slow, paid
from tests.cli.test_progress import DONE, prepare
from tests.support import RunLogist
from tests.web.action_page import ActionPage, strip_tags


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    return Desk(tmp_path, cli)


@pytest.mark.parametrize(
    ("name", "status"), [("suspend", "SUSPENDED"), ("cancel", "CANCELED"), ("role", "STUCK")]
)
def test_an_agent_is_stopped_only_if_the_person_says_so(desk: Desk, name: str, status: str) -> None:
    with Slow(DONE) as server:
        prepare(desk, server)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        step = desk.started("job", "step", "j1", env=paid(desk), **quiet)
        server.wait_for(1)
        page = ActionPage(desk, env=paid(desk))
        assert "Stop the agent that is working now" in page.read("/jobs/j1")
        assert "answer" not in page.list_actions()
        refused = page.act(name, entered="Planner")
        assert refused.status_code == 423
        assert "the job is busy: " in strip_tags(refused.text)
        assert step.poll() is None
        page.do(name, entered="Planner", ends_agent="yes")
        step.wait()
    assert desk.state()["status"] == status
    kinds = [entry["kind"] for entry in desk.history()]
    assert kinds[-1] == name
    assert desk("job", "verify", "j1").code == 0
