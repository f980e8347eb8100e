"""The rows of a diff: every line of the patch is in one, on its side, in its order, and as text."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.web.changes_query import ChangesQuery
from logist.web.diff_view import DiffCell, DiffOptions, FileView, LineKey, build_diff, parse_line_key
from logist.web.job_view import Changes
from logist.workspace.comparison import FileDifference
from tests.support import examples

TEXTS = st.sampled_from(
    ["", "a", "a b c", "a bb c", "<b>", "x_1 = f(x_1)", "x_2 = f(x_1)", "\u202e", "\tdeep &amp;"]
)
LINES = st.lists(st.tuples(st.sampled_from(" +-"), TEXTS), min_size=1, max_size=30)


def view(lines: list[tuple[str, str]], per_file: int = 1000, per_page: int = 1000) -> FileView | None:
    body = "".join(f"{sign}{text}\n" for sign, text in lines)
    patch = f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n{body}".encode()
    file = FileDifference("x", "modified", None, 1, 1, "100644", "100644")
    changes = Changes([file], None, before="old", after="workspace", patch=patch)
    files = build_diff(changes, DiffOptions(per_file, per_page)).files
    return files[0] if files else None


def read(cell: DiffCell) -> tuple[int, str, str]:
    shown = re.sub(
        r'<span class="hidden">U\+([0-9A-F]{4})</span>', lambda run: chr(int(run[1], 16)), cell.text
    )
    return cell.number, cell.sign, unescape(re.sub("</?(ins|del)>", "", shown))


@settings(max_examples=examples(200), deadline=None)
@given(LINES)
def test_each_side_has_its_lines_in_order(lines: list[tuple[str, str]]) -> None:
    file = view(lines)
    assert file is not None
    rows = [row for hunk in file.hunks for block in hunk.blocks for row in block]
    old = [(sign, text) for sign, text in lines if sign != "+"]
    new = [(sign, text) for sign, text in lines if sign != "-"]
    assert [read(row.old) for row in rows if row.old] == [(n, *line) for n, line in enumerate(old, 1)]
    assert [read(row.new) for row in rows if row.new] == [(n, *line) for n, line in enumerate(new, 1)]
    for row in rows:
        signs = {cell.sign for cell in (row.old, row.new) if cell}
        assert (signs == {" "}) == row.is_same
    marks = "".join(cell.text for row in rows for cell in (row.old, row.new) if cell)
    assert set(re.findall("<[^>]*>", marks)) <= {
        "<del>",
        "</del>",
        "<ins>",
        "</ins>",
        '<span class="hidden">',
        "</span>",
    }


@pytest.mark.parametrize(
    ("per_file", "per_page", "shown"), [(5, 100, 5), (100, 7, 7), (100, 100, 20), (100, 0, None)]
)
def test_limits(per_file: int, per_page: int, shown: int | None) -> None:
    file = view([("+", "line")] * 20, per_file, per_page)
    if shown is None:
        assert file is None
    else:
        assert file is not None
        assert sum(len(block) for hunk in file.hunks for block in hunk.blocks) == shown
        assert file.left_out == 20 - shown


def test_the_words_that_differ_are_marked() -> None:
    file = view(
        [("-", "total = price * 3"), ("+", "total = amount * 3"), (" ", ""), ("-", "one"), ("+", "other")]
    )
    assert file is not None
    cells = [(row.old, row.new) for hunk in file.hunks for block in hunk.blocks for row in block]
    texts = [(old and str(old.text), new and str(new.text)) for old, new in cells]
    assert texts[0] == ("total = <del>price</del> * 3", "total = <ins>amount</ins> * 3")
    assert texts[2] == ("one", "other")


@given(st.text(min_size=1), st.booleans(), st.integers(1, 10**9 - 1))
def test_a_line_key_is_read_as_it_was_written(path: str, is_old: bool, number: int) -> None:
    key = LineKey(path, is_old, number)
    assert parse_line_key(str(key)) == key


@pytest.mark.parametrize(
    "text", ["", ":", "a", "a:", ":1", "a:0", "a:--1", "a:1x", "a:\u0661", f"a:{10**10}"]
)
def test_what_is_no_line_key(text: str) -> None:
    assert parse_line_key(text) is None


@pytest.mark.parametrize(
    ("query", "command"),
    [
        (ChangesQuery(), "logist job diff --job j"),
        (ChangesQuery(since="review", path="a b"), "logist job diff --job j --since review --path 'a b'"),
        (ChangesQuery(first="0", last="3"), "logist job diff --job j 0..3"),
        (ChangesQuery(first="2"), "logist job diff --job j 2.."),
    ],
)
def test_the_command_for_the_same_changes(query: ChangesQuery, command: str) -> None:
    assert query.build_command("j") == command
