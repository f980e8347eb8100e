"""How the bodies of the requests of a program are stored: each one without what an earlier one had already."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.agents.courier.request_texts import RequestTexts, restore_request_text


def stored(bodies: list[str]) -> list[tuple[int, dict[str, object]]]:
    texts = RequestTexts()
    return [(k, texts.shorten(k, body).to_json()) for k, body in enumerate(bodies, 1)]


@given(st.lists(st.text("ab{}", max_size=30).map(lambda text: text * 40), max_size=8))
def test_each_body_can_be_restored(bodies: list[str]) -> None:
    records = stored(bodies)
    assert [restore_request_text(records, k) for k, _ in records] == bodies


def test_a_long_conversation_takes_about_its_own_length() -> None:
    messages = [{"role": "user", "content": f"message {number} " + "x" * 1000} for number in range(300)]
    bodies = [json.dumps({"messages": messages[:count], "stream": True}) for count in range(1, 301)]
    size = len(json.dumps(stored(bodies)))
    assert size < 1.3 * len(bodies[-1])


def test_two_conversations_at_once_are_told_apart() -> None:
    one, other = "one " * 1000, "other " * 1000
    records = stored([one, other, one + "more", other + "more"])
    assert [record.get("like") for _, record in records] == [None, None, 1, 2]
    assert records[3][1]["text"] == "more"


@pytest.mark.parametrize("like", [2, 3, "1"])
def test_a_record_that_refers_to_itself_or_a_later_one_is_refused(like: object) -> None:
    records: list[tuple[int, dict[str, object]]] = [(2, {"text": "a", "like": like, "begin": 1, "end": 0})]
    with pytest.raises((ValueError, KeyError)):
        restore_request_text([*records, (1, {"text": "b"}), (3, {"text": "c", "like": 2})], 2)
