"""Counts in messages agree with their noun."""

from __future__ import annotations

import pytest

from logist.core.text.counts import format_count


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "item", "0 items"),
        (1, "item", "1 item"),
        (2, "history", "2 histories"),
        (1, "history", "1 history"),
        (12_345, "byte", "12,345 bytes"),
    ],
)
def test_a_count_agrees_with_its_noun(number: int, noun: str, text: str) -> None:
    assert format_count(number, noun) == text
