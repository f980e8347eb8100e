"""What a replay found, in words: short where the values are long, and with what has changed since."""

from __future__ import annotations

import json

import pytest

from logist import __version__
from logist.core.model import Interaction, JsonObject
from logist.core.replay.difference import (
    ANSWER,
    LONGEST,
    SHOWN,
    Difference,
    build_difference,
    explain_cause,
    format_difference,
)
from logist.core.replay.drift_causes import schema_hash
from logist.core.replay.replay import find_differences
from tests.core.builders import SCHEMA, Recorder, command


def asked(metadata: JsonObject, *, text: str | None = None) -> list[Interaction]:
    """A job with one ask whose request has these metadata."""
    job = Recorder()
    job.answer(text)
    begin, ask = job.entries
    return [begin, ask.model_copy(update={"request": ask.request.model_copy(update={"metadata": metadata})})]


def shown(recorded: str, today: str) -> list[str]:
    """The lines of both values, without the head and the cause."""
    told = list(format_difference(Difference(3, "after", recorded, today, "why")))
    assert told[0] == "interaction 3: after"
    assert told[-1] == "  cause     why"
    return told[1:-1]


@pytest.mark.parametrize(
    ("recorded", "today", "expected"),
    [
        ("PENDING", "STUCK", ["  recorded  PENDING", "  today     STUCK"]),
        ("", "Done.", ['  recorded  ""', "  today     Done."]),
        (
            '{"status": "PENDING", "attempts": 2, "stuck": {"kind": "agent", "role": "A"}}',
            '{"status": "PENDING", "attempts": 1, "stuck": {"kind": "share", "role": "A"}, "step": "b"}',
            [
                "  recorded  attempts 2, stuck.kind agent, step none",
                "  today     attempts 1, stuck.kind share, step b",
            ],
        ),
        ("[1]", "[2]", ["  recorded  [1]", "  today     [2]"]),
        (
            "one\ntwo\nthree",
            "one\nzwei\nthree",
            [
                "  recorded  line 2:",
                "            two",
                "            three",
                "  today     line 2:",
                "            zwei",
                "            three",
            ],
        ),
        ("{" * 9, "{" * 8, ["  recorded  " + "{" * 9, "  today     " + "{" * 8]),
    ],
)
def test_both_values_one_below_the_other(recorded: str, today: str, expected: list[str]) -> None:
    assert shown(recorded, today) == expected


def test_long_values_are_shown_where_they_part() -> None:
    same = "word " * 1000
    recorded, today = shown(f"{same}left{same}", f"{same}right{same}")
    assert "left" in recorded
    assert "right" in today
    assert max(len(recorded), len(today)) < SHOWN + 60


def test_many_lines_are_cut() -> None:
    told = shown("\n".join("abcdefgh"), "\n".join("Xbcdefgh"))
    assert [line.strip() for line in told][4:6] == ["d", "..."]


def test_no_more_of_a_value_is_kept_than_is_of_use() -> None:
    (entry,) = Recorder().entries
    found = build_difference(
        entry, "response.output", {"n": "a" * 200_000 + "b"}, {"n": "a" * 200_000 + "c"}, "why"
    )
    assert len(found.recorded) < LONGEST + 40
    assert found.recorded.endswith('ab"}')
    assert found.today.endswith('ac"}')


class TestCause:
    @pytest.mark.parametrize(
        ("metadata", "since"),
        [
            ({}, ""),
            ({"schema": schema_hash(SCHEMA), "logist": __version__}, ""),
            (
                {"schema": "3f2a" * 16},
                f" (llm-chat-schema.json has changed: it was 3f2a3f2a, now it is {schema_hash(SCHEMA)[:8]})",
            ),
            (
                {"logist": "0.0.9", "schema": 7},
                f" (recorded by Logist 0.0.9, replayed by {__version__})",
            ),
        ],
    )
    def test_it_says_what_has_changed_since(self, metadata: JsonObject, since: str) -> None:
        _, entry = asked(metadata)
        assert explain_cause(entry, "response.actions", SCHEMA) == ANSWER + since
        assert (
            explain_cause(entry, "route", SCHEMA)
            == "the decisions of the workflow take other branches" + since
        )

    def test_all_that_follows_from_another_reading_of_the_answer_says_so(self) -> None:
        stricter = json.loads(json.dumps(SCHEMA))
        stricter["properties"]["response"]["properties"]["summary_for_supervisor"]["maxLength"] = 3
        history = asked({"schema": schema_hash(SCHEMA)}, text=command("RETRY", summary="Again."))
        found = list(find_differences(history, stricter))
        assert [each.field for each in found] == [
            *("state_after", "response.actions", "response.status"),
            "response.summary_for_supervisor",
        ]
        then, now = schema_hash(SCHEMA)[:8], schema_hash(stricter)[:8]
        changed = f"llm-chat-schema.json has changed: it was {then}, now it is {now}"
        then, now = schema_hash(SCHEMA)[:8], schema_hash(stricter)[:8]
        changed = f"llm-chat-schema.json has changed: it was {then}, now it is {now}"
        for each in found:
            assert each.cause.startswith(f"{ANSWER} ({changed}): ")
            assert each.cause.endswith(
                "invalid answer: `summary_for_supervisor` has 6 characters; at most 3 are allowed"
            )

    @pytest.mark.parametrize("field", ["state_after", "after"])
    def test_another_place_after_the_same_answer_is_the_state_machine(self, field: str) -> None:
        _, entry = asked({})
        assert explain_cause(entry, field, SCHEMA) == "the rules of the state machine lead to another state"


def test_values_are_json() -> None:
    (entry,) = Recorder().entries
    found = build_difference(entry, "response.metadata", None, {"ü": [True]}, "why")
    assert (found.recorded, found.today) == ("null", '{"ü": [true]}')
