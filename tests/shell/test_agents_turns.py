"""The turns of a model that works with tools: what comes next, what it may cost, and how its tools are used."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from logist.agents.courier import toolbox
from logist.agents.courier.tool_turns import AskProgress, Next, plan_next_exchange
from logist.agents.courier.toolbox import (
    INTERRUPTED,
    MOST_CALLS,
    NOT_RUN,
    TOO_MANY,
    Toolbox,
    end_by_fault,
    end_for_unknown_tools,
    end_out_of_turns,
)
from logist.agents.protocol import LAST_TURN, AgentWork, Ask, ToolTurn
from logist.agents.tools import Context, ToolOutcome
from logist.agents.workplace import Workplace
from logist.config.working import ToolRules
from logist.core.model import Call, JsonObject, Model, Refusal, Reply, Request, Usage
from logist.core.money import money
from logist.store import Exchange

MODEL = Model(name="m", provider_model="openai/m", input_price=3.0, output_price=15.0)
AMPLE = 10**12


def ask(*, max_turns: int = 60, tools: tuple[str, ...] = ("read_file",), **more: Any) -> Ask:
    work = AgentWork(tools=tools, rules=ToolRules(max_turns=max_turns))
    given: JsonObject = {"max_output_tokens": 4000, "reserved_microcents": 77, "allowance_microcents": AMPLE}
    return Ask(request=Request(prompt="Do it."), model=MODEL, role="Worker", work=work, **given | more)


def turn(size: int = 10) -> ToolTurn:
    call = Call(id="a", name="read_file", arguments="{}")
    return ToolTurn("I look.", (call,), [{"id": "a", "content": "x" * size}])


def following(asked: Ask, turns: Sequence[ToolTurn], spent: int = 0) -> Next:
    found = plan_next_exchange(asked, turns, spent)
    assert found is not None
    return found


# -- the next exchange


def test_the_first_exchange_is_as_it_was_planned() -> None:
    found = following(ask(allowance_microcents=5), [])
    assert (found.reserved_microcents, found.sending.max_output_tokens) == (77, 4000)
    assert [message["role"] for message in found.sending.messages] == ["user"]
    assert [tool["function"]["name"] for tool in found.sending.tools] == ["read_file"]
    assert found.sending.may_call


def test_the_worst_case_grows_with_the_conversation_and_covers_it() -> None:
    asked = ask()
    worst = []
    for count in range(1, 6):
        found = following(asked, [turn(1000)] * count)
        assert found.reserved_microcents is not None
        worst.append(found.reserved_microcents)
        size = len(json.dumps([found.sending.messages, found.sending.tools]))
        dearest = money.compute_cost(MODEL, size // 4, found.sending.max_output_tokens)
        assert dearest is not None
        assert found.reserved_microcents > dearest
    assert worst == sorted(set(worst))


@pytest.mark.parametrize("spent", [0, 1_000_000, 5_000_000, 20_000_000])
def test_what_is_spent_and_the_worst_case_stay_within_the_allowance(spent: int) -> None:
    asked = ask(allowance_microcents=8_000_000, min_output_tokens=100)
    found = plan_next_exchange(asked, [turn()], spent)
    if spent >= 8_000_000:
        assert found is None
    else:
        assert found is not None
        assert found.reserved_microcents is not None
        assert spent + found.reserved_microcents <= 8_000_000
        assert 100 <= found.sending.max_output_tokens <= 4000


def test_less_output_than_the_least_is_not_asked_for() -> None:
    worst = following(ask(), [turn()]).reserved_microcents
    assert worst is not None
    just = ask(allowance_microcents=worst, min_output_tokens=4000)
    assert plan_next_exchange(just, [turn()], 0) is not None
    assert plan_next_exchange(just, [turn()], 1) is None
    lower = replace(just, min_output_tokens=2048)
    assert following(lower, [turn()], 1).sending.max_output_tokens < 4000


def test_an_unknown_price_sets_no_limit() -> None:
    found = following(ask(allowance_microcents=None, reserved_microcents=None), [turn()], 10**15)
    assert (found.reserved_microcents, found.sending.max_output_tokens) == (None, 4000)


@pytest.mark.parametrize(
    ("max_turns", "turns", "may_call", "told"),
    [
        (3, 0, True, False),
        (3, 1, True, False),
        (3, 2, False, True),
        (1, 0, False, False),
        (2, 1, False, True),
    ],
)
def test_in_its_last_turn_a_model_may_call_nothing_and_is_told(
    max_turns: int, turns: int, may_call: bool, told: bool
) -> None:
    sending = following(ask(max_turns=max_turns), [turn()] * turns).sending
    assert sending.may_call is may_call
    assert (sending.messages[-1] == {"role": "user", "content": LAST_TURN}) is told


# -- how far an ask has come


def replied(*calls: Call) -> JsonObject:
    usage = Usage(cost_cents=1, cost_microcents=5, seconds=2.0)
    return Reply(text="t", calls=calls, usage=usage).model_dump(mode="json")


def results(count: int, **more: Any) -> JsonObject:
    told = [{"id": "a", "name": "x", "content": "done", "error": False}] * count
    return {"results": told, "refusals": [], "seconds": 0.5, "redactions": 0, **more}


def test_progress_is_what_the_files_tell() -> None:
    one, two = Call(id="a", name="x", arguments=""), Call(id="b", name="y", arguments="")
    over, half = results(1, end=None), results(1, running="b")
    first = Exchange(1, {}, True, replied(one), over)
    assert AskProgress.from_exchanges([]) == AskProgress([], 0, 0.0, 1, None, None)
    asked = AskProgress.from_exchanges([Exchange(1, {}, False, None)])
    assert (asked.k, asked.reply, asked.turns) == (1, None, [])
    unsent = AskProgress.from_exchanges([first, Exchange(2, {}, False, None)])
    assert (unsent.k, unsent.reply, unsent.done) == (2, None, None)
    assert unsent.turns == [ToolTurn("t", (one,), over["results"])]
    assert (unsent.spent, unsent.seconds) == (1_000_005, 2.5)
    at_work = AskProgress.from_exchanges([first, Exchange(2, {}, True, replied(one, two), half)])
    assert (at_work.k, len(at_work.turns), at_work.done) == (2, 1, half)
    assert at_work.reply is not None
    assert at_work.reply.calls == (one, two)
    assert (at_work.spent, at_work.seconds) == (2_000_010, 5.0)


def test_a_try_that_failed_is_no_turn() -> None:
    one = Call(id="a", name="x", arguments="")
    failed = Reply(usage=Usage(cost_microcents=1)).model_dump(mode="json")
    found = AskProgress.from_exchanges(
        [
            Exchange(1, {}, True, replied(one), results(1, end=None)),
            Exchange(2, {}, True, failed),
            Exchange(3, {"retry_of": 2}, False, None),
        ]
    )
    assert (len(found.turns), found.k, found.reply) == (1, 3, None)
    assert found.spent == 1_000_006


# -- the tools


CHANGING = dict(zip("abc", ("write_file", "delete_file", "execute_command"), strict=True))
CALLS = tuple(Call(id=id_, name=name, arguments="{}") for id_, name in CHANGING.items())
REFUSAL: JsonObject = {"kind": "tool", "message": "not for you"}
FAR = 1e9


@dataclass
class FakeTools:
    """Keeps which tools were run and what had been saved by then."""

    outcomes: dict[str, ToolOutcome] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    saved: list[JsonObject] = field(default_factory=list)
    stops_after: int = 99
    slow: Callable[[], None] = lambda: None

    def run(self, call: Call, context: Context) -> ToolOutcome:
        if call.name in CHANGING.values():
            assert self.saved[-1]["running"] == call.id
        self.ran.append(call.id)
        self.slow()
        return self.outcomes.get(call.id, ToolOutcome(f"result of {call.id}", redactions=1))

    def save(self, work: JsonObject) -> None:
        self.saved.append(json.loads(json.dumps(work)))

    def use(
        self, tmp_path: Path, done: JsonObject | None = None, *, deadline: float = FAR, calls: Any = CALLS
    ) -> JsonObject | None:
        place = Workplace(tmp_path / "workspace", tmp_path / "run", {})
        toolbox = Toolbox(ask(), place, lambda text: (text, 0), self.run)
        return toolbox.run_calls(calls, done, deadline, lambda: len(self.ran) >= self.stops_after, self.save)


def contents(work: JsonObject) -> list[str]:
    return [each["content"] for each in work["results"]]


def test_each_tool_is_saved_before_it_runs_and_after(tmp_path: Path) -> None:
    fake = FakeTools()
    used = fake.use(tmp_path)
    assert used is not None
    assert fake.ran == ["a", "b", "c"]
    assert [(len(work["results"]), work.get("running")) for work in fake.saved] == [
        *((0, "a"), (1, None), (1, "b"), (2, None), (2, "c"), (3, None)),
    ]
    assert not [work for work in fake.saved if "end" in work]
    assert contents(used) == ["result of a", "result of b", "result of c"]
    assert (used["end"], used["redactions"], used["refusals"]) == (None, 3, [])
    assert [each["id"] for each in used["results"]] == ["a", "b", "c"]


def test_a_tool_that_changes_nothing_is_saved_only_after_it_ran_and_may_run_again(tmp_path: Path) -> None:
    names = ("read_file", "list_directory", "search", "create_file")
    calls = tuple(Call(id=name, name=name, arguments="{}") for name in names)
    fake = FakeTools()
    assert fake.use(tmp_path, calls=calls) is not None
    assert [(len(work["results"]), work.get("running")) for work in fake.saved] == [
        *((1, None), (2, None), (3, None), (3, "create_file"), (4, None)),
    ]
    killed_in_search = FakeTools()
    used = killed_in_search.use(tmp_path, fake.saved[1], calls=calls)
    assert used is not None
    assert killed_in_search.ran == ["search", "create_file"]
    assert INTERRUPTED not in contents(used)


@pytest.mark.parametrize("begun", [0, 3, MOST_CALLS])
def test_of_very_many_calls_the_first_are_run_and_the_rest_is_told(tmp_path: Path, begun: int) -> None:
    calls = tuple(Call(id=str(number), name="read_file", arguments="{}") for number in range(500))
    fake = FakeTools()
    used = fake.use(tmp_path, results(begun) if begun else None, calls=calls)
    assert used is not None
    assert MOST_CALLS == 64
    assert fake.ran == [str(number) for number in range(begun, MOST_CALLS)]
    assert len(fake.saved) == MOST_CALLS - begun
    assert contents(used)[MOST_CALLS:] == [TOO_MANY] * (500 - MOST_CALLS)
    assert all(each["error"] for each in used["results"][MOST_CALLS:])
    assert used["end"] is None
    assert "the limit is 64" in TOO_MANY


def test_whatever_was_saved_is_gone_on_with(tmp_path: Path) -> None:
    whole = FakeTools()
    whole.use(tmp_path)
    for saved in whole.saved:
        fake = FakeTools()
        used = fake.use(tmp_path, saved)
        assert used is not None
        begun = len(saved["results"]) + ("running" in saved)
        assert fake.ran == [call.id for call in CALLS[begun:]]
        told = contents(used)
        assert (INTERRUPTED in told) == ("running" in saved)
        assert len(told) == 3
        assert "running" not in used
        assert used["end"] is None
    assert "it may be done, partly done or not done" in INTERRUPTED


def test_the_same_id_twice_is_two_calls(tmp_path: Path) -> None:
    fake = FakeTools()
    used = fake.use(tmp_path, calls=(CALLS[0], CALLS[0]))
    assert used is not None
    assert fake.ran == ["a", "a"]
    assert contents(used) == ["result of a", "result of a"]


def test_a_refusal_ends_it(tmp_path: Path) -> None:
    fake = FakeTools({"b": ToolOutcome("refused: not for you", refusal=Refusal.model_validate(REFUSAL))})
    used = fake.use(tmp_path)
    assert used is not None
    assert fake.ran == ["a", "b"]
    assert contents(used) == ["result of a", "refused: not for you", NOT_RUN]
    assert [each["error"] for each in used["results"]] == [False, True, True]
    assert used["refusals"] == [REFUSAL]
    assert used["end"] == {"kind": "refused", "message": "not for you"}
    again = FakeTools()
    assert again.use(tmp_path, fake.saved[-1]) == used
    assert again.ran == []


def test_after_the_deadline_nothing_more_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = time.monotonic() + 60

    def end_the_time() -> None:
        monkeypatch.setattr(toolbox, "time", SimpleNamespace(monotonic=lambda: deadline))

    fake = FakeTools(slow=end_the_time)
    used = fake.use(tmp_path, deadline=deadline)
    assert used is not None
    assert fake.ran == ["a"]
    assert contents(used) == ["result of a", NOT_RUN, NOT_RUN]
    assert used["seconds"] >= 0.1
    assert used["end"] is None  # the courier adds that the time is up


def test_told_to_stop_it_keeps_what_was_done(tmp_path: Path) -> None:
    fake = FakeTools(stops_after=2)
    assert fake.use(tmp_path) is None
    assert fake.ran == ["a", "b"]
    assert contents(fake.saved[-1]) == ["result of a", "result of b"]
    assert "running" not in fake.saved[-1]


def test_a_tool_that_fails_is_told_and_ends_nothing(tmp_path: Path) -> None:
    used = FakeTools({"a": ToolOutcome("error: no such file", error=True)}).use(tmp_path)
    assert used is not None
    assert [each["error"] for each in used["results"]] == [True, False, False]
    assert used["end"] is None


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        ([["bash"]] * 4, False),
        ([["bash"]] * 5, True),
        ([["bash"], ["apply_patch"], ["read_file"], ["bash"], ["bash"], ["bash"]], False),
        ([["bash"] * 8], False),
        ([["bash"] * 4, ["bash"]], True),
        ([["bash"] * 4, ["bash", "read_file"]], False),
        ([["read_file", "bash", "bash"], ["bash"] * 3], True),
        ([["bash"] * 4, ["read_file"] + ["bash"] * 5], False),
    ],
)
def test_unknown_calls_in_a_row_end_it(answers: list[list[str]], ends: bool) -> None:
    turns = [
        ToolTurn("", tuple(Call(id="a", name=name, arguments="{}") for name in names), [])
        for names in answers
    ]
    end = end_for_unknown_tools(ask(), turns)
    assert (end is not None) is ends
    assert end is None or end["kind"] == "unknown_tools"


def test_calls_in_the_last_turn_are_not_run() -> None:
    used = end_out_of_turns(ask(max_turns=2), CALLS)
    assert contents(used) == [NOT_RUN] * 3
    assert used["end"]["kind"] == "turns"
    assert "2 turns" in used["end"]["message"]


@pytest.mark.parametrize(
    ("done", "told"),
    [
        (None, [NOT_RUN] * 3),
        (results(1, refusals=[REFUSAL], redactions=4), ["done", NOT_RUN, NOT_RUN]),
        (results(1, running="b"), ["done", INTERRUPTED, NOT_RUN]),
        (results(3), ["done"] * 3),
    ],
)
def test_a_fault_of_the_courier_keeps_what_was_done(done: JsonObject | None, told: list[str]) -> None:
    used = end_by_fault(CALLS, done, "it failed without a message")
    assert contents(used) == told
    assert used["end"] == {"kind": "fault", "message": "it failed without a message"}
    assert "running" not in used
    before = done or results(0, seconds=0.0)
    assert [used[name] for name in ("refusals", "seconds", "redactions")] == [
        before[name] for name in ("refusals", "seconds", "redactions")
    ]
