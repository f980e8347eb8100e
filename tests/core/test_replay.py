"""Replay: no difference for what was recorded under the same rules, and the first one for anything else."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from logist.core.model import (
    ErrorKind,
    Interaction,
    JsonObject,
    Kind,
    Phase,
    Status,
    StuckKind,
    TransportError,
)
from logist.core.replay.difference import Difference
from logist.core.replay.replay import find_differences
from tests.core.builders import SCHEMA, Recorder, command, whole_history
from tests.support import ROOT

HISTORY = whole_history().entries
MACHINE = "the rules of the state machine lead to another state"
BEFORE = "the earlier interactions now lead to another state"
ANSWER = "the rules for the exit command judge this answer differently"


def changed(sequence: int, **fields: Any) -> list[Interaction]:
    """The history with fields of one entry changed; `response__status` is the status of its response."""
    entries = list(HISTORY)
    entry = entries[sequence - 1]
    for name, value in fields.items():
        first, _, second = name.partition("__")
        if second:
            value = getattr(entry, first).model_copy(update={second: value})
        entry = entry.model_copy(update={first: value})
    entries[sequence - 1] = entry
    return entries


def first(entries: Sequence[Interaction], schema: JsonObject = SCHEMA) -> Difference:
    return next(iter(find_differences(entries, schema)))


def test_what_was_recorded_replays() -> None:
    assert list(find_differences(HISTORY, SCHEMA)) == []


@pytest.mark.parametrize("count", range(1, len(HISTORY)))
def test_so_does_every_beginning_of_it(count: int) -> None:
    assert list(find_differences(HISTORY[:count], SCHEMA)) == []


def test_what_was_written_and_read_replays() -> None:
    read = [Interaction.model_validate(entry.model_dump(mode="json", exclude_none=True)) for entry in HISTORY]
    assert list(find_differences(read, SCHEMA)) == []


def test_nothing_is_changed_by_it() -> None:
    before = [entry.model_dump_json() for entry in HISTORY]
    list(find_differences(HISTORY, SCHEMA))
    assert [entry.model_dump_json() for entry in HISTORY] == before


def test_answers_that_did_not_come_whole_replay() -> None:
    job = Recorder(max_attempts=9)
    for kind in set(ErrorKind) - {ErrorKind.LIMIT}:
        error = TransportError(kind=kind, message="lost", http_status=503)
        job.answer(command(), error=error)
    job.answer(command(), finish="length")
    job.decide(Kind.RESUBMIT, review=True)
    job.answer(command(), finish="content_filter")
    job.decide(Kind.RESUBMIT, review=True)
    job.answer(command(), error=TransportError(kind=ErrorKind.LIMIT, message="turn 9 costs too much"))
    assert job.state.status is Status.HALTED_COST
    assert [entry.response.actions for entry in job.entries if entry.kind is Kind.ASK] == [[]] * (
        len(ErrorKind) + 2
    )
    assert list(find_differences(job.entries, SCHEMA)) == []


def test_an_empty_history_has_no_differences() -> None:
    assert list(find_differences([], SCHEMA)) == []


ASKED = [entry.sequence for entry in HISTORY if entry.kind in (Kind.ASK, Kind.RECOVER)]
EVERY = [entry.sequence for entry in HISTORY]


def other(status: Status) -> Status:
    return Status.WAITING if status is not Status.WAITING else Status.DRAFT


@pytest.mark.parametrize("sequence", EVERY)
class TestTampered:
    def test_state_after(self, sequence: int) -> None:
        entry = HISTORY[sequence - 1]
        found = first(changed(sequence, state_after=other(entry.state_after)))
        assert found == Difference(sequence, "state_after", "WAITING", entry.state_after.value, MACHINE)

    def test_after(self, sequence: int) -> None:
        entry = HISTORY[sequence - 1]
        place = entry.after.model_copy(update={"attempts": entry.after.attempts + 1})
        found = first(changed(sequence, after=place))
        assert (found.sequence, found.field, found.cause) == (sequence, "after", MACHINE)
        assert json.loads(found.recorded)["attempts"] == json.loads(found.today)["attempts"] + 1

    def test_both(self, sequence: int) -> None:
        place = HISTORY[sequence - 1].after.model_copy(update={"status": Status.WAITING})
        found = first(
            changed(sequence, after=place, state_after=Status.WAITING, state_before=Status.WAITING)[:sequence]
        )
        assert found.sequence == sequence

    def test_state_before(self, sequence: int) -> None:
        entry = HISTORY[sequence - 1]
        found = first(changed(sequence, state_before=other(entry.state_before)))
        assert found == Difference(sequence, "state_before", "WAITING", entry.state_before.value, BEFORE)

    @pytest.mark.parametrize("actions", [["COMPLETED", "STUCK"], ["MERGED"], ["completed"]])
    def test_actions(self, sequence: int, actions: list[str]) -> None:
        entry = HISTORY[sequence - 1]
        found = list(find_differences(changed(sequence, response__actions=actions), SCHEMA))
        assert found[0] == Difference(
            sequence, "response.actions", json.dumps(actions), json.dumps(entry.response.actions), ANSWER
        )

    def test_status(self, sequence: int) -> None:
        entry = HISTORY[sequence - 1]
        found = first(changed(sequence, response__status="TIMEOUT"))
        assert found == Difference(sequence, "response.status", "TIMEOUT", entry.response.status, ANSWER)


@pytest.mark.parametrize("sequence", [entry.sequence for entry in HISTORY if entry.kind is Kind.ASK])
def test_another_answer_is_found(sequence: int) -> None:
    entry = HISTORY[sequence - 1]
    action = "STUCK" if entry.response.actions != ["STUCK"] else "RETRY"
    found = first(changed(sequence, response__raw_response=command(action)))
    assert found.sequence == sequence


@pytest.mark.parametrize(
    ("sequence", "fields"),
    [
        (12, {"command": {}}),
        (12, {"command": {"limit": "HALTED_TIME"}}),
        (12, {"command": {"limit": "nonsense"}}),
        (17, {"command": {}}),
        (17, {"command": {"to": "9"}}),
        (17, {"command": {"to": 3}}),
        (6, {"command": {"step": "deploy"}}),
        (10, {"kind": Kind.CREATE}),
        (10, {"kind": Kind.APPROVE}),
        (2, {"observed": None, "response": HISTORY[4].response}),
    ],
)
def test_what_was_asked_is_judged_again(sequence: int, fields: dict[str, Any]) -> None:
    found = first(changed(sequence, **fields))
    assert found.sequence == sequence
    assert found.field in ("state_after", "after")


def test_a_refusal_of_today_says_why() -> None:
    found = first(changed(10, kind=Kind.APPROVE))
    refusal = "can't approve: the job is REVIEW_REQUIRED"
    assert found == Difference(10, "state_after", "SUSPENDED", "refused", refusal)


@pytest.mark.parametrize("sequence", EVERY)
def test_a_place_that_makes_no_sense_never_ends_a_replay(sequence: int) -> None:
    """A history that was edited by hand gives differences, not a traceback."""
    bare = HISTORY[sequence - 1].after.model_copy(
        update={"before": None, "stuck": None, "awaiting": None, "halted_at": None, "attempts": 7}
    )
    found = list(find_differences(changed(sequence, after=bare, command={}), SCHEMA))
    assert found[0].sequence == sequence


def test_a_missing_entry_is_found_at_the_next() -> None:
    without = [entry for entry in HISTORY if entry.sequence != 3]
    found = first(without)
    assert (found.sequence, found.field, found.cause) == (4, "state_before", BEFORE)


@pytest.mark.parametrize("begin", range(1, len(HISTORY)))
def test_a_history_without_its_beginning(begin: int) -> None:
    found = list(find_differences(HISTORY[begin:], SCHEMA))
    assert len(found) == 1
    assert (found[0].sequence, found[0].field, found[0].today) == (begin + 1, "kind", "create")


def test_a_first_entry_without_a_spec() -> None:
    assert [one.field for one in find_differences(changed(1, spec=None), SCHEMA)] == ["kind"]


class TestRules:
    """The same history under other rules."""

    def schema(self, change: Callable[[JsonObject], None]) -> JsonObject:
        schema = copy.deepcopy(SCHEMA)
        change(schema["properties"]["response"]["properties"])
        return schema

    def test_shorter_summaries(self) -> None:
        short = self.schema(lambda fields: fields["summary_for_supervisor"].update(maxLength=10))
        found = list(find_differences(HISTORY, short))
        why = f"{ANSWER}: invalid answer: `summary_for_supervisor` has 17 characters; at most 10 are allowed"
        assert found[0] == Difference(2, "state_after", "PENDING", "STUCK", why)
        assert found[1] == Difference(2, "response.actions", '["RETRY"]', "[]", why)
        assert found[2] == Difference(2, "response.status", "SUCCESS", "ERROR", why)
        assert 3 not in {one.sequence for one in found}  # "Wrote it." has nine characters

    def test_a_schema_that_is_changed_in_place_is_another_one(self) -> None:
        schema = copy.deepcopy(SCHEMA)
        assert list(find_differences(HISTORY, schema)) == []
        schema["properties"]["response"]["properties"]["action"]["enum"].remove("RETRY")
        assert list(find_differences(HISTORY, schema)) != []

    def test_each_entry_is_judged_from_what_was_recorded_before_it(self) -> None:
        no_retry = self.schema(lambda fields: fields["action"].update(enum=["COMPLETED", "STUCK"]))
        assert {one.sequence for one in find_differences(HISTORY, no_retry)} == {2, 4}

    def test_another_sentence_is_no_other_way(self) -> None:
        job = Recorder()
        job.answer("no exit command here")
        entry = job.entries[-1]
        assert entry.after.stuck is not None
        reworded = entry.after.stuck.model_copy(update={"reason": "worded as an earlier version did"})
        older = entry.model_copy(update={"after": entry.after.model_copy(update={"stuck": reworded})})
        assert list(find_differences([job.entries[0], older], SCHEMA)) == []

    @pytest.mark.parametrize(
        "change", [{"kind": StuckKind.SHARE}, {"role": "Somebody"}, {"phase": Phase.REVIEWER}]
    )
    def test_who_got_stuck_and_why_is(self, change: dict[str, Any]) -> None:
        job = Recorder()
        job.answer("no exit command here")
        entry = job.entries[-1]
        assert entry.after.stuck is not None
        other = entry.after.model_copy(update={"stuck": entry.after.stuck.model_copy(update=change)})
        found = list(find_differences([job.entries[0], entry.model_copy(update={"after": other})], SCHEMA))
        assert [(one.sequence, one.field) for one in found] == [(2, "after")]


OFFLINE = """
import json, sys
from logist.core.model import Interaction
from logist.core.replay.replay import find_differences

schema, *histories = json.loads(sys.stdin.read())
for history in histories:  # the first time round, jsonschema loads what it needs
    entries = [Interaction.model_validate(entry) for entry in history]
    touched = []
    watching = True
    sys.addaudithook(lambda event, args: touched.append(event) if watching else None)
    found = len(list(find_differences(entries, schema)))
    watching = False
    print(json.dumps([found, touched]))
"""


def test_it_touches_no_file_process_or_network() -> None:
    history = [entry.model_dump(mode="json", exclude_none=True) for entry in HISTORY]
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE],
        input=json.dumps([SCHEMA, history, history]),
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [found for found, _ in runs] == [0, 0]
    # marshal.dumps only returns bytes; marshal.dump into a file has the same event, but also that of `open`.
    # A class with several instances gets a compiled __init__, from a text in memory.
    pure = {
        "compile",
        "exec",
        "sys.addaudithook",
        "object.__getattr__",
        "object.__setattr__",
        "builtins.id",
        "marshal.dumps",
    }
    assert set(runs[1][1]) <= pure


@pytest.mark.parametrize("field", ["evidence_files", "summary_for_supervisor", "output", "metadata"])
def test_what_was_read_from_the_answer_is_compared(field: str) -> None:
    other_value: dict[str, object] = {
        "evidence_files": ["another.txt"],
        "summary_for_supervisor": "Something else.",
        "output": {"n": 2},
        "metadata": {"n": 2},
    }
    found = first(changed(3, **{f"response__{field}": other_value[field]}))
    assert (found.sequence, found.field) == (3, f"response.{field}")


def test_a_limit_that_was_not_reached_is_found() -> None:
    found = first(changed(12, command={"limit": "HALTED_COST", "needed": 1}))
    assert (found.sequence, found.field, found.today) == (12, "state_after", "REVIEW_REQUIRED")
