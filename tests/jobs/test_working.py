"""A model that works with tools: turns, limits, refusals, and couriers that are killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import cast

import pytest

from logist.cli.show.view import entry_lines
from logist.core.model import EVERYTHING, ErrorKind, Kind, Permissions, Role, Status, StuckKind
from logist.core.model.commands import ResubmitCommand
from logist.jobs.steward.steward_decisions import record_decision
from logist.roles import LoadedRole
from tests.jobs.bench import Bench, Json, command
from tests.jobs.conftest import MakeBench
from tests.jobs.test_paid import KEY, configured, paid, step_as_process, waiting_for
from tests.loopback import Loopback

USAGE = {"input": 100, "output": 10}
LONG = f"sleep 301.{os.getpid()}"
"""A command that no other process of this machine has, not even another run of the tests."""


def call(name: str, **arguments: object) -> Json:
    return {"name": name, "args": arguments}


def turn(*calls: Json, text: str = "", **more: object) -> Json:
    return {"text": text, "calls": list(calls), "usage": USAGE, **more}


END: Json = {"text": command(evidence_files=["made.txt"]), "usage": USAGE}


def role(b: Bench, name: str, permissions: Permissions, **more: object) -> None:
    """Gives a role of the bench these permissions."""
    known = b.project.roles.by_name[name]
    changed = known.role.model_copy(update={"permissions": permissions, **more})
    by_name = cast("dict[str, LoadedRole]", b.project.roles.by_name)  # the bench has loaded all
    by_name[name] = LoadedRole(Role.model_validate(changed.model_dump()), known.path)


def transcript(b: Bench, sequence: int) -> list[Json]:
    path = b.project.open_job("j").logs / f"{sequence:06d}.turns.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_model_works_with_tools_until_it_ends(bench: MakeBench) -> None:
    steps = [
        turn(call("create_file", path="made.txt", content="one\n"), text="I make it."),
        turn(call("edit_file", path="made.txt", old="one", new="two"), call("read_file", path="made.txt")),
        turn(call("execute_command", command="wc -c < made.txt")),
        END,
    ]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url)
        b.create()
        result = b.step()
    assert result.state.status is Status.REVIEW_REQUIRED
    assert (b.project.open_job("j").workspace / "made.txt").read_text() == "two\n"
    entry = b.history()[-1]
    assert entry.response.tools == {"create_file": 1, "edit_file": 1, "execute_command": 1, "read_file": 1}
    assert (entry.usage.input_tokens, entry.usage.output_tokens) == (400, 40)
    assert [change.path for change in entry.observed.changes] == ["made.txt"]  # type: ignore[union-attr]
    offered = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
    assert offered == entry.request.metadata["tools"]
    assert "execute_command" in offered
    told = server.requests[3].body["messages"]
    assert [message["role"] for message in told] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "tool", "assistant", "tool"),
    ]
    assert "two" in told[6]["content"]
    assert "4" in told[-1]["content"]
    lines = transcript(b, 2)
    assert [line["calls"][0]["name"] if line["calls"] else None for line in lines] == [
        *("create_file", "edit_file", "execute_command", None),
    ]
    assert not b.project.open_job("j").inflight.exists()


def test_what_a_provider_sends_with_a_call_goes_back_with_it_without_secrets(bench: MakeBench) -> None:
    def event(**extra: object) -> str:
        function = {"name": "list_files", "arguments": "{}"}
        delta = {"tool_calls": [{"index": 0, "id": "c", "function": function, **extra}]}
        frame = {"choices": [{"delta": delta, "finish_reason": "tool_calls"}]}
        return f"data: {json.dumps(frame)}\n\ndata: [DONE]\n\n"

    signed = {"google": {"thought_signature": "CiQB0e2Kb/+="}}
    raw = [event(extra_content=signed), event(extra_content={"google": {"thought_signature": KEY}}), event()]
    steps = [{"raw": each, "type": "text/event-stream"} for each in raw]
    with Loopback(*steps, END) as server:
        b = paid(bench(), server.url)
        b.create()
        b.step()
    messages = server.requests[3].body["messages"]
    calls = [message["tool_calls"][0] for message in messages if message["role"] == "assistant"]
    assert [call.get("extra_content") for call in calls] == [signed, None, None]
    assert not [name for name, data in b.files().items() if KEY.encode() in data]


def test_a_tool_error_goes_back_to_the_model(bench: MakeBench) -> None:
    steps = [
        turn(call("read_file", path="../../state.json"), {"name": "read_file", "args": "{nonsense"}),
        END,
    ]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url)
        b.create()
        result = b.step()
    assert result.state.status is Status.REVIEW_REQUIRED
    answers = [m["content"] for m in server.requests[1].body["messages"] if m["role"] == "tool"]
    assert len(answers) == 2
    assert "revision" not in answers[0]
    assert b.history()[-1].observed.refusals == []  # type: ignore[union-attr]


def test_completed_without_any_change_is_said_to_people_and_to_the_reviewer(bench: MakeBench) -> None:
    failing = call("edit_file", path="made.txt", old="one", new="two")
    steps = [
        turn(failing, failing, call("list_directory"), call("execute_command", command="exit 3")),
        turn(call("execute_command", command="true")),
        {**END, "text": command()},
        {**END, "text": command("RETRY", summary="Nothing was done.")},
        turn(call("create_file", path="made.txt", content="one\n")),
        END,
    ]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url)
        b.create()
        b.step()
        entry = b.history()[-1]
        assert entry.response.tools == {"edit_file": 2, "execute_command": 2, "list_directory": 1}
        assert entry.response.tools_failed == {"edit_file": 2, "execute_command": 1}
        assert entry.observed is not None
        assert entry.observed.unchanged
        assert b.state().unchanged
        lines = [line for line in entry_lines(entry) if isinstance(line, str)]
        assert "   tools: edit_file x 2 (2 failed), execute_command x 2 (1 failed), list_directory" in lines
        assert "   no files changed" in lines
        b.step()
        assert "## The last run changed no file" in b.history()[-1].request.prompt
        b.step()
    entry = b.history()[-1]
    assert (entry.response.tools_failed, entry.observed and entry.observed.unchanged) == (None, None)
    assert b.state().unchanged is None
    assert not any("no files changed" in line for line in entry_lines(entry) if isinstance(line, str))


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(
    ("permissions", "steps", "unchanged"),
    [
        (Permissions(can_read_files=True, can_execute_commands=True), [], None),
        (Permissions(can_read_files=True, can_create_files=True), [], True),
        (
            EVERYTHING,
            [turn(call("execute_command", command="mkdir node_modules; echo > node_modules/x"))],
            True,
        ),
        (EVERYTHING, [turn(call("create_file", path="x", content="x"))], None),
    ],
)
def test_a_role_that_may_not_change_files_need_not(
    bench: MakeBench, permissions: Permissions, steps: list[Json], unchanged: bool | None
) -> None:
    with Loopback(*steps, {**END, "text": command()}) as server:
        b = paid(bench(), server.url)
        role(b, "Worker", permissions)
        b.create()
        b.step()
    entry = b.history()[-1]
    assert entry.observed is not None
    assert (entry.response.actions, entry.observed.unchanged) == (["COMPLETED"], unchanged)


def test_an_answer_given_by_hand_says_nothing_of_when_the_files_were_changed(bench: MakeBench) -> None:
    b = bench()
    b.create()
    b.give(command())
    assert b.state().unchanged is None


READER = Permissions(can_read_files=True)


def test_a_role_is_offered_only_what_it_may_use_and_a_made_up_call_is_refused(bench: MakeBench) -> None:
    steps = [
        turn(call("list_directory"), call("create_file", path="x", content="x"), call("list_directory")),
        END,
    ]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url)
        role(b, "Worker", READER)
        b.create()
        result = b.step()
    assert len(server.requests) == 1  # never retried
    assert [tool["function"]["name"] for tool in server.requests[0].body["tools"]] == [
        *("read_file", "list_directory", "search"),
    ]
    stuck = result.state.place.stuck
    assert stuck is not None
    assert (result.exit_code, stuck.kind) == (3, StuckKind.PERMISSION)
    for word in ("create_file", "Worker", "create_files"):
        assert word in stuck.reason
    assert not (b.project.open_job("j").workspace / "x").exists()
    results = transcript(b, 2)[0]["tools"]["results"]
    assert [each["error"] for each in results] == [False, True, True]
    prompt = server.requests[0].body["messages"][0]["content"]
    assert "You may not change files, create files, delete files or run commands" in prompt


def test_a_model_that_calls_an_unknown_tool_reads_the_error_and_goes_on(bench: MakeBench) -> None:
    steps = [
        turn(call("apply patch", patch="x")),
        turn(call("create_file", path="made.txt", content="x")),
        END,
    ]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url)
        b.create()
        result = b.step()
    assert result.state.status is Status.REVIEW_REQUIRED
    assert (b.project.open_job("j").workspace / "made.txt").exists()
    asked, answer = server.requests[1].body["messages"][-2:]
    assert asked["tool_calls"][0]["function"]["name"] == "apply_patch"  # providers refuse the space
    assert answer["content"].startswith("error: unknown tool: apply patch; your tools are: read_file, ")
    entry = b.history()[-1]
    assert entry.response.tools_failed == {"apply patch": 1}
    assert entry.observed is not None
    assert entry.observed.refusals == []


@pytest.mark.parametrize(("tools", "requests"), [({}, 5), ({"max_unknown_calls": 2}, 2)])
def test_a_model_that_keeps_calling_unknown_tools_is_stuck(
    bench: MakeBench, tools: Json, requests: int
) -> None:
    with Loopback(turn(call("bash", command="ls"))) as server:
        b = paid(bench(), server.url, tools=tools)
        b.create()
        result = b.step()
    assert len(server.requests) == requests
    assert result.state.place.stuck is not None
    assert (result.exit_code, result.state.place.stuck.kind) == (3, StuckKind.AGENT)
    assert result.state.reason.endswith("the agent kept calling tools that don't exist")
    assert b.history()[-1].usage.input_tokens == 100 * requests


def test_what_a_shell_changes_is_undone_and_stops_the_job(bench: MakeBench) -> None:
    script = "echo changed > kept.txt; rm -f gone.txt; echo new > new.txt; chmod +x mode.sh; ln -s /etc made"
    with Loopback(turn(call("execute_command", command=script)), END) as server:
        b = paid(bench(), server.url)
        role(b, "Worker", Permissions(can_read_files=True, can_execute_commands=True))
        b.create()
        workspace = b.project.open_job("j").workspace
        for name in ("kept.txt", "gone.txt", "mode.sh"):
            (workspace / name).write_text(f"{name}\n")
        result = b.step()
        entry = b.history()[-1]
    assert result.state.place.stuck is not None
    assert result.state.place.stuck.kind is StuckKind.PERMISSION
    assert {p.name: p.read_text() for p in workspace.iterdir() if p.name != ".git"} == {
        name: f"{name}\n" for name in ("kept.txt", "gone.txt", "mode.sh")
    }
    assert not os.access(workspace / "mode.sh", os.X_OK)
    observed = entry.observed
    assert observed is not None
    assert {(r.change, r.path, r.missing[0], r.undone) for r in observed.refusals} == {
        ("modified", "kept.txt", "write_files", True),
        ("deleted", "gone.txt", "delete_files", True),
        ("created", "new.txt", "create_files", True),
        ("mode", "mode.sh", "write_files", True),
        ("created", "made", "create_files", True),
    }
    assert len(observed.changes) == 5
    assert observed.found not in (None, entry.checkpoint_after)


def test_the_last_turn_has_no_tools_and_calls_in_it_stop_the_job(bench: MakeBench) -> None:
    with Loopback(turn(call("list_directory"))) as server:
        b = paid(bench(), server.url, tools={"max_turns": 3})
        b.create()
        result = b.step()
    assert len(server.requests) == 3
    assert [r.body["tool_choice"] for r in server.requests] == ["auto", "auto", "none"]
    assert "any more tools" in server.requests[2].body["messages"][-1]["content"]
    assert result.state.place.stuck is not None
    assert result.state.place.stuck.kind is StuckKind.AGENT
    assert "last turn" in result.state.reason
    assert b.history()[-1].usage.input_tokens == 300


BIG = turn(call("execute_command", command="head -c 20000 /dev/zero | tr '\\0' x"))


def dearly_paid(b: Bench, url: str) -> Bench:
    """A model of which the job can afford a few turns as long as BIG."""
    b = paid(b, url)
    price = {"input_price": 10.0, "output_price": 10.0}
    models = {name: m.model_copy(update=price) for name, m in b.project.settings.models.items()}
    b.change(settings=b.project.settings.model_copy(update={"models": models}))
    b.create(limits={"cost_threshold": 60})
    return b


def test_the_cost_limit_stands_before_each_turn(bench: MakeBench) -> None:
    with Loopback(BIG) as server:
        b = dearly_paid(bench(), server.url)
        result = b.step()
    assert 1 < len(server.requests) < 20
    assert (result.state.status, result.exit_code) == (Status.HALTED_COST, 7)
    assert result.state.usage.cumulative_cost <= 60
    error = b.history()[-1].response.error
    assert error is not None
    assert error.kind is ErrorKind.LIMIT


@pytest.mark.deep
def test_a_tool_that_needs_approval_waits_for_the_steward(bench: MakeBench) -> None:
    steps = [
        turn(call("execute_command", command="touch made.txt")),
        turn(call("execute_command", command="touch made.txt")),
        END,
    ]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url, tools={"require_approval": ["execute_command"]})
        b.create()
        refused = b.step()
        assert refused.state.place.stuck is not None
        assert (
            "needs a steward's approval (job resubmit --allow execute_command)"
            in refused.state.place.stuck.reason
        )
        assert not (b.project.open_job("j").workspace / "made.txt").exists()
        record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(allow=["execute_command"]))
        done = b.step()
    assert done.state.status is Status.REVIEW_REQUIRED
    assert (b.project.open_job("j").workspace / "made.txt").exists()


@pytest.mark.deep
def test_a_courier_killed_between_turns_keeps_what_was_paid(bench: MakeBench) -> None:
    steps = [
        *(turn(call("create_file", path=f"{number}.txt", content="x")) for number in range(7)),
        turn(call("execute_command", command=f"touch started; {LONG}")),
        END,
    ]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url)
        b.create()
        stepper = step_as_process_of(b, server)
        workspace = b.project.open_job("j").workspace
        waiting_for((workspace / "started").exists)
        holder = b.project.open_job("j").find_lock_holder()
        assert holder is not None
        assert holder.courier is not None
        os.kill(holder.courier.pid, signal.SIGKILL)
        assert stepper.wait() == 6
        assert len(server.requests) == 8
        assert len(b.history()) == 1
        result = b.step()
    assert len(server.requests) == 9  # seven turns were not paid again, nor the eighth
    assert result.state.status is Status.REVIEW_REQUIRED
    last = server.requests[8].body["messages"][-1]
    assert last["role"] == "tool"
    assert "may be done, partly done or not done" in last["content"]
    assert b.history()[-1].usage.input_tokens == 900
    assert not [line for line in processes() if LONG in line]


@pytest.mark.deep
def test_a_decision_on_a_half_done_answer_books_it(bench: MakeBench) -> None:
    steps = [turn(call("execute_command", command=f"touch started; {LONG}")), END]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url)
        b.create()
        stepper = step_as_process_of(b, server)
        workspace = b.project.open_job("j").workspace
        waiting_for((workspace / "started").exists)
        result = record_decision(b.project, "j", Kind.CANCEL, ends_agent=True)
        stepper.wait()
    assert result.state.status is Status.CANCELED
    kinds = [entry.kind for entry in b.history()]
    assert kinds == [Kind.CREATE, Kind.RECOVER, Kind.CANCEL]
    assert b.history()[1].usage.input_tokens == 100
    assert not (workspace / "started").exists()
    assert not [line for line in processes() if LONG in line]


def step_as_process_of(b: Bench, server: Loopback) -> subprocess.Popen[bytes]:
    configured(b, server)
    return step_as_process(b)


def processes() -> list[str]:
    """The command lines of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return found


@pytest.mark.deep
@pytest.mark.parametrize("says", ["retry", "assume_paid"])
def test_turns_before_a_doubt_are_kept_and_gone_on_from(bench: MakeBench, says: str) -> None:
    with Loopback(*DOUBT) as server:
        b = stuck_in_turn_three(paid(bench(), server.url), server)
        record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt=says))
        server.steps = [END]
        result = b.step()
    assert len(server.requests) == 4  # turns one and two were not asked for again
    assert [m["role"] for m in server.requests[3].body["messages"]].count("tool") == 2
    assert result.state.status is Status.REVIEW_REQUIRED
    workspace = b.project.open_job("j").workspace
    assert (workspace / "made.txt").read_text() == "two"
    recover, _, answer = b.history()[1:]
    assert recover.command["turns_kept"] == 2
    assert (recover.usage.input_tokens, answer.usage.input_tokens) == (200, 100)
    assert [change.path for change in answer.observed.changes] == ["made.txt"]  # type: ignore[union-attr]


@pytest.mark.deep
@pytest.mark.parametrize("changed", ["note", "file", "spec", "role"])
def test_after_a_doubt_what_has_changed_starts_anew(bench: MakeBench, changed: str) -> None:
    note = "Mind the tests." if changed == "note" else None
    with Loopback(*DOUBT) as server:
        b = stuck_in_turn_three(paid(bench(), server.url), server)
        if changed == "file":
            (b.project.open_job("j").workspace / "mine.txt").write_text("mine")
        if changed == "spec":
            b.project.open_job("j").spec_file.write_text("prompt: Something else.\n")
        if changed == "role":
            role(b, "Worker", Permissions(can_read_files=True))
        record_decision(b.project, "j", Kind.RESUBMIT, command=ResubmitCommand(doubt="retry"), note=note)
        server.steps = [END]
        b.step()
    sent = server.requests[3].body["messages"]
    assert [m["role"] for m in sent] == ["system", "user"]
    assert not (b.project.open_job("j").workspace / "made.txt").exists()
    assert (b.project.open_job("j").workspace / "mine.txt").exists() is (changed == "file")


@pytest.mark.deep
def test_turns_before_a_failure_of_the_provider_are_kept(bench: MakeBench) -> None:
    steps = [*DOUBT[:2], {"status": 503, "message": "overloaded"}, END]
    with Loopback(*steps) as server:
        b = paid(bench(), server.url, retries={"max_tries": 1, "backoff_seconds": 100})
        b.create()
        failed = b.step()
        assert (failed.exit_code, failed.state.place.attempts, failed.entries) == (6, 0, ())
        assert b.step().wait == failed.wait  # not due yet: nothing is sent
        assert len(server.requests) == 3
        result = b.step(provider_wait=600)
    assert len(server.requests) == 4
    assert result.state.status is Status.REVIEW_REQUIRED
    assert [m["role"] for m in server.requests[3].body["messages"]].count("tool") == 2
    assert result.state.usage.input_tokens == 300
    assert (b.project.open_job("j").workspace / "made.txt").read_text() == "two"


@pytest.mark.deep
def test_turns_before_the_cost_limit_are_kept(bench: MakeBench) -> None:
    with Loopback(BIG) as server:
        b = dearly_paid(bench(), server.url)
        assert b.step().state.status is Status.HALTED_COST
        paid_for = len(server.requests)
        spec = b.project.open_job("j").spec_file
        spec.write_text(spec.read_text().replace("60", "600"))
        record_decision(b.project, "j", Kind.RESUME)
        server.steps = [END]
        result = b.step()
    assert len(server.requests) == paid_for + 1
    assert result.state.status is Status.REVIEW_REQUIRED
    assert len(server.requests[-1].body["messages"]) == 2 + 2 * paid_for


DOUBT = [
    turn(call("create_file", path="made.txt", content="one")),
    turn(call("edit_file", path="made.txt", old="one", new="two")),
    {**END, "delay": 300},
]


def stuck_in_turn_three(b: Bench, server: Loopback) -> Bench:
    """A courier was killed while the model was at work on turn three."""
    b.create()
    stepper = step_as_process_of(b, server)
    server.wait_for(3)
    holder = b.project.open_job("j").find_lock_holder()
    assert holder is not None
    assert holder.courier is not None
    os.kill(holder.courier.pid, signal.SIGKILL)
    stepper.wait()
    b.step()
    stuck = b.state().place.stuck
    assert stuck is not None
    assert stuck.kind is StuckKind.IN_DOUBT
    assert not (b.project.open_job("j").workspace / "made.txt").exists()
    return b
