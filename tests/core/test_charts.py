"""Charts: what they draw, and what holds for any numbers and names."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.drawing.charts import (
    HEIGHT,
    ROW_WIDTH,
    WIDTH,
    Column,
    Row,
    Series,
    choose_ticks,
    draw_columns,
    draw_rows,
)
from logist.core.money import amounts
from tests.support import examples

fuzz = settings(deadline=None, database=None, max_examples=examples(100))
SVG = "{http://www.w3.org/2000/svg}"
TWO = (Series("good", "success"), Series("bad", "failed"))


def bars(root: ElementTree.Element, style: str) -> list[dict[str, float]]:
    """The bars of a series, without the legend."""
    return [
        {name: float(each.get(name, "")) for name in ("x", "y", "width", "height")}
        for group in root.iter(f"{SVG}g")
        for each in group.iter(f"{SVG}rect")
        if each.get("class") == f"bar {style}"
    ]


def texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (7, [0, 2, 4, 6, 8]),
        (40, [0, 10, 20, 30, 40]),
        (41, [0, 20, 40, 60]),
        (123_456, [0, 50_000, 100_000, 150_000]),
    ],
)
def test_the_axis_has_round_numbers(most: int, ticks: list[int]) -> None:
    assert choose_ticks(most) == ticks


def test_columns_have_an_axis_with_units_and_their_numbers() -> None:
    columns = [
        Column("Mon", (2_000_000,), "Monday: $0.02"),
        Column("Tue", (0,), "Tuesday: $0.00"),
        Column("Wed", (8_000_000,), "Wednesday: $0.08"),
    ]
    root = ElementTree.fromstring(
        draw_columns("days", "Cost per day", columns, (Series("cost", "cost"),), amounts.format_money)
    )
    assert texts(root) == ["$0.00", "$0.02", "$0.04", "$0.06", "$0.08", "$0.02", "Mon", "Tue", "$0.08", "Wed"]
    low, high = bars(root, "cost")
    assert high["height"] == pytest.approx(4 * low["height"], abs=0.5)
    assert low["y"] + low["height"] == pytest.approx(high["y"] + high["height"], abs=0.2)
    assert [each.text for each in root.iter(f"{SVG}title")] == [
        "Cost per day",
        *(column.text for column in columns),
    ]
    assert root.get("aria-labelledby") == "days-title days-desc"


def test_parts_are_one_on_the_other_and_the_legend_names_them() -> None:
    root = ElementTree.fromstring(
        draw_columns("n", "Ended", [Column("Mon", (3, 1), "3 good, 1 bad")], TWO, str)
    )
    [good], [bad] = bars(root, "success"), bars(root, "failed")
    assert bad["y"] + bad["height"] == pytest.approx(good["y"], abs=0.2)
    assert texts(root)[-2:] == ["good", "bad"]


def test_of_many_columns_only_the_highest_has_its_number() -> None:
    columns = [Column(str(number), (number % 13,), "") for number in range(31)]
    root = ElementTree.fromstring(draw_columns("n", "", columns, TWO[:1], lambda value: f"{value} jobs"))
    values = [each.text for each in root.iter(f"{SVG}text") if each.get("class") == "value"]
    assert values == ["12 jobs"]
    assert len([text for text in texts(root) if text.isdigit()]) <= 8


def test_rows_have_their_names_and_numbers() -> None:
    rows = [Row("Worker", 0.5, "50% of 2 runs"), Row("<b>" * 20, 1.0, "100% of 1 run")]
    drawing = draw_rows("roles", "Success", rows, 1.0, "success", ("0%", "100%"))
    root = ElementTree.fromstring(drawing)
    assert texts(root)[:5] == ["0%", "100%", "Worker", "50% of 2 runs", "<b><b><b><b><b><b><b><b><…"]
    half, full = bars(root, "success")
    assert full["width"] == pytest.approx(2 * half["width"], abs=0.2)


@fuzz
@given(
    st.lists(
        st.tuples(st.text(max_size=9), st.integers(-(10**15), 10**15), st.integers(0, 10**15)), max_size=120
    )
)
def test_any_columns_are_valid_xml_within_the_drawing(numbers: list[tuple[str, int, int]]) -> None:
    columns = [Column(label, (one, other), label) for label, one, other in numbers]
    root = ElementTree.fromstring(draw_columns("n", "t", columns, TWO, str))
    for bar in (*bars(root, "success"), *bars(root, "failed")):
        assert 0 <= bar["x"] <= bar["x"] + bar["width"] <= WIDTH
        assert 0 <= bar["y"] <= bar["y"] + bar["height"] <= HEIGHT


@fuzz
@given(st.lists(st.builds(Row, st.text(), st.floats(-1, 2), st.text()), max_size=30), st.floats(0, 2))
def test_any_rows_are_valid_xml_within_the_drawing(rows: list[Row], most: float) -> None:
    root = ElementTree.fromstring(draw_rows("n", "t", rows, most, "cost", ("0", "1")))
    for bar in bars(root, "cost"):
        assert 0 <= bar["x"] + bar["width"] <= ROW_WIDTH
