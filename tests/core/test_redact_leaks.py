"""Looking at a text in blocks finds the same as looking at it whole, each secret once and at its place."""

from __future__ import annotations

import pytest

from logist.core.secrets import leaks
from logist.core.secrets.leaks import Leak

SECRET = "hunter2-hunter2-hunter2"
FILL = "a line of forty characters, or about so\n"


@pytest.mark.parametrize("size", [1 << 12, 100_003, 1 << 17, 10_000_000])
def test_blocks_of_any_size(size: int) -> None:
    text = (
        f"{SECRET} ä\n"
        + FILL * 4_000
        + f"password={SECRET}\n"
        + FILL * 2_000
        + SECRET[:9]
        + "\n"
        + SECRET[9:]
    )
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    found = list(leaks.find_leaks(blocks, {SECRET: "it"}))
    last = len((text[: text.rindex(SECRET[:9])]).encode())
    assert found == [
        Leak(1, 0, "it", "hunt", 23),
        Leak(4_002, len(f"{SECRET} ä\n".encode()) + 4_000 * len(FILL) + 9, found[1].kind, "hunt", 23),
        Leak(6_003, last, "it", "hunt", 24),
    ]


@pytest.mark.parametrize("shift", range(-30, 31, 5))
def test_a_secret_on_a_seam(shift: int) -> None:
    text = "x" * (2 * leaks.CARRIED + shift) + f" {SECRET} " + "y" * leaks.CARRIED
    blocks = [text[: 2 * leaks.CARRIED], text[2 * leaks.CARRIED :]]
    assert [leak.offset for leak in leaks.find_leaks(blocks, {SECRET: "it"})] == [
        2 * leaks.CARRIED + shift + 1
    ]


def test_of_a_short_one_nothing_is_shown() -> None:
    assert [
        leak.shown for leak in leaks.find_leaks(["tiny-pass and " + SECRET], {"tiny-pass": "a", SECRET: "b"})
    ] == ["", "hunt"]


def test_nothing_is_nothing() -> None:
    assert list(leaks.find_leaks([], {SECRET: "it"})) == list(leaks.find_leaks([""], {})) == []
