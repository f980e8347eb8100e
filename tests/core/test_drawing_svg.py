"""Drawings of workflows as SVG: what is drawn, and what holds for every graph."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.drawing import DrawnChild, Mark
from logist.core.drawing.layered import DrawnEdge, Layered, PlacedBox, Size, place_layers
from logist.core.drawing.svg import describe_steps, draw_svg
from logist.core.model import Edge, Step, Workflow
from tests.core.test_drawing import REVIEW, of
from tests.support import examples

fuzz = settings(deadline=None, database=None, max_examples=examples(100))
SVG = "{http://www.w3.org/2000/svg}"
MARKS = {
    "A": Mark("done", "2 times"),
    "B": Mark("skipped"),
    "C": Mark("waiting", children=(DrawnChild("x", "done"), DrawnChild("y", "stuck"))),
    "D": Mark("running", "attempt 2 of 3"),
}
names = st.text(max_size=40)
graphs = st.integers(1, 12).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(-1, count - 1), names), max_size=3 * count),
    )
)
KINDS: list[dict[str, Any]] = [
    {},
    {"execution": "manual"},
    *({"step_type": kind} for kind in ("decision", "foreach", "join", "subflow", "newer <kind>")),
]


def parse(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def texts(root: ElementTree.Element, style: str) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text") if each.get("class") == style]


def test_each_state_has_a_sign_a_word_and_a_border() -> None:
    root = parse(draw_svg(REVIEW, MARKS))
    assert texts(root, "state")[:5] == [
        "✓ done · 2 times",
        "– skipped",
        "◌ waiting · 1 of 2 done",
        "● running · attempt 2 of 3",
        "○ not reached",
    ]
    boxes = [each.get("class", "").split() for each in root.iter(f"{SVG}g")]
    assert [names[1:] for names in boxes[:5]] == [
        ["task", "done"],
        ["task", "skipped"],
        ["foreach", "waiting"],
        ["join", "running"],
        ["decision", "unreached"],
    ]
    assert texts(root, "name")[2] == "Each: Review File"
    assert texts(root, "kind")[2] == "C · foreach"
    assert set(texts(root, "label")) >= {"output.score >= 80", "default"}


def test_it_can_be_read_aloud() -> None:
    root = parse(draw_svg(REVIEW, MARKS))
    named = {each.get("id"): each.text for each in root}
    assert root.get("role") == "img"
    assert [named[each] for each in root.get("aria-labelledby", "").split()] == [
        "Workflow w",
        "11 steps: 1 done, 1 skipped, 1 waiting, 1 running, 7 not reached. A list of the steps follows the drawing.",
    ]
    steps = describe_steps(REVIEW, MARKS)
    assert (steps[2].name, steps[2].kind, steps[2].state, steps[2].text) == (
        "Each: Review File",
        "foreach",
        "waiting",
        "1 of 2 done",
    )
    assert ("default", "H") in steps[4].leads_to


def test_the_branch_that_was_taken_and_the_current_step_are_marked() -> None:
    root = parse(draw_svg(REVIEW, MARKS, taken={("E", "F")}, here="D"))
    edges = [each.get("class") for each in root.iter(f"{SVG}path") if "edge" in each.get("class", "")]
    assert edges.count("edge taken") == 1
    [here] = [each for each in root.iter() if each.get("id") == "here"]
    assert here.get("class") == "box join running"


def test_an_edge_back_is_drawn_at_the_side_with_its_label() -> None:
    root = parse(draw_svg(REVIEW, {}))
    assert [each.get("class") for each in root.iter(f"{SVG}path")].count("edge aside") == 1
    assert "output.shouldRetry" in texts(root, "label")


def test_two_branches_to_one_step_are_one_edge_with_both_labels() -> None:
    steps = (Step(id="a", name="a", step_type="decision"), Step(id="b", name="b"))
    edges = tuple(Edge(source="a", target="b", label=label) for label in ("yes", "no"))
    root = parse(draw_svg(Workflow(name="w", steps=steps, edges=edges, start="a"), {}))
    assert texts(root, "label") == ["yes / no"]


HOSTILE = (
    "</svg><script>alert(1)</script>",
    "a\x00b\ud800c\ufffe",
    "\u202egpj.exe",
    "&amp;'\"<!--",
    "x" * 10_000,
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text(name: str) -> None:
    steps = (Step(id="a", name=name, step_type="decision"), Step(id=name, name=name))
    flow = Workflow(
        name=name,
        steps=steps,
        edges=(Edge(source="a", target=name, label=name), Edge(source=name, target="a", condition=name)),
        start="a",
    )
    drawing = draw_svg(flow, {"a": Mark("stuck", name)})
    root = parse(drawing)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        *("svg", "title", "desc", "defs", "marker", "path", "g", "rect", "polygon", "text"),
    }
    assert not re.search("[\u202e\x00\ud800]", drawing)
    assert " style=" not in drawing.split(">", 1)[0]


def overlap(one: PlacedBox, other: PlacedBox) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def check(layered: Layered, sizes: dict[str, Size], links: list[DrawnEdge]) -> None:
    boxes = list(layered.boxes.values())
    assert set(layered.boxes) == set(sizes)
    for number, box in enumerate(boxes):
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= layered.width
        assert box.y + box.height <= layered.height
        assert not any(overlap(box, other) for other in boxes[:number])
    assert [route.link for route in layered.links] == links
    for route in layered.links:
        source, target = layered.boxes[route.link.source], layered.boxes[route.link.target]
        (start_x, start_y), (end_x, end_y) = route.points[0], route.points[-1]
        assert start_y == source.y + source.height
        assert source.x <= start_x <= source.x + source.width
        assert end_y == target.y
        assert target.x <= end_x <= target.x + target.width
        for x, y in route.points[1:-1]:
            assert 0 <= x <= layered.width
            assert not any(box.x < x < box.x + box.width and box.y < y < box.y + box.height for box in boxes)
        if route.is_aside:  # only straight lines, so the corners say where it runs
            for (x, y), (to_x, to_y) in zip(route.points, route.points[1:], strict=False):
                assert x == to_x or y == to_y
                line = PlacedBox(min(x, to_x), min(y, to_y), abs(x - to_x), abs(y - to_y))
                assert not any(overlap(line, box) for box in boxes)


@fuzz
@given(
    st.integers(1, 14).flatmap(
        lambda count: st.tuples(
            st.lists(
                st.builds(Size, st.integers(20, 200), st.integers(20, 80)), min_size=count, max_size=count
            ),
            st.lists(
                st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), st.integers(0, 99)),
                max_size=40,
                unique_by=lambda each: each[:2],
            ),
        )
    )
)
def test_no_boxes_overlap_and_every_edge_connects_its_boxes(
    graph: tuple[list[Size], list[tuple[int, int, int]]],
) -> None:
    sizes = {str(number): size for number, size in enumerate(graph[0])}
    links = [DrawnEdge(str(source), str(target), width) for source, target, width in graph[1]]
    back = [link for link in links if int(link.target) <= int(link.source)]
    check(place_layers(sizes, links, back), sizes, links)


@fuzz
@given(graphs, st.lists(names, min_size=12, max_size=12), st.lists(st.sampled_from(KINDS), min_size=12))
def test_any_workflow_is_valid_xml_with_all_its_steps(
    graph: tuple[int, list[tuple[int, int, str]]], steps_names: list[str], kinds: list[dict[str, Any]]
) -> None:
    count, pairs = graph
    steps = tuple(Step(id=f"s{number}", name=steps_names[number], **kinds[number]) for number in range(count))
    edges = tuple(
        Edge(source=f"s{source}", target=f"s{target}" if target >= 0 else "", label=label or None)
        for source, target, label in pairs
    )
    flow = Workflow(name=steps_names[0], steps=steps, edges=edges, start="s0")
    root = parse(draw_svg(flow, {"s0": Mark("done", steps_names[1])}))
    assert len(texts(root, "name")) == count
    pairs_drawn = {(edge.source, edge.target) for edge in edges}
    ended = {step.id for step in steps} - {edge.source for edge in edges}
    drawn = [each for each in root.iter(f"{SVG}path") if "edge" in each.get("class", "")]
    assert len(drawn) == len(pairs_drawn) + len(ended)


def test_the_size_of_a_drawing_is_in_proportion_to_the_workflow() -> None:
    """A thousand steps in a row, each with a way to the end, and loops over the whole length."""
    count = 1000
    pairs = [(n, n + 1) for n in range(count - 1)] + [(count - 1 - n, n) for n in range(0, count // 2, 10)]
    small, large = (draw_svg(of(pairs[: k * 10] if k else pairs, count), {}) for k in (90, 0))
    assert len(large) < 2 * len(small) < 3_000_000
