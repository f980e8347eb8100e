"""How many columns of a terminal a text needs, and texts that are cut or filled up to fit."""

from __future__ import annotations

import pytest

from logist.core.text.columns import count_columns, pad_to_columns, shorten_to_columns, to_one_line


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("abc", 3),
        ("", 0),
        ("设计", 4),
        ("e\u0301", 1),
        ("ｗ", 2),
        ("👩", 2),
        ("a\u200bb", 2),
        ("한글", 4),
        ("⚠\ufe0f", 2),
        ("⌚\ufe0f", 2),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", 4),
    ],
)
def test_columns(text: str, width: int) -> None:
    assert count_columns(text) == width


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("设计系统", 6, "设计…"),
        ("设计系统", 5, "设计…"),
        ("a b", 2, "a…"),
        ("ab", 1, "…"),
        ("ab", 0, ""),
        ("e\u0301e\u0301", 1, "…"),
    ],
)
def test_shortened(text: str, width: int, expected: str) -> None:
    assert shorten_to_columns(text, width) == expected


def test_a_text_becomes_one_line() -> None:
    assert to_one_line(" a<br/>b\n\tc\x1b[0m \u202ed ") == "a b c[0m d"
    assert to_one_line("ä→b", unicode=False) == "\\xe4\\u2192b"


def test_padding_counts_columns() -> None:
    assert pad_to_columns("设计", 6) == "设计  "
    assert pad_to_columns("设计", 3) == "设计"
