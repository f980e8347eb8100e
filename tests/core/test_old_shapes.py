"""Histories of other shapes: what they say stays, what they do not say is rebuilt and told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as settings_
from hypothesis import strategies as st

from logist.core.model import Interaction, Kind, Phase, Status
from logist.core.replay import replay
from logist.core.replay.old_entry import read_old_answer
from logist.core.replay.old_shapes import (
    MORE,
    MOST_NOTES,
    NOBODY,
    Notes,
    rebuild_interactions,
    survey_entries,
)
from logist.errors import Damaged
from logist.resources import load_schema
from tests.support import examples

Json = dict[str, Any]
SCHEMA = load_schema("llm-chat-schema")


def entry(role: str = "Worker", action: str = "COMPLETED", **more: Any) -> Json:
    """An entry that says as little as one can."""
    response = {"action": action, "evidence_files": [], "summary_for_supervisor": "Done."}
    return {
        "request": {"prompt": "Do it.", "metadata": {"role": role}},
        "response": response | more.pop("response", {}),
        **more,
    }


def told(
    *entries: Json, beside: Json | None = None, known: Json | None = None
) -> tuple[list[Interaction], list[str]]:
    notes = Notes()
    found = list(rebuild_interactions(entries, SCHEMA, notes, beside, known))
    return found, list(notes.render_lines())


def way(found: list[Interaction]) -> list[tuple[str, str]]:
    return [(one.kind.value, one.state_after.value) for one in found]


def differs(found: list[Interaction]) -> list[tuple[int, str]]:
    return [(one.sequence, one.field) for one in replay.find_differences(found, SCHEMA)]


def test_what_a_newer_rule_stops_went_on_with_no_decision_made_up() -> None:
    asks = {"output": {"type": "question", "question": "Which?"}}
    found, notes = told(entry(response=asks), entry("Supervisor", state_before="REVIEW_REQUIRED"))
    assert way(found)[1:] == [("ask", "REVIEW_REQUIRED"), ("ask", "APPROVAL_REQUIRED")]
    assert not any("made up: `resubmit`" in each for each in notes)
    replayed = [*replay.replay(found, SCHEMA, ())]
    assert [(each.sequence, getattr(each, "rule", None)) for each in replayed] == [(2, "questions_stop")]


def test_what_such_an_entry_looks_like() -> None:
    """The shape that the first histories had, `raw_response` and all."""
    answer = {"action": "COMPLETED", "evidence_files": ["r.py"], "summary_for_supervisor": "It works."}
    old = {
        "sequence": 1,
        "timestamp": "2025-01-29T14:30:45Z",
        "state_before": "PENDING",
        "workspace_path": "${JOB_DIR}/workspace",
        "request": {
            "prompt": "The whole prompt.",
            "files_context": ["a.md"],
            "metadata": {"role": "Worker", "phase": "PENDING", "model": "m", "temperature": 0.7},
        },
        "response": {
            "status": "SUCCESS",
            "actions": ["COMPLETED"],
            **{name: answer[name] for name in ("evidence_files", "summary_for_supervisor")},
            "raw_response": json.dumps(answer),
        },
    }
    found, notes = told(old)
    assert way(found) == [("create", "PENDING"), ("ask", "REVIEW_REQUIRED")]
    ask = found[1]
    assert (ask.sequence, ask.timestamp, ask.workspace_path) == (
        2,
        "2025-01-29T14:30:45Z",
        "${JOB_DIR}/workspace",
    )
    assert (ask.request.prompt, ask.request.files_context) == ("The whole prompt.", ["a.md"])
    assert ask.request.metadata["temperature"] == 0.7
    assert ask.response.raw_response == json.dumps(answer)
    assert (ask.response.actions, ask.response.evidence_files) == (["COMPLETED"], ["r.py"])
    assert differs(found) == []
    assert notes == [
        "made up: the job was created with the settings that are the default",
        "numbered anew: the entry with sequence 1 is interaction 2",
        "evidence is taken to have been there: the file does not say so (interaction 2)",
    ]


def test_it_goes_from_zero_says_action_and_has_no_answers() -> None:
    found, notes = told(
        entry(sequence=0, state_before="RUNNING"),
        entry("Supervisor", "RETRY", sequence=1, state_before="REVIEWING"),
        entry(sequence=2, state_before="PENDING"),
    )
    assert way(found)[1:] == [("ask", "REVIEW_REQUIRED"), ("ask", "PENDING"), ("ask", "REVIEW_REQUIRED")]
    assert [one.observed.phase for one in found[1:] if one.observed] == [
        Phase.DOER,
        Phase.REVIEWER,
        Phase.DOER,
    ]
    assert json.loads(found[2].response.raw_response) == {
        "action": "RETRY",
        "evidence_files": [],
        "summary_for_supervisor": "Done.",
    }
    assert found[2].response.actions == ["RETRY"]
    assert differs(found) == []
    assert "numbered anew: the entry with sequence 0 is interaction 2" in notes
    assert "`raw_response` was rebuilt from the fields of the response (interactions 2, 3, 4)" in notes
    assert "`action` was read as `actions` (interactions 2, 3, 4)" in notes


@pytest.mark.parametrize(
    ("first", "found_at", "kinds"),
    [
        (entry(action="STUCK"), "PENDING", ["resubmit"]),
        (entry(action="STUCK"), "REVIEW_REQUIRED", ["resubmit"]),
        (entry(state_after="APPROVAL_REQUIRED"), "PENDING", ["reject"]),
        (entry(state_after="CANCELED"), "PENDING", ["rerun"]),
        (entry(), "REVIEW_REQUIRED", []),
        (entry(action="RETRY"), "RUNNING", []),
        (entry(state_after="intervention_required"), "pending", ["resubmit"]),
    ],
)
def test_what_a_steward_must_have_decided_is_put_between(
    first: Json, found_at: str, kinds: list[str]
) -> None:
    found, notes = told(first, entry("Supervisor", state_before=found_at))
    between = found[2:-1]
    assert [one.kind for one in between] == kinds
    assert all(one.steward and one.steward.name == NOBODY for one in between)
    assert [one for one in notes if "entry 2 found the job" in one] == [
        f"made up: `{kind}`, since entry 2 found the job {found[-1].state_before} (interaction 3)"
        for kind in kinds
    ]
    assert ("state_before" in [field for _, field in differs(found)]) is False


def test_a_state_that_was_recorded_is_compared_with_todays() -> None:
    found, _ = told(entry(state_after="SUCCESS"))
    assert differs(found) == [(2, "state_after")]
    found, _ = told(entry(), entry("Supervisor", state_before="PENDING"))
    assert differs(found)[0] == (2, "state_after")
    found, _ = told(entry(state_before="REVIEW_REQUIRED"))
    assert (2, "state_before") in differs(found)


@pytest.mark.parametrize(
    ("entries", "known"),
    [
        ([entry(state_after="REVIEW_REQUIRED")], {}),
        ([entry(), entry("Supervisor", state_after="APPROVAL_REQUIRED")], {}),
        ([entry(), entry("Supervisor", state_after="SUCCESS")], {"approval": "none"}),
        ([entry(state_after="APPROVAL_REQUIRED")], {"review": False}),
        ([entry(state_after="completed")], {"review": False, "approval": "none"}),
        ([entry(action="STUCK", state_after="SUCCESS")], {}),
    ],
)
def test_whether_there_was_a_review_and_an_approval_is_seen_by_the_states(
    entries: list[Json], known: Json
) -> None:
    assert survey_entries(entries).settings == known
    found, notes = told(*entries, known=survey_entries(entries).settings)
    said = ", ".join(f"{name} {json.dumps(known[name])}" for name in sorted(known))
    assert notes[0].endswith(f"; but {said}, as its entries show" if known else "are the default")
    assert (differs(found) == []) is (entries[0]["response"]["action"] != "STUCK")


def test_an_answer_that_reads_in_another_way_today_is_found() -> None:
    found, _ = told(entry(response={"raw_response": "I am done.", "actions": ["COMPLETED"]}))
    assert found[1].state_after is Status.STUCK
    assert [field for _, field in differs(found)] == ["response.actions", "response.summary_for_supervisor"]


@pytest.mark.parametrize(
    ("response", "text", "rebuilt"),
    [
        ({"raw_response": "as it is"}, "as it is", False),
        ({"raw_response": {"action": "RETRY"}}, '{"action": "RETRY"}', True),
        (
            {"action": "STUCK"},
            '{"action": "STUCK", "evidence_files": [], "summary_for_supervisor": ""}',
            True,
        ),
        (
            {"actions": ["COMPLETED"], "evidence_files": ["a"], "output": {"é": 1}},
            '{"action": "COMPLETED", "evidence_files": ["a"], "summary_for_supervisor": "", "output": {"é": 1}}',
            True,
        ),
        ({"actions": []}, "", False),
        ({}, "", False),
        ({"raw_response": None, "action": 3}, "", False),
    ],
)
def test_the_answer_of_a_response(response: Json, text: str, rebuilt: bool) -> None:
    assert read_old_answer(response) == (text, rebuilt)


@pytest.mark.parametrize(
    ("status", "raw", "after"),
    [("TIMEOUT", "", "PENDING"), ("ERROR", "", "PENDING"), ("ERROR", "nothing", "STUCK")],
)
def test_why_there_is_no_answer(status: str, raw: str, after: str) -> None:
    found, _ = told({"response": {"status": status, "raw_response": raw, "actions": []}})
    assert found[1].state_after == after
    assert differs(found) == []


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], "the history is empty"),
        ([{}], "entry 1: `response` must be an object"),
        ([{"sequence": 4, "response": []}], r"entry 1 \(sequence 4\): `response` must be an object"),
        ([entry(request=3)], "entry 1: `request` must be an object"),
        ([entry(state_before="ASLEEP")], 'entry 1: `state_before` is "ASLEEP", which is not a known state'),
        ([entry(state_after=[])], r"entry 1: `state_after` is \[\], which is not a known state"),
        ([entry(response={"actions": 3})], "entry 1: `actions` is 3, but must be a list of strings"),
        (
            [entry(sequence=2), entry(sequence=2)],
            r"entry 2 \(sequence 2\) comes after entry 1 \(sequence 2\): the sequence numbers must increase",
        ),
        ([entry(), {"kind": "ask", "after": {}}], "entry 2 is an interaction of Logist"),
    ],
)
def test_what_is_no_such_history(entries: list[Json], said: str) -> None:
    with pytest.raises(Damaged, match=said):
        told(*entries)


def test_what_the_file_says_of_the_job_is_what_was_asked() -> None:
    found, _ = told(entry(), beside={"title": "A  title", "prompt": "Build it.", "description": 3})
    spec = found[0].spec
    assert spec is not None
    assert (spec.title, spec.prompt, spec.description) == ("A title", "Build it.", None)
    found, _ = told(entry(request={"prompt": "\n\nLine one\nmore"}))
    assert found[0].spec is not None
    assert found[0].spec.title == "Line one"


@pytest.mark.parametrize(
    ("told_time", "read"),
    [
        ("2025-01-29 14:30:45.123", "2025-01-29T14:30:45Z"),
        ("2025-01-29T14:30:45+00:00", "2025-01-29T14:30:45Z"),
        ("2025-01-29T14:30:45+02:00", "2025-01-29T14:30:45+02:00"),
        (17, "1970-01-01T00:00:00Z"),
    ],
)
def test_times(told_time: Any, read: str) -> None:
    assert told(entry(timestamp=told_time))[0][1].timestamp == read


def test_notes_of_many_entries_are_a_line_each() -> None:
    _, notes = told(*(entry(action="RETRY", extra=1) for _ in range(100)))
    assert len(notes) < 10
    assert any(line.endswith("and 95 more)") for line in notes)


def first_tool(role: str, action: str = "COMPLETED", phase: str = "default", **more: Any) -> Json:
    """A step as the first tool of this name recorded it."""
    return {
        "timestamp": "2025-12-01T23:48:00.458893",
        "model": "grok-code-fast-1",
        "cost": 0.0125,
        "execution_time_seconds": 2.5,
        "request": {"operation": "step", "job_id": "j", "phase": phase, "role": role, "dry_run": False},
        "response": {
            "action": action,
            "summary_for_supervisor": "Done.",
            "evidence_files": [],
            "metrics": {"token_input": 100, "token_output": 20, "token_cache_read": 50, "cost_usd": 0.0125},
        },
        **more,
    }


def logged(operation: str, action: str) -> Json:
    """What the first tool wrote of a command that asked nobody."""
    entry = first_tool("Worker", action, model=f"{operation}-only", cost=0.0)
    entry["request"]["operation"] = operation
    return entry


PREVIEW, RUN = logged("preview", "PREVIEW_COMPLETED"), logged("run", "RUN_STARTED")
BY_HAND = {
    **first_tool("Worker", model="simulated", cost=0.0),
    "request": {"simulation": True, "description": "Given by hand"},
    "is_simulated": True,
}


def test_who_answered_what_it_cost_and_which_model_it_was_are_read() -> None:
    found, notes = told(PREVIEW, RUN, first_tool("Worker"), PREVIEW, first_tool("Supervisor"))
    assert way(found) == [
        ("create", "PENDING"),
        ("ask", "REVIEW_REQUIRED"),
        ("ask", "APPROVAL_REQUIRED"),
    ]
    worker, supervisor = found[1:]
    assert worker.observed is not None
    assert supervisor.observed is not None
    assert (worker.observed.phase, worker.observed.role) == (Phase.DOER, "Worker")
    assert (supervisor.observed.phase, supervisor.observed.role) == (Phase.REVIEWER, "Supervisor")
    metadata = worker.request.metadata
    assert (metadata["role"], metadata["phase"], metadata["model"]) == (
        "Worker",
        "default",
        "grok-code-fast-1",
    )
    used = worker.usage
    assert (used.cost_cents, used.cost_microcents, used.seconds, used.source) == (1, 250_000, 2.5, "provider")
    assert (used.input_tokens, used.cached_tokens, used.output_tokens) == (150, 50, 20)
    assert "left out: `preview` is in the log, and asked no agent (entries 1, 4)" in notes
    assert "left out: `run` is in the log, and asked no agent (entry 2)" in notes
    assert "`cost` was read as US dollars (interactions 2, 3)" in notes
    assert differs(found) == []


def test_the_phase_of_a_request_says_who_answered_too() -> None:
    found, _ = told(first_tool("agent"), first_tool("agent", phase="REVIEWING"))
    assert [one.observed.phase for one in found[1:] if one.observed] == [Phase.DOER, Phase.REVIEWER]
    assert differs(found) == []


@pytest.mark.parametrize(
    ("entries", "kinds"),
    [
        # There, the first COMPLETED of a Worker was no end of its work.
        ([("Worker", "COMPLETED"), ("Worker", "COMPLETED"), ("Supervisor", "COMPLETED")], ["restep"]),
        # And what a Supervisor sent back, it judged again.
        ([("Worker", "COMPLETED"), ("Supervisor", "RETRY"), ("Supervisor", "COMPLETED")], ["restep"]),
        ([("Worker", "COMPLETED"), ("Supervisor", "COMPLETED"), ("Worker", "COMPLETED")], ["reject"]),
        ([("Worker", "STUCK"), ("Worker", "COMPLETED"), ("Supervisor", "STUCK")], ["resubmit"]),
        ([("agent", "COMPLETED"), ("agent", "COMPLETED"), ("agent", "STUCK")], ["reject", "reject"]),
        ([("Worker", "RETRY")] * 3 + [("Worker", "COMPLETED")], ["resubmit"]),
    ],
)
def test_an_agent_that_answers_out_of_turn_was_sent_there(
    entries: list[tuple[str, str]], kinds: list[str]
) -> None:
    raw = [first_tool(*each) for each in entries]
    found, notes = told(*raw, known=survey_entries(raw).settings)
    assert [one.kind.value for one in found if one.kind not in (Kind.CREATE, Kind.ASK)] == kinds
    assert sum(line.startswith("made up: `") for line in notes) == len(set(kinds))
    targets = {one.command["to"] for one in found if one.kind is Kind.RESTEP}
    assert list(replay.replay(found, SCHEMA, targets)) == []
    assert survey_entries(raw).goes_back or "restep" not in kinds


def test_an_answer_by_hand_is_whoevers_turn_it_is() -> None:
    found, _ = told(first_tool("Worker"), BY_HAND, BY_HAND)
    assert way(found)[1:] == [
        ("ask", "REVIEW_REQUIRED"),
        ("ask", "APPROVAL_REQUIRED"),
        ("reject", "PENDING"),
        ("ask", "REVIEW_REQUIRED"),
    ]
    assert [one.simulated for one in found if one.kind is Kind.ASK] == [False, True, True]
    assert "model" not in found[2].request.metadata
    assert differs(found) == []


def test_a_reviewer_without_work_to_review_does_not_replay_and_that_is_said() -> None:
    found, notes = told(first_tool("Worker", "RETRY"), first_tool("Supervisor"))
    assert (
        'does not replay: the reviewer "Supervisor" answers, and it was not its turn (interaction 3)' in notes
    )
    assert differs(found) == [(3, "state_after")]


def test_log_entries_alone_are_a_job_that_nobody_has_worked_on() -> None:
    found, notes = told(PREVIEW, PREVIEW)
    assert way(found) == [("create", "PENDING")]
    assert "left out: `preview` is in the log, and asked no agent (entries 1, 2)" in notes


def test_a_dry_run_asked_nobody() -> None:
    dry = first_tool("Worker")
    dry["request"]["dry_run"] = True
    assert way(told(dry)[0]) == [("create", "PENDING")]


def test_the_limits_are_such_that_what_was_used_fits() -> None:
    raw = [first_tool("Worker", "RETRY", cost=9.0, execution_time_seconds=1900) for _ in range(3)]
    assert survey_entries(raw).settings == {"limits": {"cost_threshold": 2701, "time_threshold_minutes": 96}}
    found, _ = told(*raw, known=survey_entries(raw).settings)
    assert found[0].spec is not None
    assert found[0].spec.limits.cost_threshold == 2701
    assert differs(found) == []


@pytest.mark.parametrize(
    ("more", "cents", "seconds"),
    [
        ({"cost": -1.0}, 1, 2.5),
        ({"cost": "much"}, 1, 2.5),
        ({"cost": None, "execution_time_seconds": None}, 1, 0.0),
        ({"cost": 10**300}, 1, 2.5),
    ],
)
def test_where_the_cost_makes_no_sense_that_of_the_metrics_is_read(
    more: Json, cents: int, seconds: float
) -> None:
    found, notes = told(first_tool("Worker", **more))
    assert (found[1].usage.cost_cents, found[1].usage.seconds) == (cents, seconds)
    odd = any(line.startswith("what it used was not read") for line in notes)
    assert odd is (more["cost"] is not None)


def test_the_cost_in_a_response_is_read() -> None:
    found, _ = told(entry(response={"execution_time_seconds": 45.23, "cost_usd": 0.0034}))
    assert (found[1].usage.cost_microcents, found[1].usage.seconds) == (340_000, 45.23)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
FIELDS = (
    "sequence",
    "timestamp",
    "state_before",
    "state_after",
    "request",
    "response",
    "usage",
    "workspace_path",
    "cost",
    "model",
    "execution_time_seconds",
)
INNER = (
    "status",
    "actions",
    "action",
    "evidence_files",
    "raw_response",
    "metadata",
    "output",
    "finish",
    "role",
    "phase",
    "metrics",
)
WORDS = st.sampled_from(["PENDING", "STUCK", "SUCCESS", "COMPLETED", "REVIEW_REQUIRED", "TIMEOUT", "RETRY"])
OBJECTS = st.dictionaries(st.sampled_from(INNER), JSON | WORDS | st.lists(WORDS, max_size=2), max_size=5)


@settings_(max_examples=examples(40))
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), OBJECTS | WORDS | JSON, max_size=6), max_size=4))
def test_whatever_it_holds_it_is_read_or_refused(entries: list[Json]) -> None:
    try:
        found, notes = told(*entries)
    except Damaged:
        return
    assert [one.sequence for one in found] == list(range(1, len(found) + 1))
    assert found[0].kind is Kind.CREATE
    assert sum(one.kind is Kind.ASK for one in found) == len(entries)
    assert notes
    list(replay.replay(found, SCHEMA, set()))


@pytest.mark.parametrize(
    "used", [{"seconds": 1.7e308}, {"cost_cents": -5}, {"input_tokens": 10**40}, {"seconds": "x"}]
)
def test_what_makes_no_sense_as_usage_is_not_counted_and_that_is_told(used: Json) -> None:
    found, notes = told(entry(usage=used), entry("Supervisor", "RETRY", response={"usage": {"seconds": 2.0}}))
    assert [one.usage.seconds for one in found] == [0.0, 0.0, 2.0]
    assert found[1].usage.cost_cents == found[1].usage.input_tokens == 0
    assert "what it used was not read: it does not make sense (interaction 2)" in notes


def test_notes_do_not_grow_with_the_file() -> None:
    notes = Notes()
    for number in range(1, 1001):
        notes.add_note(f"not read: x{number}", number)
    lines = list(notes.render_lines())
    assert len(lines) == MOST_NOTES + 1
    assert lines[-1] == f"{MORE} (interactions 101, 102, 103, 104, 105 and 895 more)"
