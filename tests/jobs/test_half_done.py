"""Answers that are half done: gone on with only as they would be asked for today, else given up without a loss."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logist.core.model import Call, Interaction, Kind, Permissions, Reply, Status, StuckKind
from logist.core.model.commands import ResubmitCommand
from logist.jobs.base.session import Session
from logist.jobs.steward.steward_decisions import record_decision, rerun_job
from logist.store import JobDir
from tests.jobs.bench import Bench, Json
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import paid, waiting_for
from tests.jobs.test_working import DOUBT, END, call, role, step_as_process_of, turn
from tests.loopback import Loopback

SHELL = Permissions(can_read_files=True, can_execute_commands=True)
WAITS = turn(call("execute_command", command="mkfifo p; touch started; sleep 303"))


def killed_at_work(b: Bench, server: Loopback) -> JobDir:
    """The courier was killed while a command of the model's first turn was at work."""
    b.create()
    stepper = step_as_process_of(b, server)
    job = b.project.open_job("j")
    waiting_for((job.workspace / "started").exists)
    holder = job.find_lock_holder()
    assert holder is not None
    assert holder.courier is not None
    os.kill(holder.courier.pid, signal.SIGKILL)
    stepper.wait()
    return job


def kinds(b: Bench) -> list[Kind]:
    return [entry.kind for entry in b.history()]


def fewer_rights(b: Bench) -> None:
    role(b, "Worker", Permissions(can_read_files=True))


def no_such_tool(b: Bench) -> None:
    tools = b.project.settings.tools.model_copy(update={"disabled": ("create_file",)})
    b.change(settings=b.project.settings.model_copy(update={"tools": tools}))


def lower_limit(b: Bench) -> None:
    b.project.open_job("j").spec_file.write_text("prompt: Do it.\nlimits: {cost_threshold: 1}\n")


def no_sandbox(b: Bench) -> None:
    sandbox = b.project.settings.sandbox.model_copy(update={"mode": "off"})
    b.change(settings=b.project.settings.model_copy(update={"sandbox": sandbox}))


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("factor", [0.5, 2])
def test_after_a_change_of_prices_it_is_gone_on_with_unless_they_rose(
    bench: MakeBench, factor: float
) -> None:
    """A new version may correct a shipped price. Higher prices have to be checked against the limits again."""
    with Loopback(WAITS, END) as server:
        b = paid(bench(), server.url)
        killed_at_work(b, server)
        settings = b.project.settings
        models = {
            name: entry.model_copy(update={"input_price": (entry.input_price or 0) * factor})
            for name, entry in settings.models.items()
        }
        b.change(settings=settings.model_copy(update={"models": models}))
        b.step()
        gone_on = kinds(b) == [Kind.CREATE, Kind.ASK]
        assert (gone_on, len(server.requests)) == ((True, 2) if factor < 1 else (False, 1))


@pytest.mark.deep
@pytest.mark.parametrize("change", [fewer_rights, no_such_tool, lower_limit, no_sandbox])
def test_what_would_be_asked_otherwise_today_is_given_up(
    bench: MakeBench, change: Callable[[Bench], None]
) -> None:
    with Loopback(WAITS, END) as server:
        b = paid(bench(), server.url)
        job = killed_at_work(b, server)
        change(b)
        b.step()
    assert len(server.requests) == 1
    assert kinds(b)[-1] is Kind.RECOVER
    assert b.history()[-1].usage.input_tokens == 100
    assert not (job.workspace / "started").exists()
    assert not os.path.lexists(job.workspace / "p")  # no checkpoint holds a pipe


@pytest.mark.deep
def test_a_planted_answer_runs_nothing_that_the_config_does_not_allow(
    bench: MakeBench, tmp_path: Path
) -> None:
    out = tmp_path / "pwned"
    with Loopback(WAITS, END) as server, Loopback(END) as evil:
        b = paid(bench(), server.url)
        job = killed_at_work(b, server)
        request: Json = json.loads((job.inflight / "1.request").read_text())
        request["work"]["sandbox"]["mode"] = "off"
        request["model"]["endpoint"] = evil.url
        shutil.rmtree(job.inflight / "run")
        (job.inflight / "1.tools").unlink()
        (job.inflight / "1.request").write_text(json.dumps(request))
        command = json.dumps({"command": f"touch {out}"})
        planted = Reply(finish="tool_calls", calls=(Call(id="a", name="execute_command", arguments=command),))
        (job.inflight / "1.response").write_text(json.dumps(planted.model_dump(mode="json")))
        b.step()
    assert not out.exists()
    assert evil.requests == []
    assert kinds(b)[-1] is Kind.RECOVER


@pytest.mark.deep
def test_a_canceled_answer_is_not_gone_on_with_after_a_rerun(bench: MakeBench) -> None:
    with Loopback(WAITS, END) as server:
        b = paid(bench(), server.url)
        job = killed_at_work(b, server)
        os.rename(job.git_dir, job.path / "away")
        record_decision(b.project, "j", Kind.CANCEL)  # what is in flight can't be recorded, and stays
        os.rename(job.path / "away", job.git_dir)
        rerun_job(b.project, "j")
        b.step()
        result = b.step()
    assert [message["role"] for message in server.requests[-1].body["messages"]] == ["system", "user"]
    assert result.state.status is Status.REVIEW_REQUIRED


@pytest.mark.deep
def test_a_refusal_is_not_lost_by_a_decision(bench: MakeBench) -> None:
    with Loopback(WAITS, END) as server:
        b = paid(bench(), server.url)
        job = killed_at_work(b, server)
        refusal = {
            "kind": "tool",
            "tool": "x",
            "role": "Worker",
            "missing": [],
            "message": "not for the role",
        }
        result = {"id": "call_0", "name": "x", "content": "refused", "error": True}
        work = {"results": [result], "refusals": [refusal], "seconds": 0.0, "redactions": 0}
        (job.inflight / "1.tools").write_text(json.dumps(work))  # killed before it could say how it ends
        record_decision(b.project, "j", Kind.SUSPEND)
    entry = b.history()[1]
    assert entry.kind is Kind.ASK
    assert entry.after.stuck is not None
    assert entry.after.stuck.kind is StuckKind.PERMISSION


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("command", ["mkfifo p", "truncate -s 1100M p", "touch p"])
def test_a_breach_is_found_again_after_a_crash(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    recorded = Session.record
    crashes = [True]

    def crashing(session: Session, *entries: Interaction, **more: Any) -> list[Interaction]:
        if crashes and any(entry.kind is Kind.ASK for entry in entries):
            crashes.clear()
            raise KeyboardInterrupt
        return recorded(session, *entries, **more)

    with Loopback(turn(call("execute_command", command=command)), END) as server:
        b = paid(bench(), server.url)
        role(b, "Worker", SHELL)
        b.create()
        monkeypatch.setattr(Session, "record", crashing)
        with pytest.raises(KeyboardInterrupt):
            b.step()
        result = b.step()
    assert result.state.place.stuck is not None
    assert result.state.place.stuck.kind is StuckKind.PERMISSION
    assert not os.path.lexists(b.project.open_job("j").workspace / "p")


@pytest.mark.deep
def test_turns_of_a_breach_are_not_gone_on_from(bench: MakeBench) -> None:
    steps = [turn(call("execute_command", command="touch q")), {"status": 400, "message": "no"}]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url)
        role(b, "Worker", SHELL)
        b.create()
        assert b.step().state.status is Status.STUCK
        record_decision(b.project, "j", Kind.RESUBMIT)
        server.steps = [END]
        b.step()
    assert [message["role"] for message in server.requests[-1].body["messages"]] == ["system", "user"]


@pytest.mark.deep
@pytest.mark.parametrize("status", [400, 401])
def test_turns_before_a_refusal_of_the_provider_are_kept(bench: MakeBench, status: int) -> None:
    with Loopback(*DOUBT[:2], {"status": status, "message": "no"}) as server:
        b = paid(bench(), server.url)
        b.create()
        assert b.step().exit_code == 6
        server.steps = [END]
        b.step()
    assert len(server.requests) == 4
    assert [m["role"] for m in server.requests[3].body["messages"]].count("tool") == 2


def test_turns_of_an_earlier_version_are_gone_on_from(bench: MakeBench) -> None:
    """Its model has no field that came later; the same model is asked."""
    with Loopback(*DOUBT[:2], {"status": 400, "message": "no"}) as server:
        b = paid(bench(), server.url)
        b.create()
        assert b.step().exit_code == 6
        (file,) = b.project.open_job("j").logs.glob("*.kept.json")
        kept = json.loads(file.read_bytes())
        assert kept["envelope"]["model"].pop("context_window") is None
        file.write_text(json.dumps(kept), "utf-8")
        server.steps = [END]
        b.step()
    assert len(server.requests) == 4
    assert [m["role"] for m in server.requests[3].body["messages"]].count("tool") == 2


@pytest.mark.deep
def test_what_a_steward_allowed_ends_with_the_step(bench: MakeBench) -> None:
    asks = turn(call("execute_command", command="touch made.txt"))
    with Loopback(asks, asks, END, asks) as server:
        b = paid(bench(), server.url, tools={"require_approval": ["execute_command"]})
        b.create()
        b.step()
        record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(allow=["execute_command"]))
        assert b.step().state.status is Status.REVIEW_REQUIRED
        reviewed = b.step()
    assert reviewed.state.place.stuck is not None
    assert "needs a steward's approval" in reviewed.state.place.stuck.reason
