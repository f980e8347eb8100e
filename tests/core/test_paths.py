"""Paths: what parses, what is found, and where a fault is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.text import paths
from logist.core.text.paths import MISSING, PathError, lookup, parse, path_to_text
from tests.support import examples

fuzz = settings(deadline=None, database=None, max_examples=examples(100))

PARSED: list[tuple[str, tuple[str | int, ...]]] = [
    ("a", ("a",)),
    ("a.b[0].c", ("a", "b", 0, "c")),
    (".Title", ("Title",)),
    (" output.files ", ("output", "files")),
    ("a[0][12]", ("a", 0, 12)),
    ("a[ 0 ]", ("a", 0)),
    ("a.0", ("a", "0")),
    ("pr-number.x--y", ("pr-number", "x--y")),
    ("größe.名前.हिन्दी", ("größe", "名前", "हिन्दी")),
    ('["quoted key"]', ("quoted key",)),
    ("a[\"b.c\"]['d[0]']", ("a", "b.c", "d[0]")),
    ('a["say \\"x\\" \\\\"]', ("a", 'say "x" \\')),
    ('a[""]', ("a", "")),
    ("$x.@id.#n_1", ("$x", "@id", "#n_1")),
    (".", ()),
    (".[0].a", (0, "a")),
    ('steps["phase 1.2"].output', ("steps", "phase 1.2", "output")),
]

FAULTS = [
    ("", 1, "empty"),
    ("  ", 1, "empty"),
    ("a..b", 2, "expected a name after `.`"),
    ("a.", 2, "expected a name after `.`"),
    ("a b", 2, "unexpected ` ` in a path"),
    ("a[-1]", 2, "a number from 0"),
    ("a[b]", 2, "a number from 0"),
    ("a[0", 2, "a number from 0"),
    ("a['b]", 2, "a number from 0"),
    ("a[9999999999]", 2, "a number from 0"),
    ("-a", 1, "unexpected `-` in a path"),
    ("a-", 2, "unexpected `-` in a path"),
    ("a()", 2, "unexpected `(` in a path"),
    ("[0]", 1, "a number from 0"),
    ("a." * 600, 1, "too long"),
]

DATA: dict[str, Any] = {
    "a": {"b": [{"c": 1}, [2, 3]], "0": "zero", "length": "mine", "": "empty", "x.y": 5},
    "list": ["p", "q"],
    "tuple": ("t",),
    "text": "größe",
    "emoji": "\U0001f600!",
    "object": {"k": 1, "l": 2},
    "null": None,
    "number": 7,
}

FOUND = [
    ("a.b[0].c", 1),
    ("a.b.0.c", 1),
    ("a.b[1][1]", 3),
    ("a[0]", "zero"),
    ('a["x.y"]', 5),
    ('a[""]', "empty"),
    ("list.length", 2),
    ("tuple[0]", "t"),
    ("text.length", 5),
    ("emoji.length", 3),
    ("object.length", MISSING),
    ("a.length", "mine"),
    ("null", None),
    ("list[2]", MISSING),
    ("list.p", MISSING),
    ("text[0]", MISSING),
    ("null.x", MISSING),
    ("number.length", MISSING),
    ("a.x.y", MISSING),
    ("a.keys", MISSING),
    ("text.__class__", MISSING),
    ("list.append", MISSING),
    (".", DATA),
]


@pytest.mark.parametrize(("text", "parts"), PARSED)
def test_a_path_is_its_keys_and_indices(text: str, parts: tuple[str | int, ...]) -> None:
    assert parse(text) == parts
    assert parse(path_to_text(parts)) == parts


@pytest.mark.parametrize(("text", "column", "message"), FAULTS)
def test_a_fault_names_its_column(text: str, column: int, message: str) -> None:
    with pytest.raises(PathError, match=re.escape(message)) as caught:
        parse(text)
    assert caught.value.column == column


@pytest.mark.parametrize(("path", "value"), FOUND)
def test_only_keys_and_indices_are_followed(path: str, value: object) -> None:
    assert lookup(DATA, path) == value
    assert lookup(DATA, parse(path)) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab01"), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.lists(st.sampled_from(["a", "b", "0", "length", 0, 1]), min_size=1, max_size=4)


def naive(data: Any, parts: list[str | int]) -> Any:
    """The rule said once more, with exceptions."""
    for part in parts:
        try:
            data = data[str(part)] if isinstance(data, dict) else items(data)[int(part)]
        except (LookupError, ValueError):
            if part != "length" or not isinstance(data, str | list):
                return MISSING
            data = len(data) if isinstance(data, list) else sum(1 + (letter > "\uffff") for letter in data)
    return data


def items(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


@fuzz
@given(JSON, PARTS)
def test_lookups_agree_with_the_naive_rule(data: Any, parts: list[str | int]) -> None:
    assert lookup(data, tuple(parts)) == naive(data, parts)


@fuzz
@given(st.lists(st.text(max_size=4) | st.integers(0, 99), min_size=1, max_size=4))
def test_a_written_path_reads_back(parts: list[str | int]) -> None:
    assert parse(path_to_text(tuple(parts))) == tuple(parts)


@pytest.mark.parametrize(
    ("value", "text"),
    [([1, "ü"], '[1, "ü"]'), ("x" * 500, '"' + "x" * 199 + "..."), (object(), "(object)"), (None, "null")],
)
def test_a_value_is_shown_on_one_short_line(value: object, text: str) -> None:
    assert paths.format_value(value) == text
