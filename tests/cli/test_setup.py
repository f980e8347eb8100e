"""`workspace.setup` as a person meets it: trust, exit codes, what the commands show, a kill in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from logist.agents import sandbox
from logist.agents.sandbox import processes
from logist.cli import context
from logist.cli.commands.run import Left
from logist.config.environment import Environment
from tests import support
from tests.cli.desk import Desk, answer
from tests.cli.test_json import schemas, validate
from tests.cli.test_run import asked_in

TOOL = "mkdir -p .venv/bin; touch .venv/pyvenv.cfg; printf '#!/bin/sh\\necho hi\\n' > .venv/bin/tool; chmod +x .venv/bin/tool"


def config(desk: Desk, setup: Any, check: str = "tool") -> None:
    settings = {
        "workspace": {"setup": setup},
        "review": {"checks": {"ours": {"severity": "error", "command": check}}},
    }
    desk.settings(json.dumps(settings))
    assert desk("trust", "--yes").code == 0


def create(desk: Desk, job_id: str = "j1") -> None:
    """A job that begins with files: an empty workspace has nothing to set up, and copies are kept by lock files."""
    if not (desk.place / "repo").exists():
        repo = support.make_repository(desk.place / "repo")
        (repo / "requirements.txt").write_text("one", "utf-8")
        support.git(repo, "add", "requirements.txt")
        support.git(repo, "commit", "--quiet", "-m", "third")
    desk.create(job_id, "--repo", "repo")


def data(desk: Desk, *args: str) -> Any:
    ran = desk("job", *args, "j1", "--json")
    found = ran.json["data"]
    validate(found, schemas()[f"job-{args[0]}"])
    return found["setup"]


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(
    "setup", [TOOL, [TOOL], [["sh", "-c", TOOL]], {"commands": [TOOL], "rerun": "never"}]
)
def test_the_forms_of_the_setting(desk: Desk, setup: Any) -> None:
    config(desk, setup)
    create(desk)
    ran = desk("job", "step", "j1")
    assert (ran.code, "ours (error): the check passed" in ran.out) == (0, True)
    assert "setup: done in " in ran.out


@pytest.mark.parametrize(
    ("setup", "where"),
    [
        ({"commands": [[]]}, "workspace.setup.commands[0]"),
        ({"commands": [TOOL], "rerun": "sometimes"}, "workspace.setup.rerun"),
        ({"commands": [TOOL], "environment": ["A=b"]}, "workspace.setup.environment[0]"),
        ({"command": TOOL}, "workspace.setup.command"),
    ],
)
def test_what_it_can_not_be(desk: Desk, setup: Any, where: str) -> None:
    desk.settings(json.dumps({"workspace": {"setup": setup}}))
    ran = desk("config", "show")
    assert (ran.code, where in ran.err) == (5, True)


def test_a_failure_is_shown_and_the_exit_code_says_so(desk: Desk) -> None:
    config(desk, f"{TOOL}; echo what went wrong; exit 3")
    create(desk)
    assert data(desk, "status") is data(desk, "show") is None
    assert data(desk, "preview")["status"] == "due"
    before = desk.history()
    ran = desk("job", "step", "j1")
    assert ran.code == 5
    assert "  what went wrong\n" in ran.err
    assert "workspace setup failed: " in ran.err
    assert "logs/000002.setup.log" in ran.err
    assert desk("job", "run", "j1").code == desk("run").code == 5
    assert desk.history() == before
    shown = desk("job", "status", "j1")
    assert "  setup failed: " in shown.out
    assert "(output: logs/000002.setup.log)\n" in shown.out
    assert (shown.code, desk("job", "verify", "j1").code, desk("doctor").code) == (0, 0, 0)
    assert data(desk, "status")["log"] == "000002.setup.log"
    assert data(desk, "preview")["status"] == "failed"
    assert "setup: failed, would run again: " in desk("job", "preview", "j1").err
    assert "setup failed: " in desk("job", "show", "j1").out


@pytest.mark.deep
def test_what_is_shown_of_one_that_is_done(desk: Desk) -> None:
    config(desk, TOOL)
    create(desk)
    create(desk, "j2")
    assert f"setup: would run {TOOL}\n" in desk("job", "preview", "j1").err
    desk("job", "step", "j1")
    assert "setup: done\n" in desk("job", "preview", "j1").err
    assert "setup: would be copied from the cache\n" in desk("job", "preview", "j2").err
    assert "setup: done in " in desk("job", "show", "j1").out
    assert "setup" not in desk("job", "status", "j1").out
    assert "  setup: done in " in desk("job", "status", "-v", "j1").out
    desk("job", "step", "j2")
    assert "setup: copied from the cache in " in desk("job", "history", "j2").out
    assert "setup: copied from the cache in " in desk("job", "show", "j2").out
    assert data(desk, "show")["source"] == "commands"


@pytest.mark.deep
def test_a_watching_queue_leaves_a_job_alone_whose_setup_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    config(desk, "false")
    create(desk)
    monkeypatch.chdir(desk.place)
    project = context.open_project(Environment(dict(os.environ) | desk.env))
    assert asked_in(Left(project), project, 50) == [1, 14, 39]


@pytest.mark.deep
def test_a_kill_in_the_middle_leaves_nothing_half_made(desk: Desk) -> None:
    config(
        desk, f"mkdir .venv; touch .venv/half; echo x > stray.txt; {TOOL}; exec sleep 600", "tool; ls .venv"
    )
    create(desk)
    workspace = desk.job() / "workspace"
    marker = f"j1-2-{desk.history()[0]['checksum'].removeprefix('sha256:')[:16]}"
    started = desk.started("job", "step", "j1", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(workspace / ".venv" / "bin" / "tool")
    assert processes.find_marked(marker, processes.read_table())
    during = desk("job", "preview", "j1", "--json").json["data"]
    assert during["reason"].startswith(f"the workspace is being set up: job step (pid {started.pid}, since ")
    assert during["next_command"].startswith("logist job tail --job j1 to wait and watch the agent, or: ")
    dry = desk("job", "poststep", "j1", "--response-string", "x", "--dry-run")
    assert (dry.code, "the workspace is being set up" in dry.err) == (8, True)
    started.kill()
    started.wait()
    config(desk, TOOL, "tool; ls .venv")
    after = desk("job", "preview", "j1", "--json").json["data"]
    reason = "the workspace setup was interrupted: the next command restores the workspace"
    assert (after["reason"], after["next_command"]) == (reason, "logist job step --job j1")
    ran = desk("job", "step", "j1")
    assert ran.code == 0, ran.err
    (found,) = desk.state()["checks"]
    assert (found["outcome"], found["output"]) == ("passed", "hi\nbin\npyvenv.cfg")
    assert not (workspace / "stray.txt").exists()
    assert not (desk.job() / "restoring").exists()
    assert sandbox.end_leftover_processes(marker) == 0


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + support.CRASHED
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


@pytest.mark.deep
def test_a_merge_does_not_bring_it_along(desk: Desk) -> None:
    repo = support.make_repository(desk.place / "repo")
    (repo / ".gitignore").write_text("*.log\n", "utf-8")
    subprocess.run(
        "git add -A; git -c user.name=a -c user.email=a@b.c commit -qm ignore",
        shell=True,
        cwd=repo,
        check=True,
    )
    config(desk, f"{TOOL}; echo made > made.log")
    desk.script(answer(files={"a.txt": "a"}), answer())
    desk.create("j1", "--repo", str(repo))
    desk("job", "run", "j1")
    desk("job", "approve", "j1")
    ran = desk("job", "merge", "j1")
    assert ran.code == 0, ran.err
    changed = subprocess.run(
        ["git", "show", "--name-only", "--format=", "HEAD"], cwd=repo, capture_output=True, check=True
    )
    assert changed.stdout == b"a.txt\n"
