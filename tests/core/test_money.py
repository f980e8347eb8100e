"""Money: exact, rounded against us, and never more than what is left."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.model import Model, PriceTier
from logist.core.money.amounts import format_exactly
from logist.core.money.money import (
    compute_cost,
    compute_worst_case,
    find_cost_difference,
    fit_output,
    format_money,
    has_known_price,
    is_at_least_as_expensive,
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


LONG = PriceTier(above=200_000, input_price=2, cached_price=0.4, output_price=4)
GROK = Model(
    name="grok", provider_model="xai/grok", input_price=1, cached_price=0.2, output_price=2, tiers=(LONG,)
)
"""Prices with a tier, as xAI has them."""


@pytest.mark.parametrize(
    ("tokens", "microcents"),
    [
        ((200_000, 1000, 150_000), 50_000 * 100 + 150_000 * 20 + 1000 * 200),
        (
            (200_001, 1000, 150_000),
            50_001 * 200 + 150_000 * 40 + 1000 * 400,
        ),  # all of it at the higher prices
        ((0, 1000, 0), 1000 * 200),
    ],
)
def test_a_long_request_costs_the_prices_of_its_tier(tokens: tuple[int, int, int], microcents: int) -> None:
    assert compute_cost(GROK, *tokens) == microcents


def test_the_highest_tier_that_is_reached_counts_in_whatever_order_they_are_written() -> None:
    tiers = (
        PriceTier(above=300, input_price=5, output_price=5),
        PriceTier(above=100, input_price=3, output_price=3),
    )
    tiered = model(1.0, 1.0).model_copy(update={"tiers": tiers})
    assert [compute_cost(tiered, tokens, 0) for tokens in (100, 101, 300, 301)] == [
        10_000,
        30_300,
        90_000,
        150_500,
    ]


def test_tokens_stored_in_the_cache_and_those_of_reasoning_have_prices_of_their_own() -> None:
    priced = model(3.0, 15.0).model_copy(
        update={"cached_price": 0.3, "cache_write_price": 3.75, "reasoning_price": 20.0}
    )
    cost = compute_cost(priced, 1000, 100, 600, cache_write_tokens=300, reasoning_tokens=40)
    assert cost == 100 * 300 + 600 * 30 + 300 * 375 + 60 * 1500 + 40 * 2000
    plain = compute_cost(model(3.0, 15.0), 1000, 100, cache_write_tokens=300, reasoning_tokens=40)
    assert plain == compute_cost(model(3.0, 15.0), 1000, 100)


def test_the_sum_of_several_requests_is_not_taken_for_a_long_one() -> None:
    assert compute_cost(GROK, 900_000, 0, longest_input=0) == 900_000 * 100


def test_a_worker_loop_of_30_turns_costs_25_cents_and_not_1_90() -> None:
    """Each turn sends the conversation so far, which is in the cache, and a thousand tokens more."""
    lengths = [16_200 + 1_000 * turn for turn in range(30)]
    cached = [0, *lengths[:-1]]
    flat = Model(name="grok", provider_model="xai/grok", input_price=2, output_price=4)

    def cost(priced: Model) -> int:
        turns = zip(lengths, cached, strict=True)
        return sum(compute_cost(priced, length, 500, known) or 0 for length, known in turns)

    assert round(cost(flat) / CENT) == 190  # what it was charged while the table had only the higher prices
    assert round(cost(GROK) / CENT) == 25


def test_the_worst_case_takes_the_tier_that_the_bytes_can_reach() -> None:
    short, long = "a" * (200_000 - 128), "a" * (200_001 - 128)
    assert compute_worst_case(GROK, short, 10) == 200_000 * 100 + 10 * 200
    assert compute_worst_case(GROK, long, 10) == 200_001 * 200 + 10 * 400


some_price = st.one_of(st.none(), prices)
counts = st.integers(0, 3000)


@fuzz
@given(
    st.builds(
        Model,
        name=st.just("m"),
        provider_model=st.just("p/m"),
        input_price=prices,
        output_price=prices,
        cached_price=some_price,
        cache_write_price=some_price,
        reasoning_price=some_price,
        tiers=st.lists(
            st.builds(
                PriceTier,
                above=st.integers(1, 2000),
                input_price=prices,
                output_price=prices,
                cached_price=some_price,
                cache_write_price=some_price,
                reasoning_price=some_price,
            ),
            max_size=3,
            unique_by=lambda tier: tier.above,
        ).map(tuple),
    ),
    counts,
    counts,
    counts,
    counts,
    counts,
    amounts,
)
def test_no_bill_exceeds_the_worst_case(
    priced: Model, sent: int, read: int, cached: int, stored: int, reasoning: int, left: int
) -> None:
    prompt = "a" * sent
    read = min(read, sent + 128)
    worst = compute_worst_case(priced, prompt, 500)
    bill = compute_cost(priced, read, 500, cached, cache_write_tokens=stored, reasoning_tokens=reasoning)
    assert bill is not None
    assert worst is not None
    assert bill <= worst
    fitted = fit_output(priced, prompt, 500, left, 1)
    if fitted is not None:
        bill = compute_cost(
            priced, read, fitted, cached, cache_write_tokens=stored, reasoning_tokens=reasoning
        )
        assert bill is not None
        assert bill <= left


@pytest.mark.parametrize(
    ("reported", "computed", "differs"),
    [
        (None, 5, False),
        (5, None, False),
        (0, 0, False),
        (0, 1, False),  # rounded up
        (1_000_000, 1_010_000, False),
        (1_000_000, 990_000, False),
        (1_000_000, 1_010_001, True),
        (1_000_000, 989_999, True),
        (0, 5_000, True),
        (5_000, 0, True),
    ],
)
def test_a_difference_over_one_percent_is_a_warning(
    reported: int | None, computed: int | None, differs: bool
) -> None:
    assert (find_cost_difference(GROK, reported, computed) is not None) is differs


def test_the_warning_names_both_amounts_however_small() -> None:
    assert find_cost_difference(GROK, 103_000, 101_000) == (
        "the reported cost, $0.00103, is not the cost by the prices of grok, $0.00101, which is recorded: "
        "check these prices"
    )


def test_which_prices_are_at_least_as_high() -> None:
    flat = Model(name="grok", provider_model="xai/grok", input_price=2, output_price=4)
    unknown = flat.model_copy(update={"input_price": None})
    assert is_at_least_as_expensive(flat, GROK)
    assert not is_at_least_as_expensive(GROK, flat)
    assert is_at_least_as_expensive(GROK, GROK.model_copy(update={"name": "same prices"}))
    assert is_at_least_as_expensive(unknown, unknown)
    assert not is_at_least_as_expensive(unknown, flat)
    assert not is_at_least_as_expensive(flat, unknown)


def test_half_a_price_is_unknown_and_zero_is_known() -> None:
    assert [has_known_price(model(*each)) for each in ((None, 1.0), (1.0, None), (0.0, 0.0))] == [
        False,
        False,
        True,
    ]
    assert not has_known_price(
        GROK.model_copy(update={"tiers": (LONG.model_copy(update={"output_price": float("inf")}),)})
    )


def test_fields_that_are_not_used_are_not_written() -> None:
    """An earlier version would not continue a request with fields that it doesn't know."""
    later = {"cache_write_price", "reasoning_price", "tiers"}
    assert later.isdisjoint(model().model_dump(mode="json"))
    dumped = GROK.model_dump(mode="json")
    assert later & dumped.keys() == {"tiers"}
    assert Model.model_validate(dumped) == GROK


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


@pytest.mark.parametrize(
    ("microcents", "text"),
    [
        (0, "$0.00"),
        (1, "$0.00000001"),
        (123_000, "$0.00123"),
        (1230 * CENT, "$12.30"),
        (10**11, "$1,000.00"),
        (-1, "-$0.00000001"),
    ],
)
def test_all_decimals(microcents: int, text: str) -> None:
    assert format_exactly(microcents) == text


@fuzz
@given(st.integers().filter(bool))
def test_an_amount_that_is_not_zero_is_never_shown_as_zero(microcents: int) -> None:
    for text in (format_money(microcents), format_exactly(microcents)):
        assert re.search("[1-9]", text)
