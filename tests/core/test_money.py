"""Money: exact, rounded against us, and never more than what is left."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.model import Model
from logist.core.money.money import (
    compute_cost,
    compute_worst_case,
    fit_output,
    format_money,
    join_cents,
    split_cents,
)

CENT = 1_000_000
fuzz = settings(deadline=None, database=None)
prices = st.floats(0, 1000)
amounts = st.integers(0, 10**9)


def model(input_price: float | None = 3.0, output_price: float | None = 15.0) -> Model:
    return Model(name="m", provider_model="p/m", input_price=input_price, output_price=output_price)


@pytest.mark.parametrize(
    ("prices", "tokens", "microcents"),
    [
        ((3.0, 15.0), (1_000_000, 0), 300 * CENT),
        ((3.0, 15.0), (0, 1_000_000), 1500 * CENT),
        ((3.0, 15.0), (1000, 100), 450_000),
        ((0.2, 1.5), (1, 0), 20),
        ((0.075, 0.3), (1, 0), 8),  # 7.5, rounded up
        ((0.1, 0.2), (3, 0), 30),  # 0.1 * 3 is no 0.30000000000000004 here
        ((0.0, 0.0), (10**9, 10**9), 0),
        ((3.0, 15.0), (-5, 0), 0),
    ],
)
def test_cost(prices: tuple[float, float], tokens: tuple[int, int], microcents: int) -> None:
    assert compute_cost(model(*prices), *tokens) == microcents


@pytest.mark.parametrize("unknown", [(None, 15.0), (3.0, None), (None, None), (float("inf"), 1.0)])
def test_an_unknown_price_is_unknown(unknown: tuple[float | None, float | None]) -> None:
    assert compute_cost(model(*unknown), 1, 1) is None
    assert compute_worst_case(model(*unknown), "prompt", 1) is None
    assert fit_output(model(*unknown), "prompt", 1, CENT, 1) is None


@pytest.mark.parametrize("prompt", ["", "a" * 1000, "é🚀" * 100, "\ud800"])
def test_the_worst_case_counts_a_token_for_each_byte_and_the_messages(prompt: str) -> None:
    size = len(prompt.encode("utf-8", "surrogatepass"))
    assert compute_worst_case(model(3.0, 15.0), prompt, 10) == (size + 128) * 300 + 10 * 1500


def test_fit_output_takes_all_that_is_wanted_when_it_fits() -> None:
    worst = compute_worst_case(model(), "prompt", 4096)
    assert worst is not None
    assert fit_output(model(), "prompt", 4096, worst, 2048) == 4096
    assert fit_output(model(), "prompt", 4096, worst - 1, 2048) == 4095


@pytest.mark.parametrize(("cached", "dearest"), [(0.3, 300), (3.0, 300), (3.75, 375), (None, 300)])
def test_the_worst_case_takes_the_dearer_price_of_input(cached: float | None, dearest: int) -> None:
    priced = model().model_copy(update={"cached_price": cached})
    worst = compute_worst_case(priced, "a" * 872, 10)
    assert worst == 1000 * dearest + 10 * 1500
    assert (compute_cost(priced, 1000, 10, 1000) or 0) <= worst
    assert fit_output(priced, "a" * 872, 10, worst, 1) == 10
    assert fit_output(priced, "a" * 872, 10, worst - 1, 1) == 9


def test_fit_output_ends_at_the_minimum() -> None:
    least = compute_worst_case(model(), "prompt", 2048)
    assert least is not None
    assert fit_output(model(), "prompt", 4096, least, 2048) == 2048
    assert fit_output(model(), "prompt", 4096, least - 1, 2048) is None


def test_who_wants_less_than_the_minimum_gets_that_or_nothing() -> None:
    worst = compute_worst_case(model(), "prompt", 100)
    assert worst is not None
    assert fit_output(model(), "prompt", 100, worst, 2048) == 100
    assert fit_output(model(), "prompt", 100, worst - 1, 2048) is None


def test_free_models_fit_always_and_nothing_fits_into_debt() -> None:
    assert fit_output(model(0.0, 0.0), "prompt", 4096, 0, 2048) == 4096
    assert fit_output(model(1.0, 0.0), "prompt", 4096, 1, 2048) is None
    assert fit_output(model(), "prompt", 4096, -CENT, 2048) is None
    assert fit_output(model(0.0, 0.0), "prompt", 4096, -1, 2048) is None


@fuzz
@given(prices, prices, st.text(), st.integers(1, 10**6), amounts, st.integers(1, 4096))
def test_what_fits_never_overshoots_and_is_the_most(
    input_price: float, output_price: float, prompt: str, wanted: int, left: int, minimum: int
) -> None:
    priced = model(input_price, output_price)
    fitted = fit_output(priced, prompt, wanted, left, minimum)
    least = min(minimum, wanted)
    if fitted is None:
        assert (compute_worst_case(priced, prompt, least) or 0) > left
        return
    assert least <= fitted <= wanted
    assert (compute_worst_case(priced, prompt, fitted) or 0) <= left
    if fitted < wanted:
        assert (compute_worst_case(priced, prompt, fitted + 1) or 0) > left


@pytest.mark.parametrize(
    ("microcents", "halves"),
    [(0, (0, 0)), (999_999, (0, 999_999)), (CENT, (1, 0)), (1_230_045, (1, 230_045))],
)
def test_split(microcents: int, halves: tuple[int, int]) -> None:
    assert split_cents(microcents) == halves


@fuzz
@given(st.integers())
def test_join_undoes_split(microcents: int) -> None:
    cents, rest = split_cents(microcents)
    assert 0 <= rest < CENT
    assert join_cents(cents, rest) == microcents


@pytest.mark.parametrize(
    ("microcents", "text"),
    [
        (0, "$0.00"),
        (1, "<$0.0001"),
        (9_999, "<$0.0001"),
        (10_000, "$0.0001"),
        (1_230_000, "$0.0123"),
        (1_235_000, "$0.0124"),
        (CENT, "$0.01"),
        (50 * CENT, "$0.50"),
        (1230 * CENT, "$12.30"),
        (1000 * CENT, "$10.00"),
        (123_456_789 * CENT, "$1,234,567.89"),
        (99_999_999, "$1.00"),
        (-50 * CENT, "-$0.50"),
    ],
)
def test_dollars(microcents: int, text: str) -> None:
    assert format_money(microcents) == text
