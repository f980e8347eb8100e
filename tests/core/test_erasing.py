"""Replacing values in texts and JSON: nothing of them stays, in no spelling, and everything else does."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.secrets.erasing import Eraser, find_free_name
from logist.core.secrets.spellings import list_forms
from tests import support

VALUE = 'p/ä"s\n wörd'
CHARACTERS = st.characters(codec="utf-8", exclude_characters="[]redact")
VALUES = st.text(CHARACTERS, min_size=6, max_size=20).filter(lambda value: value.strip() == value)


def spellings(value: str) -> list[str]:
    data = value.encode()
    return [
        value,
        json.dumps(value)[1:-1],
        json.dumps(json.dumps(value)),
        quote(value, safe=""),
        base64.b64encode(b"12" + data + b"3").decode(),
        base64.urlsafe_b64encode(data).decode(),
        data.hex(),
    ]


@pytest.mark.parametrize("spelled", spellings(VALUE))
def test_each_spelling_is_replaced(spelled: str) -> None:
    replaced, count = Eraser((VALUE,)).replace(f"before {spelled} after")
    assert count == 1
    assert (replaced.startswith("before "), replaced.endswith(" after"), "[redacted]" in replaced) == (
        True,
    ) * 3


@settings(max_examples=support.examples(40), deadline=None)
@given(VALUES, st.lists(st.tuples(st.text(CHARACTERS, max_size=30), st.integers(0, 6)), max_size=6))
def test_nothing_of_the_value_is_left(value: str, pieces: list[tuple[str, int]]) -> None:
    text = "".join(before + spellings(value)[number] for before, number in pieces)
    eraser = Eraser((value,))
    replaced, count = eraser.replace(text)
    assert not any(form in replaced for form in list_forms(value))
    assert (count > 0) is bool(eraser.find(text))
    assert eraser.replace(replaced) == (replaced, 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(CHARACTERS, max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=support.examples(40), deadline=None)
@given(VALUES, JSON)
def test_json_stays_as_it_is_except_for_the_value(value: str, data: Any) -> None:
    wrapped = {"a": [data, value], value: {"b": f"x{value}y"}}
    replaced, count = Eraser((value,)).replace_json(wrapped)
    assert count >= 3
    assert not any(form in json.dumps(replaced) for form in list_forms(value))
    if not any(form in json.dumps(data) for form in list_forms(value)):
        assert replaced == {"a": [data, "[redacted]"], "[redacted]": {"b": "x[redacted]y"}}


def test_a_number_is_replaced_and_names_stay_different() -> None:
    assert Eraser(("123456",)).replace_json({"n": 1234567, "m": 12}) == ({"n": "[redacted]", "m": 12}, 1)
    assert Eraser(("alice1", "bobby2")).replace_json({"alice1": 1, "bobby2": 2})[0] == {
        "[redacted]": 1,
        "[redacted]-2": 2,
    }
    assert find_free_name("a", ["a", "a-2"]) == "a-3"


def test_marks_move_with_their_text() -> None:
    text, marks, count = Eraser(("secret!",)).replace_marked("ab secret! cd", [0, 3, 5, 10, 11, 13])
    assert (text, count) == ("ab [redacted] cd", 1)
    assert marks == [0, 3, 13, 13, 14, 16]


def test_what_forms_the_value_again_is_replaced_too() -> None:
    eraser = Eraser(("]abcde",))
    replaced, count = eraser.replace("]abcdeabcde")
    assert (eraser.find(replaced), count) == ([], 2)


@pytest.mark.parametrize("size", [1, 1000, 65_536])
def test_a_long_text_in_blocks_is_replaced_as_a_whole(size: int) -> None:
    text = "".join(
        f"{number} {spelled} \\u00e4" for number in range(8000) for spelled in spellings(VALUE)[:2]
    )
    eraser, counted = Eraser((VALUE,)), list[int]()
    blocks = (text[start : start + size] for start in range(0, len(text), size))
    if size == 1:
        text = text[:300]
    replaced = "".join(eraser.replace_blocks(blocks if size > 1 else iter(text), counted))
    assert replaced == eraser.replace(text)[0]
    assert sum(counted) == eraser.replace(text)[1]


def test_memory_does_not_grow_with_the_text() -> None:
    def blocks() -> Iterator[str]:
        for _ in range(100):
            yield f"line of text with {VALUE} in it\n" * 4000

    eraser = Eraser((VALUE,))
    tracemalloc.start()
    for _ in eraser.replace_blocks(blocks(), []):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000
