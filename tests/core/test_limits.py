"""Limits that several jobs share: what is left of them, which one stands in the way, and why."""

from __future__ import annotations

from typing import Any

import pytest

from logist.core.machine import limits
from logist.core.machine.limits import Shared, find_reached_limit_above, program_allowance
from logist.core.model import Limits, Status, Totals
from logist.core.money import totals
from tests.core.builders import spec

CENT = 1_000_000


def shared(job: str = "j", cents: int = 100, runs: int = 10, **more: Any) -> Shared:
    return Shared(
        job, Limits(cost_threshold=cents, max_allowed_iterations=runs), **{"used": Totals(), **more}
    )


def used(cents: int, runs: int = 0) -> Totals:
    return totals.make_totals(cents * CENT, runs)


def test_what_is_left_is_the_least_of_all_limits() -> None:
    above = [shared("p", 100, used=used(30)), shared("j", 50, used=used(10), calls_out=used(15))]
    assert limits.remaining_microcents(spec(cost_threshold=1000), used(900), above) == 25 * CENT
    assert limits.remaining_microcents(spec(cost_threshold=1000), used(990), above) == 10 * CENT
    assert limits.remaining_microcents(spec(cost_threshold=1000), used(900)) == 100 * CENT


@pytest.mark.parametrize(
    ("more", "halted", "unsettled", "calls_out"),
    [
        ({"used": used(95)}, True, False, False),
        ({"used": used(80)}, False, False, False),
        ({"used": used(80), "unsettled": used(15)}, True, True, False),
        ({"used": used(80), "calls_out": used(15)}, True, False, True),
        ({"used": used(50), "unsettled": used(40), "calls_out": used(5)}, True, False, True),
        ({"used": used(0, runs=10)}, True, False, False),
        ({"used": used(0, runs=9), "calls_out": used(0, runs=1)}, True, False, True),
    ],
)
def test_a_halt_says_what_stands_in_the_way(
    more: dict[str, Any], halted: bool, unsettled: bool, calls_out: bool
) -> None:
    halt = find_reached_limit_above([shared(**more)], needed=10 * CENT)
    assert (halt is not None) is halted
    if halt is not None:
        assert (halt.job, halt.unsettled, halt.calls_out) == ("j", unsettled, calls_out)
        assert (halt.needed, halt.runs) == (10 * CENT, 1)


def test_the_topmost_job_halts_where_both_limits_are_reached() -> None:
    both = [shared("j", used=used(100)), shared("top", used=used(100))]
    halt = find_reached_limit_above(both)
    assert (halt and halt.job, halt and halt.limit) == ("top", Status.HALTED_COST)
    inner = find_reached_limit_above([shared("j", runs=3, used=used(0, 3)), shared("top", used=used(50))])
    assert (inner and inner.job, inner and inner.limit) == ("j", Status.HALTED_ITERATION)
    assert find_reached_limit_above([]) is None


def test_an_agent_program_gets_a_part_so_that_others_can_run_too() -> None:
    above = [shared(waiting=10)]
    assert program_allowance(100, [], 4, 5) == 100
    assert program_allowance(100, above, 4, 5) == 25
    assert program_allowance(100, above, 4, 40) == 40, "one call has to fit"
    assert program_allowance(100, [shared(waiting=1)], 4, 5) == 100, "the last one gets all that is left"
    assert program_allowance(30, above, 4, 40) == 30
