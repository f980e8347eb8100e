"""The progress of an agent: small records in a file that nobody needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logist.store.progress import (
    LONGEST_TEXT,
    MOST_BYTES,
    NAME,
    Activity,
    ActivityRecord,
    ProgressReader,
    ProgressWriter,
    parse_record,
    read_last_record,
)


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def begin(folder: Path, clock: Clock | None = None) -> ProgressWriter:
    clock = clock or Clock()
    return ProgressWriter(folder, clock, clock)


def record(words: str = "", *, turn: int = 0, cost_microcents: int = 0) -> ActivityRecord:
    return ActivityRecord(
        Activity.ANSWERING, role="Worker", words=words, turn=turn, cost_microcents=cost_microcents
    )


def words_of(records: list[ActivityRecord]) -> list[str]:
    return [each.words for each in records]


def test_each_record_is_read_once(tmp_path: Path) -> None:
    clock = Clock()
    writer, reader = begin(tmp_path, clock), ProgressReader(tmp_path)
    assert reader.read_new() == []
    writer.write(record("one", turn=1))
    clock.seconds += 2.5
    writer.write(record("two", turn=2, cost_microcents=70_000))
    first, second = reader.read_new()
    assert (first.words, first.number, first.seconds, first.turn) == ("one", 1, 0.0, 1)
    assert (second.words, second.number, second.seconds, second.at) == ("two", 2, 2.5, 102.5)
    assert second.count_elapsed(110.0) == 10.0
    assert second.count_elapsed(3.0) == 2.5  # the clock was set back
    assert reader.read_new() == []
    assert read_last_record(tmp_path) == second


def test_the_file_is_small_and_a_reader_misses_no_new_record(tmp_path: Path) -> None:
    writer, reader = begin(tmp_path), ProgressReader(tmp_path)
    seen: list[str] = []
    for number in range(3000):
        writer.write(record(f"{number} " + "w" * 300))
        assert (tmp_path / NAME).stat().st_size <= MOST_BYTES
        seen += words_of(reader.read_new())
    assert [text.split()[0] for text in seen] == [str(number) for number in range(3000)]
    assert {len(text) for text in seen} == {LONGEST_TEXT}


def test_the_last_records_are_read_after_the_file_is_removed(tmp_path: Path) -> None:
    writer, reader = begin(tmp_path), ProgressReader(tmp_path)
    writer.write(record("one"))
    reader.read_new()
    writer.write(record("two"))
    (tmp_path / NAME).unlink()
    writer.write(record("three"))
    assert words_of(reader.read_new()) == ["two", "three"]
    begin(tmp_path).write(record("of the next courier"))
    assert words_of(reader.read_new()) == ["of the next courier"]
    reader.close()


def test_a_half_written_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path)
    (tmp_path / NAME).write_bytes(b'{"activity":"tool","number":1,"tool":"se')
    assert reader.read_new() == []
    assert read_last_record(tmp_path) is None
    with open(tmp_path / NAME, "ab") as file:
        file.write(b'arch"}\n')
    assert [each.tool for each in reader.read_new()] == ["search"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"activity":1}',
        b'{"turn":1}',
        b'{"activity":"tool","turn":-1}',
        b'{"activity":"tool","turn":true}',
        b'{"activity":"tool","turn":1e999}',
        b'{"activity":"tool","turn":NaN}',
        b'{"activity":"tool","words":[]}',
        b'{"activity":"tool","seconds":"1"}',
        b'{"activity":"tool","cost_microcents":' + b"9" * 5000 + b"}",
        b"[" * 100_000,
    ],
)
def test_a_damaged_line_is_skipped(tmp_path: Path, line: bytes) -> None:
    assert parse_record(line) is None
    (tmp_path / NAME).write_bytes(line + b'\n{"activity":"new","number":1,"later":1}\n' + line + b"\n")
    assert [each.activity for each in ProgressReader(tmp_path).read_new()] == ["new"]
    assert len(line) > 10_000 or read_last_record(tmp_path) is not None


def test_a_huge_file_is_read_at_its_end_only(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    os.truncate(tmp_path / NAME, 6 << 30)
    with open(tmp_path / NAME, "ab") as file:
        file.write(b'\n{"activity":"tool","number":1,"tool":"search"}\n')
    assert [each.tool for each in ProgressReader(tmp_path).read_new()] == ["search"]
    last = read_last_record(tmp_path)
    assert last is not None
    assert last.tool == "search"
    (tmp_path / NAME).unlink()  # sparse, but whoever looks through the directory would read it


def test_without_a_place_for_the_file_nothing_fails(tmp_path: Path) -> None:
    begin(tmp_path / "missing").write(record("one"))
    (tmp_path / NAME).mkdir()
    begin(tmp_path).write(record("one"))
    assert ProgressReader(tmp_path).read_new() == []
    assert read_last_record(tmp_path) is None
