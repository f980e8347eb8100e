"""How text goes to a terminal or a pipe."""

from __future__ import annotations

import json
import os
import re
import select
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import ClassVar

import pytest

from logist.cli.show import glance, pasting, render
from logist.cli.show.output import Command, Output, Screen, StreamedRows, StyledText, TextTable
from logist.config.environment import Environment
from logist.core.machine import advice
from logist.core.model import Status
from logist.core.money import amounts
from logist.core.text.columns import count_columns


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Größe 漢字 👍", "Größe 漢字 👍"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("a\x07b\x00c\x7fd\x9be", "abcde"),
        ("\u202eright\u200bto\ufeffleft", "righttoleft"),
        ("lone \udcff surrogate", "lone  surrogate"),
        ("tabs\tand\nlines", "tabs\tand\nlines"),
        ("back\rover", "backover"),
        ("a key: sk-\u200b" + "aB3dE5fG7hI9jK1l\u00adM2nO4pQ6", "a key: [redacted]"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert render.clean_for_terminal(text) == shown


def test_styles_only_where_wanted() -> None:
    line = (StyledText("bad", "red bold"), " and ", StyledText("good"))
    assert render.style_line(line, False) == "bad and good"
    assert render.style_line(line, True) == "\x1b[31m\x1b[1mbad\x1b[0m and good"


def test_a_styled_text_is_a_line_too() -> None:
    line = StyledText("to verify: logist job verify --job j", "dim")
    assert render.style_line(line, False) == line.text
    assert render.style_line(render.cut_line(line, Screen(9, False, True)), False) == "to verif…"
    lines = pasting.add_jobs_dir_to_output(Output({}, [Command("logist gc", "dim")]), "d").lines
    assert [render.style_line(each, False) for each in lines] == ["logist gc --jobs-dir d"]


def test_every_status_has_a_command_and_most_a_colour() -> None:
    assert set(advice.STATUSES) == set(Status)
    for status in Status:
        assert advice.next_command(status, job="j").startswith("logist job ")
    assert set(glance.COLORS) <= set(glance.STATUSES)
    assert glance.status_span("PENDING").style == "cyan"


@pytest.mark.parametrize(
    ("microcents", "shown"),
    [
        (0, "$0.00"),
        (1, "<$0.0001"),
        (9_999, "<$0.0001"),
        (10_000, "$0.0001"),
        (14_999, "$0.0001"),
        (15_000, "$0.0002"),
        (100_000_000, "$1.00"),
        (123_456_789_012, "$1,234.5679"),
        (-250_000_000, "-$2.50"),
        (99_999_999, "$1.00"),
    ],
)
def test_dollars(microcents: int, shown: str) -> None:
    assert amounts.format_money(microcents) == shown


@pytest.mark.parametrize("width", [100, 60, 40, 20, 5])
def test_no_row_of_a_table_is_wider_than_the_terminal(width: int) -> None:
    cells = ("fix-login", "漢字" * 10, "middle", "x" * 30, "\x1b[31m\x1b[2J" + "y" * 50)
    table = TextTable(("ID", "A", "B", "C", "LAST"), [cells], ("C", "A"), [StyledText("z" * 200, "dim")])
    for screen in (Screen(width, False, True), Screen(width, True, True)):
        lines = [str(line[0]) for line in render.draw_table(table, screen)]
        assert len(lines) == 3
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
        assert max(map(count_columns, plain)) <= max(width, 20)
        if width >= 40:
            assert plain[1].startswith("fix-login")
        assert "\x1b[2J" not in lines[1]
    head = plain[0].split()
    assert ("C" in head, "A" in head) == (False, width == 100)


def test_a_line_is_cut_across_its_spans() -> None:
    line = (StyledText("one two", "red"), " three", StyledText(" four", "dim"))
    assert render.style_line(render.cut_line(line, Screen(10, False, True)), False) == "one two t…"
    assert render.style_line(render.cut_line(line, Screen(100, False, True)), False) == "one two three four"


class Row(dict[str, int]):
    """A row that knows how many others are in memory."""

    alive: ClassVar[weakref.WeakSet[Row]] = weakref.WeakSet()
    __hash__ = object.__hash__  # type: ignore[assignment]


def test_streamed_rows_are_never_in_memory_together(capsys: pytest.CaptureFixture[str]) -> None:
    most = 0

    def read() -> Iterator[Row]:
        nonlocal most
        for number in range(100):
            row = Row(number=number)
            Row.alive.add(row)
            most = max(most, len(Row.alive))
            yield row

    for mode in ("json", "jsonl"):
        render.show_output(Output(StreamedRows(read)), mode, Environment({}))
    assert most < 5
    document, *lines = capsys.readouterr().out.splitlines()
    assert json.loads(document)["data"] == [json.loads(line) for line in lines] == list(read())


class Typed:
    """Standard input at which a person enters one line after a while."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.here, self.person = os.pipe()

    def fileno(self) -> int:
        return self.here

    def readline(self) -> str:
        assert select.select([self.here], [], [], 0)[0], "a Ctrl-C just before this read would wait for Enter"
        return self.line


def test_an_answer_is_read_once_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = Typed(" acme \n")
    monkeypatch.setattr(sys, "stdin", typed)
    person = threading.Timer(0.3, os.write, (typed.person, b"\n"))
    person.start()
    assert render.ask_for_text("Provider") == "acme"
    person.join()
