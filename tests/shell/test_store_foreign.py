"""Histories that Logist did not write: a list, or an object with one, read an entry at a time."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.errors import Damaged
from logist.store import foreign
from logist.store.entries import format_header
from tests.support import examples


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "h.json"


@pytest.mark.parametrize(
    ("text", "found", "beside"),
    [
        ("[]", [], {}),
        (' \n[{"a": 1},\n {"b": [2, {"c": "é"}]}]\n', [{"a": 1}, {"b": [2, {"c": "é"}]}], {}),
        ('\ufeff[{"a": 1}]', [{"a": 1}], {}),
        ('{"interactions": []}', [], {}),
        (
            '{"title": "T", "n": [1], "interactions": [{"a": 1}], "z": {"interactions": [{}]}}',
            [{"a": 1}],
            {"title": "T", "n": [1]},
        ),
        ('{"interactions": 3, "interactions": [{"a": 1e3}]}', [{"a": 1000.0}], {}),
    ],
)
def test_the_shapes_that_are_read(file: Path, text: str, found: list[object], beside: object) -> None:
    file.write_text(text, "utf-8")
    assert foreign.is_foreign(file)
    assert list(foreign.read_foreign_entries(file)) == found
    assert foreign.read_leading_members(file) == beside


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "missing list `interactions`"),
        ('{"interactions": {"a": 1}}', "missing list `interactions`"),
        ('{"interactions": [], "interactions": []}', "duplicate `interactions`"),
        ('[{"a": 1}, 2]', "entry 2 is not a JSON object"),
        ('[{"a": 1}', "expected `,` or `]` after entry 1, got the end of the file"),
        ('[{"a": 1}, ', "entry 2 is not valid JSON: Expecting value"),
        ('[{"a": 1}, {"b": "cut o', "entry 2 is not valid JSON: Unterminated string"),
        ('[{"a": 1} {"b": 2}]', r"expected `,` or `\]` after entry 1, got '{' \(character 11\)"),
        ('[{"a": 1}] more', "'m' after the end"),
        ('{"a" 1}', r"expected `:`, got '1'"),
        ("{1: 2}", "expected a name, got '1'"),
        ('[{"a": NaN}]', "NaN is not valid JSON"),
        ('[{"a": -1e999}]', "the number -1e999 is too large"),
        ('[{"a": ' + "9" * 5000 + "}]", "entry 1 contains an invalid number"),
        ("[" * 100_000, "entry 1 is nested too deeply"),
        ('{"a":' * 100_000, "`a` is nested too deeply"),
    ],
)
def test_what_is_no_history_is_told_with_its_place(file: Path, text: str, said: str) -> None:
    file.write_text(text, "utf-8")
    with pytest.raises(Damaged, match=said) as raised:
        list(foreign.read_foreign_entries(file))
    assert raised.value.where == str(file)


@pytest.mark.parametrize("cut", range(5))
def test_a_number_that_the_end_of_what_was_read_cuts_is_whole(file: Path, cut: int) -> None:
    begin = '{"text": "", "n": '
    file.write_text(
        begin.replace('""', f'"{"x" * ((1 << 16) - len(begin) - cut)}"') + '1.5e3, "interactions": [{}]}'
    )
    assert foreign.read_leading_members(file)["n"] == 1500.0
    assert list(foreign.read_foreign_entries(file)) == [{}]


def test_bytes_that_are_no_text(file: Path) -> None:
    file.write_bytes(b'[{"a": "\xff"}]')
    with pytest.raises(Damaged, match="not valid UTF-8"):
        list(foreign.read_foreign_entries(file))


@pytest.mark.parametrize(
    "begin",
    [
        format_header(),
        format_header()[:30],
        b'{"version":1,"seg',
        b'{"version":"',
        b"",
        b"\0\0\0",
        b"\x1f\x8b",
        b"x",
    ],
)
def test_a_history_of_ours_is_ours_however_damaged(file: Path, begin: bytes) -> None:
    file.write_bytes(begin)
    assert not foreign.is_foreign(file)


def test_a_byte_that_was_changed_makes_no_other_shape_of_it(file: Path) -> None:
    whole = format_header() + b'{"sequence":1}\n]}\n'
    for place in range(len(format_header())):
        for byte in (b"[", b"{", b" ", bytes([whole[place] ^ 1])):
            file.write_bytes(whole[:place] + byte + whole[place + 1 :])
            assert not foreign.is_foreign(file), (place, byte)


def test_the_same_on_one_line_is_one(file: Path) -> None:
    compact = json.dumps(
        {**json.loads(format_header() + b"]}"), "interactions": [{"a": 1}]}, separators=(",", ":")
    )
    file.write_text(compact, "utf-8")
    assert foreign.is_foreign(file)
    assert list(foreign.read_foreign_entries(file)) == [{"a": 1}]


def test_what_is_no_file_holds_nobody_up(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(Damaged, match="not a regular file"):
        foreign.is_foreign(file)
    with pytest.raises(Damaged, match="not a regular file"):
        list(foreign.read_foreign_entries(file))


def test_a_long_history_takes_no_more_memory_than_a_short_one(file: Path) -> None:
    with open(file, "w", encoding="utf-8") as out:
        out.write("[" + ",\n".join(json.dumps({"n": n, "text": "x" * 10_000}) for n in range(500)) + "]")
    tracemalloc.start()
    try:
        assert sum(1 for _ in foreign.read_foreign_entries(file)) == 500
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_an_entry_without_an_end_is_given_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "LONGEST", 1 << 20)
    file.write_text('[{"a": "' + "x" * (8 << 20), "utf-8")
    with pytest.raises(Damaged, match="entry 1 is longer than 1 million characters, or its end is missing"):
        list(foreign.read_foreign_entries(file))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=examples(50))
@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=5), st.booleans(), st.integers(1, 9))
def test_it_reads_what_any_reader_reads(
    tmp_path_factory: pytest.TempPathFactory, entries: list[object], ascii_only: bool, chunk: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "property.json"
    text = json.dumps({"interactions": entries}, ensure_ascii=ascii_only, indent=1 if chunk > 5 else None)
    file.write_bytes(text.encode("utf-8", "backslashreplace" if ascii_only else "surrogatepass"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(foreign, "_CHUNK", chunk)
        assert list(foreign.read_foreign_entries(file)) == entries
