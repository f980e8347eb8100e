"""How the bodies of the requests of a program are stored: each one without what an earlier one had already."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.agents.courier.request_texts import RequestTexts, restore_request_text
from logist.core.secrets.redact import redact

SECRET = "dummy-key-for-tests-0001"


def stored(bodies: list[str]) -> list[tuple[int, dict[str, object]]]:
    texts = RequestTexts(lambda text: redact(text, [SECRET]))
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


def test_a_secret_is_never_stored_also_if_it_is_only_completed_by_a_later_request() -> None:
    talk = "word " * 5000
    bodies = [
        talk,
        talk + SECRET[:12],
        talk + SECRET,
        talk + SECRET + " and more",
        talk + SECRET + " and more, again",
    ]
    records = stored(bodies)
    for k, _ in records[2:]:
        assert SECRET not in restore_request_text(records, k)
    assert all(SECRET not in str(record["text"]) for _, record in records)
    assert restore_request_text(records, 5) == f"{talk}[redacted] and more, again"
    assert all(len(str(record["text"])) < 100 for _, record in records[1:])


def test_what_is_searched_for_secrets_is_only_what_is_new() -> None:
    searched: list[int] = []

    def search(text: str) -> tuple[str, int]:
        searched.append(len(text))
        return text, 0

    texts = RequestTexts(search)
    for k, length in enumerate(itertools.accumulate([1_000_000, 100, 100]), 1):
        texts.shorten(k, "x" * length + "]}")
    assert searched[0] > 1_000_000
    assert max(searched[1:]) < 20_000
