"""What the files of an ask in turns say, at every state in which a courier may have left them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logist.agents.courier import ask_files
from logist.agents.courier.ask_files import RecordedAsk
from logist.core.model import EVERYTHING, Call, ErrorKind, JsonObject, Refusal, Reply, TransportError, Usage
from logist.errors import Damaged
from logist.store import Exchange, inflight
from tests.shell.test_agents_courier import RESERVED, cost, envelope

REFUSAL: JsonObject = {"kind": "tool", "tool": "x", "role": "Worker", "missing": [], "message": "not offered"}
KEYS = {
    "sequence",
    "after",
    "started",
    "agent",
    "phase",
    "role",
    "output_schema",
    "step",
    "attempt",
    "checkpoint_before",
    "request",
    "model",
    "temperature",
    "max_output_tokens",
    "deadline_seconds",
    "max_tries",
    "backoff_seconds",
    "reserved_microcents",
    "allowance_microcents",
    "shares_limits_of",
    "min_output_tokens",
    "index",
    "visit",
    "work",
    "spec",
}
"""What Logist writes into every `1.request`."""
CALLS = (Call(id="a", name="create_file", arguments="{}"), Call(id="b", name="read_file", arguments="{}"))


def reply(*calls: Call, text: str = "", error: ErrorKind | None = None, **more: Any) -> JsonObject:
    usage = Usage(input_tokens=10, output_tokens=1, cost_microcents=7, seconds=1.5, source="provider")
    failed = TransportError(kind=error, message="failed") if error else None
    found = Reply(text=text, calls=calls, usage=usage, error=failed, redactions=1, **more)
    return found.model_dump(mode="json")


def result(call: Call) -> JsonObject:
    return {"id": call.id, "name": call.name, "content": "done", "error": False}


def tools(count: int, **more: Any) -> JsonObject:
    """What is saved when so many of CALLS have been run."""
    results = [result(call) for call in CALLS[:count]]
    return {"results": results, "refusals": [], "seconds": 0.25, "redactions": 2, **more}


def on_disk(folder: Path, files: dict[str, JsonObject]) -> inflight.Exchanges:
    """The exchanges as they read from these files; `1.request` is there anyway."""
    folder.mkdir()
    for name, content in {"1.request": envelope(None), **files}.items():
        (folder / name).write_text("" if name.endswith("sent") else json.dumps(content), "utf-8")
    return inflight.read_exchanges(folder)


CALLED = {"1.sent": {}, "1.response": reply(*CALLS)}
GONE_ON = CALLED | {"1.tools": tools(2, end=None)}
NEXT = GONE_ON | {"2.request": {"reserved_microcents": 99}}
END_COST = {"kind": "cost", "message": "too dear"}

STATES: list[tuple[str, dict[str, JsonObject], str, int]] = [
    ("only asked", {}, "not_sent", 0),
    ("sent", {"1.sent": {}}, "in_doubt", 0),
    ("answered with calls", CALLED, "unfinished", 1),
    ("the first tool is at work", CALLED | {"1.tools": tools(0, running="a")}, "unfinished", 1),
    ("the first tool is done", CALLED | {"1.tools": tools(1)}, "unfinished", 1),
    ("the second tool is at work", CALLED | {"1.tools": tools(1, running="b")}, "unfinished", 1),
    ("both are done", CALLED | {"1.tools": tools(2)}, "unfinished", 1),
    ("it goes on", GONE_ON, "unfinished", 1),
    ("the next is asked", NEXT, "unfinished", 1),
    ("the next is sent", NEXT | {"2.sent": {}}, "in_doubt", 1),
    ("the next is answered", NEXT | {"2.sent": {}, "2.response": reply(text="end")}, "answered", 2),
    ("the next calls again", NEXT | {"2.sent": {}, "2.response": reply(*CALLS)}, "unfinished", 2),
    (
        "the next failed",
        NEXT | {"2.sent": {}, "2.response": reply(error=ErrorKind.TRANSIENT)},
        "answered",
        2,
    ),
    (
        "the next failed and is tried again",
        NEXT
        | {"2.sent": {}, "2.response": reply(error=ErrorKind.TRANSIENT)}
        | {"3.request": {"retry_of": 2, "reserved_microcents": 99}, "3.sent": {}, "3.response": reply()},
        "answered",
        3,
    ),
    ("a refusal ends it", CALLED | {"1.tools": tools(2, end={"kind": "refused"})}, "answered", 1),
]


@pytest.mark.parametrize(
    ("files", "kind", "answers"), [each[1:] for each in STATES], ids=[each[0] for each in STATES]
)
def test_every_state_is_told_and_its_answers_are_summed(
    tmp_path: Path, files: dict[str, JsonObject], kind: str, answers: int
) -> None:
    got = ask_files.collect_ask(on_disk(tmp_path / "inflight", files))
    assert (got.kind, got.ask) == (kind, RecordedAsk.read(envelope(None)))
    usage = got.reply.usage
    assert (usage.input_tokens, usage.output_tokens) == (10 * answers, answers)
    doubtful = (99 if answers else RESERVED) if kind == "in_doubt" else 0
    assert cost(usage) == 7 * answers + doubtful
    assert (usage.source == "worst_case") == bool(doubtful)


def test_usage_tools_refusals_and_seconds_of_all_turns_are_summed(tmp_path: Path) -> None:
    files = NEXT | {
        "2.sent": {},
        "2.response": reply(*CALLS, warnings=("w",)),
        "2.tools": tools(2, refusals=[REFUSAL], end={"kind": "refused", "message": "not offered"}),
    }
    got = ask_files.collect_ask(on_disk(tmp_path / "inflight", files)).reply
    assert got.tools == {"create_file": 2, "read_file": 2}
    assert got.refusals == (Refusal.model_validate(REFUSAL),)
    assert got.usage.seconds == 2 * 1.5 + 2 * 0.25
    assert got.redactions == 2 * 1 + 2 * 2
    assert got.warnings == ("w",)


def test_in_doubt_keeps_what_the_turns_before_came_to(tmp_path: Path) -> None:
    got = ask_files.collect_ask(on_disk(tmp_path / "inflight", NEXT | {"2.sent": {}})).reply
    assert got.tools == {"create_file": 1, "read_file": 1}
    assert (got.text, got.calls, got.finish) == ("", (), None)
    assert got.error is not None
    assert got.error.kind is ErrorKind.TRANSIENT


@pytest.mark.parametrize(
    ("end", "error", "finish"),
    [
        ({"kind": "refused", "message": "m"}, None, "tool_calls"),
        ({"kind": "turns", "message": "m"}, None, "turns"),
        (END_COST, ErrorKind.LIMIT, "tool_calls"),
        ({"kind": "time", "message": "m"}, ErrorKind.TIMEOUT, "tool_calls"),
        ({"kind": "fault", "message": "m"}, ErrorKind.BAD_REQUEST, "tool_calls"),
    ],
)
def test_what_ends_an_ask_is_told(
    tmp_path: Path, end: JsonObject, error: ErrorKind | None, finish: str
) -> None:
    files = {"1.sent": {}, "1.response": reply(*CALLS, finish="tool_calls"), "1.tools": tools(2, end=end)}
    got = ask_files.collect_ask(on_disk(tmp_path / "inflight", files))
    assert (got.kind, got.reply.finish) == ("answered", finish)
    assert (got.reply.error and got.reply.error.kind) == error
    assert got.reply.error is None or got.reply.error.message == end["message"]


def test_an_envelope_of_an_earlier_version_reads() -> None:
    asked = {key: value for key, value in envelope(None).items() if key not in ("work", "agent")}
    ask = RecordedAsk.read(asked)
    assert (ask.agent, ask.work.permissions, ask.work.tools) == ("litellm", EVERYTHING, ())
    got = ask_files.collect_ask([Exchange(1, asked, True, {"text": "t"})])
    assert (got.kind, got.reply.text, got.reply.tools) == ("answered", "t", {})


def test_what_is_recorded_of_an_ask_reads_back_with_what_only_a_newer_logist_knows() -> None:
    asked = RecordedAsk.read(envelope(None, lane="fast", work={"network": True, "clock": "off"}))
    assert (asked.newer, asked.work.newer) == ({"lane": "fast"}, {"clock": "off"})
    on_disk = asked.data()
    assert (on_disk["lane"], on_disk["work"]["clock"]) == ("fast", "off")
    assert RecordedAsk.read(json.loads(json.dumps(on_disk))) == asked
    assert on_disk.keys() - {"lane", "provider", "restored_from"} == KEYS
    assert RecordedAsk.read(on_disk | {"restored_from": "0" * 40}).data()["restored_from"] == "0" * 40


DAMAGED: dict[str, dict[str, JsonObject]] = {
    "no results": {"1.tools": {}},
    "results are no list": {"1.tools": tools(2, end=None) | {"results": {}}},
    "a result is no object": {"1.tools": tools(0, end=None) | {"results": ["x", "y"]}},
    "a result without content": {"1.tools": tools(1) | {"results": [{"id": "a", "name": "x"}]}},
    "more results than calls": {"1.tools": tools(2) | {"results": [result(CALLS[0])] * 3}},
    "all run, and one is at work": {"1.tools": tools(2, running="a")},
    "an end before all was used": {"1.tools": tools(1, end=None)},
    "at work is no text": {"1.tools": tools(0, running=5)},
    "an end that is no object": {"1.tools": tools(2, end="cost")},
    "an end without a kind": {"1.tools": tools(2, end={"message": "m"})},
    "an end that nobody knows": {"1.tools": tools(2, end={"kind": "whim"})},
    "refusals are text": {"1.tools": tools(2, refusals="none", end=None)},
    "a refusal is no object": {"1.tools": tools(2, refusals=["no"], end=None)},
    "seconds are text": {"1.tools": tools(2, seconds="long", end=None)},
    "seconds are no number": {"1.tools": tools(2, seconds=float("nan"), end=None)},
    "seconds are below zero": {"1.tools": tools(2, seconds=-1, end=None)},
    "redactions are missing": {"1.tools": {"results": [], "refusals": [], "seconds": 0}},
    "results without an answer": {"1.response": reply(), "1.tools": tools(2, end=None)},
    "the next without results": {"2.request": {}},
    "the next, and tools were not all used": {"1.tools": tools(1), "2.request": {}},
    "the next after the end": {"1.tools": tools(2, end=END_COST), "2.request": {}},
}


@pytest.mark.parametrize("files", DAMAGED.values(), ids=DAMAGED)
def test_files_that_make_no_sense_are_damage_with_a_way_out(
    tmp_path: Path, files: dict[str, JsonObject]
) -> None:
    with pytest.raises(Damaged) as caught:
        ask_files.collect_ask(on_disk(tmp_path / "inflight", CALLED | files))
    assert caught.value.where == str(tmp_path / "inflight")
    assert "mv " in (caught.value.fix or "")


@pytest.mark.parametrize("content", ["", "{", "[]", "5", "\0"])
def test_a_tools_file_that_does_not_read_is_named(tmp_path: Path, content: str) -> None:
    on_disk(tmp_path / "inflight", CALLED)
    (tmp_path / "inflight" / "1.tools").write_text(content, "utf-8")
    with pytest.raises(Damaged) as caught:
        inflight.read_exchanges(tmp_path / "inflight")
    assert caught.value.where == str(tmp_path / "inflight" / "1.tools")
    assert "mv " in (caught.value.fix or "")
