"""Agent programs as workers: a real process, confined, read when it has ended, and judged like any answer.

These programs make no requests, so they work without the gate; `test_gate.py` has those that do.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from logist.agents import sandbox
from logist.agents.courier import errand
from logist.agents.courier.errand import ProgramErrand
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.protocol import Ask
from logist.agents.workplace import Workplace
from logist.config import trust
from logist.config.layering import USER_KEYS
from logist.config.settings import load_settings
from logist.core.model import (
    ErrorKind,
    Model,
    Permissions,
    Provider,
    Reply,
    Request,
    Status,
    StuckKind,
    TransportError,
)
from logist.core.money import money
from logist.core.step.step import StepPlan
from logist.errors import InvalidFile, Refused
from logist.jobs.turn.next_request import Choice, preview_request
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
    whole = {
        **settings.model_dump(mode="json"),
        "agents": {"fake": described},
        "agent": "fake",
        "gate": "off",
    }
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
    workspace = b.project.open_job("j").workspace
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
    archived = json.loads((b.project.open_job("j").logs / "000002.turns.jsonl").read_text())
    assert json.loads(archived["stdout"])["id"] == "s-1"
    assert not [
        name for name, data in b.files().items() if KEY.encode() in data and not name.startswith("workspace/")
    ]


def test_a_program_that_claims_what_it_did_not_do(bench: MakeBench) -> None:
    b = made(bench)
    b.step()
    assert b.history()[-1].response.warnings == [
        (
            "the reported cost, $0.50, is not the cost by the prices of grok-code-fast-1, $0.0007, which is recorded:"
            " check these prices"
        ),
        "evidence file not found: made.txt",
    ]


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(
    ("body", "seconds", "kind", "code"),
    [
        ("sys.exit('connection refused')", 60, ErrorKind.REFUSED, 6),
        ("sys.exit('401 unauthorized: invalid api key')", 60, ErrorKind.AUTH, 6),
        ("sys.exit('429 too many requests')", 60, ErrorKind.TRANSIENT, 6),
        ("sys.exit('error: unknown option --model')", 60, ErrorKind.BAD_REQUEST, 6),
        ("os.kill(os.getpid(), 9)", 60, ErrorKind.TRANSIENT, 6),
        ("time.sleep(300)", 2, ErrorKind.TIMEOUT, 6),
    ],
)
def test_how_a_program_fails(bench: MakeBench, body: str, seconds: int, kind: ErrorKind, code: int) -> None:
    b = made(bench, body)
    b.change(settings=b.project.settings.model_copy(update={"agent_timeout_minutes": seconds / 60}))
    result = b.step()
    error = b.history()[-1].response.error
    assert error is not None
    assert (error.kind, result.exit_code) == (kind, code)
    assert result.state.status is Status.PENDING


@pytest.mark.deep
def test_a_rejected_command_line_takes_no_attempt_and_costs_nothing(bench: MakeBench) -> None:
    b = made(bench, "sys.exit('error: unknown option --model')")
    for _ in range(4):
        result = b.step()
        assert result.exit_code == 6
    assert (result.state.status, result.state.place.attempts) == (Status.PENDING, 0)
    assert result.state.usage.cumulative_cost == result.state.usage.cumulative_cost_microcents == 0
    assert result.state.reason == "no answer: it rejected its command line: error: unknown option --model"


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
    assert (error.kind, result.exit_code, result.state.place.attempts) == (ErrorKind.BAD_REQUEST, 6, 0)
    assert "no-such-program-anywhere" in error.message
    assert b.history()[-1].usage.cost_cents == 0


READ_ONLY = Permissions(can_read_files=True)
SHELL = Permissions(can_read_files=True, can_execute_commands=True)


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("may", [READ_ONLY, SHELL])
def test_what_a_program_may_not_change_is_undone(bench: MakeBench, may: Permissions) -> None:
    tries = [WRITES, 'pathlib.Path("kept.txt").unlink()', 'os.symlink("/etc", "there")']
    body = "\n".join(f"try: {line}\nexcept OSError: pass" for line in tries)
    b = made(bench, body, read_only_argv=["--read-only"])
    role(b, "Worker", may)
    workspace = b.project.open_job("j").workspace
    (workspace / "kept.txt").write_text("kept")
    result = b.step()
    left = {path.name for path in workspace.iterdir() if path.name != ".git"}
    assert left == {"kept.txt"}
    if may.can_execute_commands:  # the workspace could be written to, and was
        assert result.state.place.stuck is not None
        assert result.state.place.stuck.kind is StuckKind.PERMISSION
    argv = json.loads(next(b.project.open_job("j").logs.glob("*.turns.jsonl")).read_text())["argv"]
    assert ("--read-only" in argv) is (may is READ_ONLY)


@pytest.mark.deep
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
    git = b.project.open_job("j").workspace / ".git"
    assert (git / "hooks" / "pre-commit").exists()
    program(b, 'import subprocess; subprocess.run(["git", "status"])')
    b.step()
    assert not (git / "hooks").exists()
    assert "fsmonitor" not in (git / "config").read_text()
    assert not (git.parent / "hooked").exists()


@pytest.mark.deep
def test_a_killed_courier_leaves_a_doubt_and_no_process(bench: MakeBench) -> None:
    with Loopback({"text": command()}) as server:
        b = program(paid(bench(), server.url), f"{WRITES}; time.sleep(299)")
        b.create()
        whole = b.project.settings.model_dump(mode="json", exclude_none=True)
        said = {name: value for name, value in whole.items() if name not in USER_KEYS} | {"agent": "fake"}
        (b.project.home / "config.yaml").write_text(json.dumps(said), "utf-8")
        user = b.project.home.parent / "user" / "logist"
        trust.read_trust(user, b.project.home, load_settings(b.project.home, user)).allow_claims()
        stepper = step_as_process(b, XDG_CONFIG_HOME=str(user.parent))
        workspace = b.project.open_job("j").workspace
        waiting_for((workspace / "made.txt").exists)
        holder = b.project.open_job("j").find_lock_holder()
        assert holder is not None
        assert holder.courier is not None
        os.kill(holder.courier.pid, signal.SIGKILL)
        stepper.wait()
        b.step()
    state = b.state()
    assert state.place.stuck is not None
    assert state.place.stuck.kind is StuckKind.IN_DOUBT
    assert not (workspace / "made.txt").exists()
    script = str(b.project.home.parent / "agent.py")
    assert not [line for line in processes() if script in line]


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("mode", ["auto", "required", "off"])
def test_a_machine_without_a_sandbox(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch, mode: Literal["auto", "required", "off"]
) -> None:
    monkeypatch.setattr(
        sandbox, "detect_sandbox", lambda: sandbox.Means("none", ("bubblewrap: not installed",))
    )
    b = made(bench, WRITES)
    rules = b.project.settings.sandbox.model_copy(update={"mode": mode})
    b.change(settings=b.project.settings.model_copy(update={"sandbox": rules}))
    if mode == "required":
        with pytest.raises(Refused, match="no sandbox available, but the config requires one"):
            b.step()
        assert len(b.history()) == 1
    else:
        assert b.step().state.status is Status.REVIEW_REQUIRED
    assert any(
        "no sandbox available: the agent's commands run with your permissions" in line for line in b.said
    ) is (mode == "auto")


def test_no_program_is_started_where_its_processes_could_not_be_ended(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = made(bench, WRITES)
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Refused, match="run only on Linux"):
        b.step()
    assert len(b.history()) == 1


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(
    ("body", "seconds", "kind", "booked"),
    [
        ("os.kill(os.getpid(), 9)", 60, ErrorKind.TRANSIENT, True),
        ("time.sleep(300)", 2, ErrorKind.TIMEOUT, True),
        ("sys.exit('401 unauthorized: invalid api key')", 60, ErrorKind.AUTH, False),
        ("sys.exit('connection refused')", 60, ErrorKind.REFUSED, False),
    ],
)
def test_a_program_that_was_ended_is_booked_at_what_one_exchange_can_cost(
    bench: MakeBench, body: str, seconds: int, kind: ErrorKind, booked: bool
) -> None:
    b = made(bench, body)
    b.change(settings=b.project.settings.model_copy(update={"agent_timeout_minutes": seconds / 60}))
    _, plan = preview_request(b.project, "j", Choice())
    assert isinstance(plan, StepPlan)
    b.step()
    entry = b.history()[-1]
    assert entry.response.error is not None
    assert entry.response.error.kind is kind
    worst = (
        money.compute_worst_case(plan.model, entry.request.prompt, plan.max_output_tokens) if booked else 0
    )
    assert worst is not None
    spent = money.join_cents(entry.usage.cost_cents, entry.usage.cost_microcents)
    assert (spent, entry.usage.source) == (worst, "worst_case" if booked else "none")
    assert (spent > 0) is booked
    total = b.state().usage
    assert money.join_cents(total.cumulative_cost, total.cumulative_cost_microcents) == worst
    told = "the program reported no usage: " + (
        "recorded the highest possible cost of one exchange" if booked else "no cost recorded"
    )
    assert told in entry.response.warnings


PRICED = Model(name="m", provider_model="p/m", input_price=3.0, output_price=15.0)
ENDED = sandbox.ProgramEnd(status=0, signal=None, how="exited", seconds=1.5)


@dataclass
class ThirdParty:
    """A program of somebody else, whose `read` gives anything, or raises it."""

    gives: Any
    metered: bool = True
    name: str = "odd"
    executable: str = "odd"
    runs: list[Run] = field(default_factory=list)

    def invocation(self, run: Run) -> Invocation:
        self.runs.append(run)
        return Invocation(("odd",), {})

    def read(self, finished: Finished) -> Any:
        if isinstance(self.gives, BaseException):
            raise self.gives
        return self.gives


@pytest.fixture
def ran(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Reply]:
    """What is on disk of a program that ran, and of whose output a third party's `read` made this."""

    def run(gives: Any, *, metered: bool = True, **asked: Any) -> Reply:
        b = bench()
        b.create()
        job = b.project.open_job("j")
        monkeypatch.setattr(errand, "load_errand_program", lambda *_: ThirdParty(gives, metered))
        monkeypatch.setattr(ProgramErrand, "_start_program", lambda *_: ENDED)
        known: Json = {"model": PRICED, "allowance_microcents": 10**9, "reserved_microcents": 10**9}
        ask = Ask(request=Request(prompt="Do it."), role="Worker", agent="odd", **{**known, **asked})
        job.begin_exchange(1, {})
        ProgramErrand(job, ask, KEY, [], Workplace.for_job(job, {})).run()
        return Reply.model_validate(job.read_exchanges()[0].response)

    return run


@pytest.mark.parametrize("gate", [True, False])
def test_a_program_has_a_limit_and_a_key_of_its_own_only_without_a_gate(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch, gate: bool
) -> None:
    """By prices of its own, it would end at another cost than the limit, and as a failure."""
    b = bench()
    b.create()
    job, program = b.project.open_job("j"), ThirdParty(Result(text="Done."))
    monkeypatch.setattr(errand, "load_errand_program", lambda *_: program)
    monkeypatch.setattr(ProgramErrand, "_start_program", lambda *_: ENDED)
    provider = Provider(name="p", base_url="http://127.0.0.1:9/v1", model="m") if gate else None
    ask = Ask(
        request=Request(prompt="Do it."),
        role="Worker",
        agent="odd",
        model=PRICED,
        allowance_microcents=7,
        provider=provider,
    )
    job.begin_exchange(1, {})
    ProgramErrand(job, ask, KEY, [], Workplace.for_job(job, {})).run()
    last = program.runs[-1]
    assert last.allowance_microcents == (None if gate else 7)
    assert (last.api_key == KEY) is not gate
    assert (last.model.endpoint is None) is not gate


def cost(reply: Reply) -> int:
    return money.join_cents(reply.usage.cost_cents, reply.usage.cost_microcents)


WORST = money.compute_worst_case(PRICED, "Do it.", 8192)


@pytest.mark.parametrize(
    ("result", "given", "microcents", "source"),
    [
        (Result(), {}, WORST, "worst_case"),
        (Result(), {"allowance_microcents": 7}, 7, "worst_case"),
        (Result(), {"reserved_microcents": 7}, 7, "worst_case"),
        (Result(), {"allowance_microcents": -7}, 0, "worst_case"),
        (Result(), {"allowance_microcents": None, "reserved_microcents": None}, WORST, "worst_case"),
        (Result(), {"metered": False}, 0, "none"),
        (Result(), {"model": PRICED.model_copy(update={"input_price": None})}, 0, "none"),
        (Result(error=TransportError(kind=ErrorKind.LIMIT, message="m")), {}, WORST, "worst_case"),
        (Result(error=TransportError(kind=ErrorKind.BAD_REQUEST, message="m")), {}, 0, "none"),
        (Result(reported_microcents=5), {}, 5, "provider"),
        (Result(reported_microcents=0), {}, 0, "provider"),
        (Result(spent=Spent()), {}, 0, "provider"),
    ],
)
def test_what_is_booked_for_a_program_that_told_no_usage(
    ran: Callable[..., Reply], result: Result, given: Json, microcents: int, source: str
) -> None:
    reply = ran(result, **given)
    assert (cost(reply), reply.usage.source) == (microcents, source)
    assert (errand.UNTOLD in reply.warnings) is (source == "worst_case")


@pytest.mark.deep
@pytest.mark.parametrize(
    "gives",
    [
        ValueError("half \ud800"),
        RecursionError("deep"),
        SystemExit(3),
        None,
        "text",
        Result(session=7),  # type: ignore[arg-type]
        Result(finish=["stop"]),  # type: ignore[arg-type]
        Result(error="failed"),  # type: ignore[arg-type]
        Result(denials=5),  # type: ignore[arg-type]
        Result(spent=Spent(uncached="1")),  # type: ignore[arg-type]
        Result(spent=Spent(uncached=10**6000)),
        Result(error=TransportError(kind="\ud800", message="m")),
    ],
    ids=lambda gives: type(gives).__name__,
)
def test_output_that_a_third_party_cannot_read_is_told(ran: Callable[..., Reply], gives: Any) -> None:
    reply = ran(gives)
    assert reply.error is not None
    assert reply.error.kind is ErrorKind.BAD_REQUEST
    assert reply.error.message.startswith("can't read the agent's output: ")
    assert (reply.text, reply.session, cost(reply)) == ("", None, 0)
    assert reply.usage.seconds >= 0


def test_the_words_of_a_program_are_clean_and_bounded_before_they_are_kept(ran: Callable[..., Reply]) -> None:
    long = f"{KEY} \ud800 " + "x" * 5000
    reply = ran(Result(session=long, finish=long, error=TransportError(kind=ErrorKind.LIMIT, message=long)))
    assert reply.session is not None
    assert reply.finish is not None
    assert reply.error is not None
    words = (reply.session, reply.finish, reply.error.message)
    assert [len(word) for word in words] == [256, 64, 2000]
    assert all(word.startswith("[redacted] \\ud800 xxx") for word in words)


def test_a_secret_is_taken_out_before_a_message_is_cut(ran: Callable[..., Reply]) -> None:
    message = "x" * 1990 + KEY
    reply = ran(Result(error=TransportError(kind=ErrorKind.LIMIT, message=message)))
    assert reply.error is not None
    assert KEY[:6] not in reply.error.message
