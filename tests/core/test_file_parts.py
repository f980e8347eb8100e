"""Parts of large files: what matches is shown with its real line numbers, and the rest is an outline."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.core.relevance import Task, file_parts
from logist.core.relevance.file_parts import Matches, show_file
from logist.core.relevance.mentions import find_lines
from logist.core.relevance.outline import list_definitions
from logist.core.relevance.words import find_keywords
from logist.core.secrets.redact import redact

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END PRIVATE KEY-----"


def matches(title: str, *lines: int) -> Matches:
    return Matches(find_keywords(Task(title)), lines)


def get_lines(shown: str) -> dict[int, str]:
    """The lines that are shown, by number."""
    found = re.findall(r"^ *(\d+)(?:  (.*))?$", shown, re.MULTILINE)
    return {int(number): text for number, text in found}


PYTHON = """\
import os


class Lexer:
    def read(self):
        for token in self.tokens:
            yield token


class Parser:
    limit = 3

    @property
    def depth(self) -> int:
        \"\"\"How deep
        it is.
        \"\"\"
        return self.limit

    async def parse(
        self,
        text: str,
    ) -> list[str]:
        while text:
            text = self.step(text)
        return []


def main():
    pass
"""
JAVASCRIPT = """\
var slice = require('slice')

app.handle = function handle(req, res) {
  var done = res.done
  if (done) {
    next(done)
  }
}

export class Router extends Base {
  async parse(text) {
    const parts = text.split('/')
    for (const part of parts) {
      this.push(part)
    }
  }
}

export const join = (left, right) => {
  return left + right
}
"""
GO = """\
package engine

type Engine struct {
\tname string
}

func (e *Engine) Parse(text string) error {
\tvar count int
\tfor count < 3 {
\t\tcount++
\t}
\treturn nil
}

func main() {
}
"""
RUST = """\
use std::io;

pub struct Engine<T> {
    name: T,
}

impl<T: Clone> Engine<T> {
    pub(crate) fn parse(
        &self,
    ) -> io::Result<()> {
        let count = 3;
        for _ in 0..count {}
        Ok(())
    }
}

impl<'a, T> io::Read for &'a Engine<T> {}

macro_rules! log {
    () => {};
}
"""
RUBY = """\
module Shop
  class Engine < Base
    LIMIT = 3

    # Reads it.
    def parse(text)
      text.each do |word|
        push(word)
      end
    rescue Error
      nil
    end

    def self.build
      new
    end
  end
end
"""
JAVA = """\
package shop;

public final class Engine extends Base {
  private int count = 0;

  @Override
  public List<String> parse(String text) throws Error {
    for (String word : text.split(",")) {
      count++;
    }
    return null;
  }

  static void main(String[] args) {}
}
"""
C = """\
#include <stdio.h>

#define LARGEST(a, b) \\
    ((a) > (b) ? (a) : (b))

struct engine {
    int count;
};

int parse(const char *text);

static int *parse(const char *text,
                  int size)
{
    int count = 0;
#ifdef LOUD
    puts(text);
#endif
    while (count < size) {
        count++;
    }
    return 0;
}

void Engine::run() {
    parse("", 0);
}
"""
OUTLINES = {
    "python": (PYTHON, "... 4 Lexer (5 read), 10 Parser (14 depth, 20 parse), 29 main"),
    "javascript": (JAVASCRIPT, "... 3 handle, 10 Router (11 parse), 19 join"),
    "go": (GO, "... 3 Engine, 7 Parse, 15 main"),
    "rust": (RUST, "... 3 Engine, 7 Engine (8 parse), 17 Engine, 19 log"),
    "ruby": (RUBY, "... 1 Shop (2 Engine (6 parse, 14 build))"),
    "java": (JAVA, "... 3 Engine (7 parse, 14 main)"),
    "c": (C, "... 3 LARGEST, 6 engine, 12 parse, 25 Engine::run"),
}
PARSERS = {
    "python": range(20, 27),
    "javascript": range(11, 17),
    "go": range(7, 14),
    "rust": range(8, 15),
    "ruby": range(5, 13),
    "java": range(6, 13),
    "c": range(12, 24),
}


@pytest.mark.parametrize("language", OUTLINES)
def test_what_does_not_match_is_an_outline(language: str) -> None:
    text, outline = OUTLINES[language]
    assert show_file(text, Matches(), 4_000).text == outline


@pytest.mark.parametrize("language", PARSERS)
def test_a_definition_whose_name_matches_is_shown_whole(language: str) -> None:
    text, numbers = OUTLINES[language][0], PARSERS[language]
    shown = get_lines(show_file(text, matches("Parse it"), 4_000).text)
    assert set(numbers) <= set(shown)
    assert len(shown) < len(text.split("\n")) - 1


def find_extents(text: str) -> dict[str, tuple[int, int]]:
    """The first and the last line of each definition; they count from 1."""
    lines = text.split("\n")
    starts = [0, *itertools.accumulate(len(line.encode()) + 1 for line in lines)][:-1]
    found = list_definitions(text.encode(), lines, starts, headings=False)
    return {each.name: (each.first + 1, each.last + 1) for each in found}


def test_a_definition_ends_before_the_next_line_that_is_indented_less() -> None:
    assert find_extents(C)["parse"] == (12, 23)
    assert find_extents(PYTHON)["parse"] == (20, 26)
    assert find_extents(RUBY)["parse"] == (6, 12)


def test_sentences_are_no_definitions() -> None:
    prose = "type names.\nclass names of things\nmodule imports to read"
    code = "class Lexer with Reader {\n}\ntrait Names: Reader {\n}\n"
    assert find_extents(f"{prose}\n{code}").keys() == {"Lexer", "Names"}


def test_the_numbers_are_those_of_the_file() -> None:
    text = "\n".join(f"def f{number}():\n    return {number}\n" for number in range(300)) + "\nrate = 1\n" * 2
    shown = show_file(text, matches("f77 and rate"), 4_000, headings=False)
    lines = get_lines(shown.text)
    assert shown.total == len(text.split("\n")) - 1
    assert len(lines) > 2
    assert all(text.split("\n")[number - 1] == line for number, line in lines.items())


def test_the_best_parts_come_first_if_there_is_little_room() -> None:
    body = "    x = 1\n" * 8
    text = "".join(
        f"def f{number}():\n{'    charge()' if number == 70 else '    other()'}\n{body}    retry()\n\n"
        for number in range(90)
    )
    task = matches("Charge only once at a retry")
    small, large = (get_lines(show_file(text, task, room).text) for room in (900, 9_000))
    assert "    charge()" in small.values()
    assert len(large) > len(small)


def test_a_definition_that_does_not_fit_is_shown_around_its_matches() -> None:
    text = "def long():\n" + "    step(1)\n" * 30 + "    charge(2)\n" + "    step(3)\n" * 30
    shown = get_lines(show_file(text, matches("Charge"), 250).text)
    assert shown[1] == "def long():"
    assert shown[32] == "    charge(2)"
    assert len(shown) < 12


def test_no_single_line_is_left_out_between_others() -> None:
    text = "def long():\n" + ("    charge(2)\n" + "    step(3)\n" * 10) * 30
    lines = sorted(get_lines(show_file(text, matches("Charge"), 12_000).text))
    assert len(lines) > 300
    assert {later - line for line, later in itertools.pairwise(lines)} == {1}


def test_a_line_that_the_task_names_comes_before_all_words() -> None:
    text = "def charge():\n    pass\n" * 50 + "x = 1\n" * 400
    shown = get_lines(show_file(text, matches("Charge", 333, 9_999), 300).text)
    assert 333 in shown
    assert get_lines(show_file(text, Matches((), (0, -1, 9_999)), 300).text) == {}


def test_nothing_matches_and_nothing_is_defined() -> None:
    lines = [f"{number} apples" for number in range(5_000)]
    shown = show_file("\n".join(lines), matches("Pears"), 4_000).text
    assert get_lines(shown) == dict(enumerate(lines[: file_parts.HEAD], 1))
    assert shown.endswith("\n...")


def test_the_license_at_the_top_does_not_match() -> None:
    text = "// Conditions of any kind.\n// More conditions.\n\npackage a\n" + "x()\n" * 50 + "condition()\n"
    assert 1 not in get_lines(show_file(text, matches("Conditions"), 900).text)
    assert 55 in get_lines(show_file(text, matches("Conditions"), 900).text)


def test_a_very_long_line_is_cut_with_a_mark_around_the_match() -> None:
    text = "var a=1;" * 5_000 + "charge();" + "var b=2;" * 5_000
    shown = show_file(text, matches("Charge"), 1_000).text
    assert "charge();" in shown
    assert shown.startswith("1  ... ")
    assert shown.endswith("... (80,009 characters)")
    assert len(shown) < 400


def define(name: str, *lines: str, length: int = 10) -> str:
    """A function of this many lines, some of them given."""
    filling = "    x = 1\n" * (length - 1 - len(lines))
    return "".join((f"def {name}():\n", *(f"    {line}\n" for line in lines), filling))


FIRST_SHOWN = [
    (
        "its name matches",
        define("other", "charge()", "y = 2") + define("charge", "y = 2", "y = 2"),
        "def charge():",
    ),
    (
        "it is short",
        define("long", "charge()", length=40) + define("short", "charge()", length=8),
        "def short():",
    ),
    (
        "it has both words",
        define("many", *["charge()"] * 8) + define("both", "charge()", "retry()"),
        "def both():",
    ),
    (
        "its word is rare in the file",
        define("many", *["charge()"] * 8) * 9 + define("one", "retry()"),
        "def one():",
    ),
]


@pytest.mark.parametrize(
    ("text", "first"), [row[1:] for row in FIRST_SHOWN], ids=[row[0] for row in FIRST_SHOWN]
)
def test_one_definition_comes_before_another_because(text: str, first: str) -> None:
    longest = max(len(part) for part in re.split("^(?=def)", text, flags=re.MULTILINE))
    room = longest + 4 * text.count("\n", 0, longest) + 60
    shown = get_lines(show_file(text, matches("Charge, retry"), room).text)
    start = next(number for number, line in shown.items() if line == first)
    assert {start + line for line in range(8)} <= set(shown)


def test_what_hardly_matches_is_left_out() -> None:
    words = "lexer token grammar syntax scanner symbol table macro pragma import export"
    text = define("best", *words.split(), length=14) + define("common", "module()") * 20
    shown = get_lines(show_file(text, matches(f"{words} module"), 9_000).text)
    assert "    grammar" in shown.values()
    assert "    module()" not in shown.values()


def test_a_small_method_is_shown_with_what_is_around_it() -> None:
    text = "class Payments:\n    rate = 1\n\n    def charge(self):\n        pass\n\n    def refund(self):\n        pass\n"
    assert list(get_lines(show_file(text + "x = 1\n" * 50, matches("Charge"), 4_000).text)) == [*range(1, 9)]


def test_of_a_very_long_definition_the_beginning_or_the_matches_are_shown() -> None:
    length = 160
    named = get_lines(show_file(define("charge", length=length), matches("Charge"), 9_000).text)
    assert list(named) == [*range(1, 2 + file_parts.HEAD)]
    text = define("long", *["x = 1"] * 40, "charge()", length=length)
    shown = get_lines(show_file(text, matches("Charge"), 9_000).text)
    assert shown[42] == "    charge()"
    assert len(shown) < 2 + file_parts.BEFORE + 1 + file_parts.AFTER


def test_matches_that_are_close_are_shown_together_and_others_apart() -> None:
    text = "x\n" * 9 + "charge\n" + "x\n" * 5 + "charge\n" + "x\n" * 19 + "charge\n" + "x\n" * 99
    shown = get_lines(show_file(text, matches("Charge"), 4_000).text)
    before, after = file_parts.BEFORE, file_parts.AFTER
    assert [*shown] == [*range(10 - before, 16 + after + 1), *range(36 - before, 36 + after + 1)]


def test_of_many_matches_as_many_are_shown_as_there_is_room_for() -> None:
    shown = show_file("charge\n" * 900, matches("Charge"), 4_000).text
    assert len(shown) > 3_000


def test_scraps_of_only_a_few_definitions_are_shown() -> None:
    text = "".join(define(f"f{number}", "charge()", length=70) for number in range(9))
    shown = get_lines(show_file(text, matches("Charge"), 900).text)
    assert list(shown.values()).count("    charge()") == file_parts.MOST_SHRUNK


def test_the_outline_has_its_part_of_the_room_and_no_more_than_it_needs() -> None:
    text = "".join(define(f"f{number}", "charge()", length=5) for number in range(300))
    names = re.findall(r" f\d+\b", show_file(text, matches("Charge"), 3_000).text.replace("def ", "def_"))
    assert len(names) > 3_000 // file_parts.OUTLINE_SHARE // 15
    many = "".join(f"def function_{number}():\n    pass\n" for number in range(2_000))
    assert len(show_file(many, Matches(), 60_000).text) <= file_parts.MAX_OUTLINE


def test_headings_are_the_outline_of_a_text() -> None:
    text = "# Shop\n\nWelcome.\n\n## Install\n\n```\n# not a heading\n```\n\n## Payments\n\nCharge once.\n\n## End\n"
    assert (
        show_file(text, Matches(), 900, headings=True).text == "... 1 Shop (5 Install, 11 Payments, 15 End)"
    )
    shown = get_lines(show_file(text, matches("Charge"), 900, headings=True).text)
    assert shown[11] == "## Payments"
    assert 7 not in shown


def test_an_outline_without_room_for_all_names_covers_the_whole_file() -> None:
    text = "".join(f"def function_{number}():\n    pass\n\n\n" for number in range(500))
    shown = show_file(text, Matches(), 1_000).text
    names = [int(name) for name in re.findall(r"function_(\d+)", shown)]
    assert len(names) > 20
    assert names[0] < 50
    assert names[-1] > 450


def test_a_room_that_is_too_small_shows_nothing() -> None:
    assert show_file(PYTHON, matches("Parse"), 3).text == ""
    assert show_file("", matches("Parse"), 900).text == ""


TEXTS = st.lists(
    st.sampled_from(
        [
            "def charge():",
            "  def log(self):",
            "    retry = 1",
            "}",
            "",
            "\t",
            "class É:",
            "x" * 700,
            "é" * 400,
            "\r",
            "# Retry",
            "  charge({",
            "end",
        ]
    ),
    max_size=60,
)


@given(TEXTS, st.integers(0, 2_000), st.booleans(), st.lists(st.integers(-2, 70), max_size=3))
def test_whatever_the_text_is_the_room_is_kept_and_the_lines_are_its_own(
    lines: list[str], room: int, headings: bool, named: list[int]
) -> None:
    task = Matches(find_keywords(Task("Charge once and log every retry")), named)
    shown = show_file("\n".join(lines), task, room, headings=headings)
    assert len(shown.text.encode()) <= room
    for number, line in get_lines(shown.text).items():
        own = lines[number - 1].rstrip()
        assert line == own or line.startswith((own[:300], "... "))


@pytest.mark.parametrize(
    "text",
    [
        "x" * 300_000,
        "charge " * 40_000,
        "charge\n" * 40_000,
        "\n" * 300_000,
        "class A:\n" + "  def log(self):\n    charge\n" * 10_000,
        ("  a(" + ")" * 400 + ";{\n") * 700,
        "\n".join(f"{' ' * (number % 300)}def log():" for number in range(2_000)),
    ],
    ids=["line", "words", "lines", "empty", "methods", "brackets", "deep"],
)
def test_hostile_files_end(text: str) -> None:
    assert len(show_file(text, matches("Charge and log"), 5_000).text) <= 5_000


def test_of_very_many_headings_the_first_are_enough() -> None:
    lines = ["# Log"] * 50_000
    found = list_definitions(b"", lines, [], headings=True)
    assert len(found) == 20_000
    assert found[-1].last == 49_999


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('File "/home/ada/shop/pay/charge.py", line 12, in charge', [12]),
        ("at pay/charge.py:12:5 and charge.py:9", [12, 9]),
        ("charge.py(12,5): error", [12]),
        ("See pay/charge.py#L12-L20", [12]),
        ("in C:\\shop\\pay\\charge.py:line 12", [12]),
        ("`pay/charge.py` line 12", [12]),
        ("./charge.py:12: in <module>", [12]),
        ("tests/charge.py:12 mycharge.py:13 charge.pyc:14 charge.py:x charge.py 15", []),
        ("charge.py:12 " * 3, [12]),
        ("a" * 150_000 + "/charge.py:12", []),
    ],
)
def test_the_lines_that_a_task_names(text: str, lines: list[int]) -> None:
    assert find_lines(Task("Crash", text), "src/pay/charge.py") == lines


def test_redacted_lines_keep_their_numbers() -> None:
    text = f"one = 1\n{KEY}\ntwo = 2\n"
    assert redact(text, ())[0] == "one = 1\n[redacted]\ntwo = 2\n"
    assert redact(text, (), keep_lines=True)[0].split("\n")[5] == "two = 2"
