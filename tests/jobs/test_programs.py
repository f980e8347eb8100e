"""Agent programs as workers: a real process, confined, read when it has ended, and judged like any answer."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Literal

import pytest

from logist.agents import sandbox
from logist.config import trust
from logist.core.model import ErrorKind, Permissions, Status, StuckKind
from logist.errors import InvalidFile, Refused
from tests.jobs.bench import Bench, Json, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import KEY, paid, step_as_process, waiting_for
from tests.jobs.test_working import processes, role
from tests.loopback import Loopback

AGENT = """
import json, os, pathlib, sys, time
prompt = sys.stdin.read()
{body}
print(json.dumps({{"result": {text}, "usage": {{"in": 1000, "out": 100, "cached": 400}}, "cost": 0.5, "id": "s-1"}}))
"""


def program(b: Bench, body: str = "", text: str = "", **entry: object) -> Bench:
    """Makes a program of that body the agent; its final message is `text`."""
    path = b.project.home.parent / "agent.py"
    path.write_text(AGENT.format(body=body, text=repr(text or command(evidence_files=["made.txt"]))))
    described: Json = {
        "argv": [sys.executable, str(path), "--model", "{model}", "--url", "{endpoint}"],
        "output": "json",
        "text": "result",
        "usage": {"input": "usage.in", "output": "usage.out", "cached": "usage.cached"},
        "cost": "cost",
        "session": "id",
        "pass_key_as": "AGENT_KEY",
        **entry,
    }
    settings = b.project.settings
    whole = {**settings.model_dump(mode="json"), "agents": {"fake": described}, "agent": "fake"}
    whole["sandbox"]["readable"] = [str(path.parent)]
    b.change(agent="fake", settings=type(settings).model_validate_json(json.dumps(whole)))
    return b


def made(bench: MakeBench, body: str = "", text: str = "", **entry: object) -> Bench:
    b = program(paid(bench(), "http://127.0.0.1:9/v1"), body, text, **entry)
    b.create()
    return b


WRITES = 'pathlib.Path("made.txt").write_text("made")'


def test_a_program_does_the_work(bench: MakeBench) -> None:
    body = f'{WRITES}; pathlib.Path("seen.json").write_text(json.dumps([sys.argv[1:], dict(os.environ), prompt, os.getcwd()]))'
    b = made(bench, body)
    result = b.step()
    assert result.state.status is Status.REVIEW_REQUIRED
    entry = b.history()[-1]
    workspace = b.project.job("j").workspace
    argv, environment, prompt, cwd = json.loads((workspace / "seen.json").read_text())
    assert argv == ["--model", "worker-model", "--url", "http://127.0.0.1:9/v1"]
    assert prompt == entry.request.prompt
    assert os.path.realpath(cwd) == os.path.realpath(workspace)
    assert environment["AGENT_KEY"] == KEY
    assert "MY_MODEL" not in environment
    assert not environment["HOME"].startswith(os.environ["HOME"] + "/.")
    usage = entry.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (1000, 400, 100)
    assert usage.reported_microcents == 50_000_000
    assert (usage.cost_cents, usage.cost_microcents) == (0, 70_000)  # by our prices, not by its own figure
    assert entry.response.session == "s-1"
    assert entry.request.metadata["agent"] == "fake"
    archived = json.loads((b.project.job("j").logs / "000002.turns.jsonl").read_text())
    assert json.loads(archived["stdout"])["id"] == "s-1"
    assert not [
        name for name, data in b.files().items() if KEY.encode() in data and not name.startswith("workspace/")
    ]


def test_a_program_that_claims_what_it_did_not_do(bench: MakeBench) -> None:
    b = made(bench)
    b.step()
    assert b.history()[-1].response.warnings == ["evidence is not there: made.txt"]


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        ("sys.exit('connection refused')", ErrorKind.REFUSED, 6),
        ("sys.exit('401 unauthorized: invalid api key')", ErrorKind.AUTH, 6),
        ("sys.exit('429 too many requests')", ErrorKind.TRANSIENT, 6),
        ("os.kill(os.getpid(), 9)", ErrorKind.TRANSIENT, 6),
        ("time.sleep(300)", ErrorKind.TIMEOUT, 6),
    ],
)
def test_how_a_program_fails(bench: MakeBench, body: str, kind: ErrorKind, code: int) -> None:
    b = made(bench, body)
    b.change(settings=b.project.settings.model_copy(update={"agent_timeout_minutes": 2 / 60}))
    result = b.step()
    error = b.history()[-1].response.error
    assert error is not None
    assert (error.kind, result.exit_code) == (kind, code)
    assert result.state.status is Status.PENDING


def test_an_unknown_program_is_told_before_anything_is_written(bench: MakeBench) -> None:
    b = made(bench)
    b.change(agent="codecs")
    with pytest.raises(InvalidFile, match="unknown agent `codecs`"):
        b.step()
    assert len(b.history()) == 1


def test_a_program_that_is_not_installed(bench: MakeBench) -> None:
    b = made(bench, argv=["no-such-program-anywhere", "{endpoint}"])
    result = b.step()
    error = b.history()[-1].response.error
    assert error is not None
    assert (error.kind, result.exit_code, result.state.attempts) == (ErrorKind.BAD_REQUEST, 6, 0)
    assert "no-such-program-anywhere" in error.message
    assert b.history()[-1].usage.cost_cents == 0


READ_ONLY = Permissions(can_read_files=True)
SHELL = Permissions(can_read_files=True, can_execute_commands=True)


@pytest.mark.parametrize("may", [READ_ONLY, SHELL])
def test_what_a_program_may_not_change_is_undone(bench: MakeBench, may: Permissions) -> None:
    tries = [WRITES, 'pathlib.Path("kept.txt").unlink()', 'os.symlink("/etc", "there")']
    body = "\n".join(f"try: {line}\nexcept OSError: pass" for line in tries)
    b = made(bench, body, read_only_argv=["--read-only"])
    role(b, "Worker", may)
    workspace = b.project.job("j").workspace
    (workspace / "kept.txt").write_text("kept")
    result = b.step()
    left = {path.name for path in workspace.iterdir() if path.name != ".git"}
    assert left == {"kept.txt"}
    if may.can_execute_commands:  # the workspace could be written to, and was
        assert result.state.stuck is not None
        assert result.state.stuck.kind is StuckKind.PERMISSION
    argv = json.loads(next(b.project.job("j").logs.glob("*.turns.jsonl")).read_text())["argv"]
    assert ("--read-only" in argv) is (may is READ_ONLY)


def test_a_hook_that_an_agent_planted_is_gone_for_the_next(bench: MakeBench) -> None:
    plant = "\n".join(
        [
            'hook = pathlib.Path(".git/hooks/pre-commit"); hook.parent.mkdir(exist_ok=True)',
            'hook.write_text("#!/bin/sh\\ntouch hooked"); hook.chmod(0o755)',
            'open(".git/config", "a").write("[core]\\n\\tfsmonitor = touch hooked\\n")',
            WRITES,
        ]
    )
    b = made(bench, plant)
    b.step()
    git = b.project.job("j").workspace / ".git"
    assert (git / "hooks" / "pre-commit").exists()
    program(b, 'import subprocess; subprocess.run(["git", "status"])')
    b.step()
    assert not (git / "hooks").exists()
    assert "fsmonitor" not in (git / "config").read_text()
    assert not (git.parent / "hooked").exists()


def test_a_killed_courier_leaves_a_doubt_and_no_process(bench: MakeBench) -> None:
    with Loopback({"text": command()}) as server:
        b = program(paid(bench(), server.url), f"{WRITES}; time.sleep(299)")
        b.create()
        whole = b.project.settings.model_dump(mode="json", exclude_none=True)
        said = whole | {"agent": "fake"}
        (b.project.home / "config.yaml").write_text(json.dumps(said), "utf-8")
        user = b.project.home.parent / "user" / "logist"
        trust.trust(user, b.project.home, trust.powers(said))
        stepper = step_as_process(b, XDG_CONFIG_HOME=str(user.parent))
        workspace = b.project.job("j").workspace
        waiting_for((workspace / "made.txt").exists)
        holder = b.project.job("j").holder()
        assert holder is not None
        assert holder.courier is not None
        os.kill(holder.courier.pid, signal.SIGKILL)
        stepper.wait()
        b.step()
    state = b.state()
    assert state.stuck is not None
    assert state.stuck.kind is StuckKind.IN_DOUBT
    assert not (workspace / "made.txt").exists()
    script = str(b.project.home.parent / "agent.py")
    assert not [line for line in processes() if script in line]


@pytest.mark.parametrize("mode", ["auto", "required", "off"])
def test_a_machine_without_a_sandbox(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch, mode: Literal["auto", "required", "off"]
) -> None:
    monkeypatch.setattr(sandbox, "means", lambda: sandbox.Means("none", ("bubblewrap: not installed",)))
    b = made(bench, WRITES)
    rules = b.project.settings.sandbox.model_copy(update={"mode": mode})
    b.change(settings=b.project.settings.model_copy(update={"sandbox": rules}))
    if mode == "required":
        with pytest.raises(Refused, match="no sandbox works here"):
            b.step()
        assert len(b.history()) == 1
    else:
        assert b.step().state.status is Status.REVIEW_REQUIRED
    assert any("no sandbox works here" in line for line in b.said) is (mode == "auto")
