"""The bar while many histories are processed: how far it is, and how long it takes."""

from __future__ import annotations

import pytest

from logist.cli.show.progress import ProgressBar


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
    bar = ProgressBar(8, "job", monotonic=clock)
    clock.now += seconds
    bar.count_history()
    bar.count_history()
    assert bar.describe() == f"[######..................] 2/8 jobs{left}"
    for _ in range(6):
        bar.count_history()
    assert bar.describe() == "[########################] 8/8 jobs"


def test_a_bar_may_appear_only_after_a_while() -> None:
    clock = Clock()
    bar = ProgressBar(3, "job", delay=1.0, monotonic=clock)
    bar.count_history()
    drawn = [bar.is_drawn]
    clock.now += 1
    bar.count_history()
    drawn.append(bar.is_drawn)
    bar.clear()
    assert [*drawn, bar.is_drawn] == [False, True, False]
