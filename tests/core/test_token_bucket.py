"""A limit of calls a minute holds for any minute, however the calls come and whatever the clock does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.core.money.token_bucket import MINUTE, TokenBucket, compute_burst, compute_refill

RATES = st.one_of(st.integers(1, 40), st.integers(41, 5000))


def begin_calls(bucket: TokenBucket, rate: int, pauses: list[float], at: float = 0.0) -> list[float]:
    """Return when calls begin that are tried after these pauses; a refused one waits as long as the bucket says."""
    began = []
    for pause in pauses:
        at += pause
        bucket, seconds = bucket.take(rate, at)
        if seconds:
            at += seconds
            bucket, seconds = bucket.take(rate, at)
            assert seconds == 0, "after the wait, the call begins"
        began.append(at)
    return began


@given(RATES, st.lists(st.floats(0, 90), min_size=1, max_size=300))
def test_in_no_minute_more_calls_begin_than_the_limit_says(rate: int, pauses: list[float]) -> None:
    began = begin_calls(TokenBucket(float(compute_burst(rate)), 0.0), rate, pauses)
    for first, at in enumerate(began):
        in_minute = [each for each in began[first:] if each < at + MINUTE - 1e-6]
        assert len(in_minute) <= rate


@pytest.mark.parametrize("rate", [1, 2, 9, 10, 11, 60, 600])
def test_a_busy_limit_is_used_to_at_least_nine_tenths(rate: int) -> None:
    began = begin_calls(TokenBucket(0.0, 0.0), rate, [0.0] * (5 * rate))
    assert 5 * MINUTE * 0.99 <= began[-1] <= 5 * MINUTE / 0.9


@pytest.mark.parametrize(("rate", "burst"), [(1, 1), (9, 1), (20, 2), (60, 6)])
def test_a_tenth_may_begin_at_once_after_a_while_without_calls(rate: int, burst: int) -> None:
    began = begin_calls(TokenBucket(0.0, 0.0), rate, [1000.0] + [0.0] * burst)
    assert began[:burst] == [1000.0] * burst
    assert began[burst] > 1000.0


@given(RATES, st.lists(st.floats(-1000, 10), min_size=1, max_size=100))
def test_a_clock_that_goes_back_adds_no_calls(rate: int, steps: list[float]) -> None:
    bucket, at, latest, begun = TokenBucket(float(compute_burst(rate)), 0.0), 0.0, 0.0, 0
    for step in steps:
        at += step
        latest = max(latest, at)
        bucket, seconds = bucket.take(rate, at)
        begun += seconds == 0
        assert bucket.at == latest
    assert begun <= compute_burst(rate) + compute_refill(rate) * latest + 1e-6


def test_a_lower_limit_applies_to_the_calls_that_were_left() -> None:
    bucket = TokenBucket(100.0, 0.0)
    began = begin_calls(bucket, 10, [0.0, 0.0])
    assert began[0] == 0.0
    assert began[1] == pytest.approx(6.0)
