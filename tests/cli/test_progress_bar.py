"""The bar while many histories are processed: how far it is, and how long it takes."""

from __future__ import annotations

import re

import pytest

from logist.cli.show.progress import ProgressBar
from tests.cli.desk import Desk


class Clock:
    """Seconds that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "left"), [(1.0, ""), (4.0, ", 12 s left"), (60.0, ", 3 min 00 s left"), (2.4, ", 7 s left")]
)
def test_the_time_left_is_estimated_from_what_is_done(seconds: float, left: str) -> None:
    clock = Clock()
    bar = ProgressBar(8, "job", clock)
    clock.now += seconds
    bar.count_history()
    bar.count_history()
    assert bar.describe() == f"[######..................] 2/8 jobs{left}"
    for _ in range(6):
        bar.count_history()
    assert bar.describe() == "[########################] 8/8 jobs"


def test_doctor_has_a_bar_on_a_terminal_alone(desk: Desk) -> None:
    for number in range(3):
        desk.create(f"j{number}")
    seen = desk.on_terminal("doctor", "--deep")
    assert re.search(r"\[#+\] 3/3 jobs *\r", seen)
    assert "/3 jobs" not in desk.process("doctor", "--deep").err
