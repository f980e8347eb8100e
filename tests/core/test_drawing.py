"""Drawings of workflows: what people see of many shapes, and what holds for every graph."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from logist.core.drawing import DrawnChild, LineSegment, Mark, draw_workflow, strip_styles
from logist.core.model import Edge, Step, Workflow
from logist.core.text.columns import count_columns
from tests.support import examples

fuzz = settings(deadline=None, database=None, max_examples=examples(100))

KINDS: dict[str, dict[str, Any]] = {
    "[": {},
    "(": {"execution": "manual"},
    "?": {"step_type": "decision"},
    "*": {"step_type": "foreach"},
    "+": {"step_type": "join"},
    "$": {"step_type": "subflow", "subflow": "security-scan"},
}


def flow(steps: str, edges: str, start: str = "") -> Workflow:
    """A workflow in short: lines `id kind name` and `source target label`."""
    rows = [line.strip().split(" ", 2) for line in steps.strip().split("\n")]
    links = [line.strip().split(" ", 2) for line in edges.strip().split("\n") if line.strip()]
    return Workflow(
        name="w",
        steps=tuple(
            Step(
                id=id_,
                name=name,
                prompt="SECRET",
                agent_role="SECRET: behave well",
                guidance=("SECRET",),
                **KINDS[kind],
            )
            for id_, kind, name in rows
        ),
        edges=tuple(
            Edge(source=source, target=target, label=label[0] if label else None)
            for source, target, *label in links
        ),
        start=start or rows[0][0],
    )


def of(pairs: Iterable[tuple[int, int]], count: int) -> Workflow:
    """A graph of `count` steps that are named by their number."""
    steps = tuple(Step(id=f"s{n}", name=f"Step {n}") for n in range(count))
    edges = tuple(Edge(source=f"s{one}", target=f"s{other}") for one, other in pairs)
    return Workflow(name="w", steps=steps, edges=edges, start="s0")


REVIEW = flow(
    """
    A [ Fetch PR Details
    B [ Get Changed Files
    C * Each: Review File
    D + Join Reviews
    E ? Quality Gate
    F [ Auto Approve
    G ( Human Review
    H [ Request Changes
    I [ Merge PR
    J ? Retry?
    K [ Close PR
    """,
    """
    A B
    B C
    C D
    D E
    E F output.score >= 80
    E G output.score >= 50
    E H default
    F I
    G I
    H J
    J A output.shouldRetry
    J K default
    """,
)
HALFWAY = {
    "A": Mark("done"),
    "B": Mark("done", "2 attempts"),
    "C": Mark(
        "waiting",
        children=(
            DrawnChild("pr--5-1", "done"),
            DrawnChild("pr--5-2", "running"),
            DrawnChild("pr--5-3", "stuck", "the file is not there"),
            DrawnChild("pr--5-4", "failed"),
            DrawnChild("pr--5-5", "waiting"),
        ),
    ),
    "D": Mark("next"),
}
PAST = {
    "C": Mark("done", count=(5, 5)),
    "E": Mark("done", "score 40"),
    "F": Mark("skipped"),
    "H": Mark("failed", "no comment was written, because the address of the repository is not known"),
    "J": Mark("stuck", "no branch"),
    "K": Mark("running"),
}
FAN = flow(
    "A [ Plan\nB [ Backend\nC [ Frontend\nX [ Docs\nD + Integrate\nE [ Ship",
    "A B\nA C\nA X\nB D\nC D\nX D\nD E",
)
NESTED = flow(
    "S [ Start\nD1 ? One?\nD2 ? Two?\nD3 ? Three?\nE [ End",
    "S D1\nD1 D2 yes\nD1 E no\nD2 D3 yes\nD2 E no\nD3 E yes\nD3 S no",
)
LONG_LINE = flow(
    "\n".join(f"d{n} ? Check {n}\nf{n} [ Fix {n}" for n in range(6)) + "\nz $ Run: Scan",
    "\n".join(
        f"d{n} {f'd{n + 1}' if n < 5 else 'z'} ok\nd{n} f{n} broken\nf{n} d{n} fixed" for n in range(6)
    ),
)
TANGLED = flow(
    "A [ A\nB [ Second\nC [ Third\nQ [ Last\nX [ Lost\nY [ Lost too",
    "A A\nA B\nA B twice\nA C or\nB C\nC B\nC Q\nC gone\nX Y\nY B",
)
WIDE = flow(
    "A [ 设计系统架构和数据库模型并且写下所有的决定以及其原因和后果\nB ? 审核通过了吗？\nC [ Ve\u0301lo  <br/> u\u200bnd\x1b[31m mehr",
    "A B\nB C 通过\nB A 退回重新设计并且再次审核所有的决定以及其原因和后果因为它们还不够好",
)
LONE = flow("only ( Ask a person", "")


@pytest.mark.parametrize(
    ("workflow", "marks", "width", "unicode"),
    [
        pytest.param(REVIEW, {}, 80, True, id="review"),
        pytest.param(REVIEW, HALFWAY, 80, True, id="review-halfway"),
        pytest.param(REVIEW, PAST, 80, True, id="review-past"),
        pytest.param(REVIEW, HALFWAY | PAST, 40, False, id="review-narrow-ascii"),
        pytest.param(FAN, {"B": Mark("done"), "C": Mark("running")}, 80, True, id="fan"),
        pytest.param(NESTED, {}, 80, True, id="nested-decisions"),
        pytest.param(NESTED, {}, 29, True, id="nested-decisions-without-room"),
        pytest.param(LONG_LINE, {}, 80, True, id="long-line-of-decisions"),
        pytest.param(TANGLED, {}, 80, True, id="tangled"),
        pytest.param(WIDE, {"A": Mark("running", "尝试第二次")}, 44, True, id="wide-characters"),
        pytest.param(WIDE, {}, 44, False, id="wide-characters-ascii"),
        pytest.param(LONE, {}, 80, True, id="lone"),
    ],
)
def test_drawing(
    workflow: Workflow, marks: dict[str, Mark], width: int, unicode: bool, snapshot: SnapshotAssertion
) -> None:
    assert "\n".join(strip_styles(draw_workflow(workflow, marks, width, unicode=unicode))) == snapshot


def test_what_a_line_is_made_of() -> None:
    lines = draw_workflow(REVIEW, {"G": Mark("stuck", "asked twice")}, 80)
    (line,) = (line for line in lines if LineSegment("G", "id") in line)
    assert line == (
        LineSegment("│  ", "line"),
        LineSegment("! ", "stuck"),
        LineSegment("G", "id"),
        LineSegment("  Human Review", "name"),
        LineSegment(" · manual", "kind"),
        LineSegment(" · stuck asked twice", "stuck"),
        LineSegment("  ", ""),
        LineSegment("→ I", "reference"),
    )


@pytest.mark.parametrize("length", [5, 6])
def test_a_long_branch_is_drawn_at_the_depth_of_its_decision(length: int) -> None:
    chain = [(n, n + 1) for n in range(2, length + 1)]
    lines = strip_styles(draw_workflow(of([(0, 1), (0, 2), *chain], length + 2), {}, 80))
    assert lines[1] == "├─ ○ s1  Step 1 · end"
    assert lines[2:4] == (
        ["└─ → s2", "○ s2  Step 2"] if length == 6 else ["└─ ○ s2  Step 2", "   ○ s3  Step 3"]
    )


@pytest.mark.parametrize("width", range(1, 60))
def test_what_is_cut_off_is_marked_once(width: int) -> None:
    for unicode, mark in ((True, "…"), (False, "~")):
        for workflow in (REVIEW, WIDE, LONG_LINE):
            for text in strip_styles(draw_workflow(workflow, HALFWAY | PAST, width, unicode=unicode)):
                assert mark * 2 not in text
                assert count_columns(text) <= width


def test_no_word_for_agents_is_shown() -> None:
    for width in (30, 80, 500):
        assert not any("SECRET" in line for line in strip_styles(draw_workflow(REVIEW, HALFWAY, width)))


def test_many_children_are_counted() -> None:
    children = tuple(DrawnChild(f"w--1-{n}", "done") for n in range(50))
    lines = strip_styles(draw_workflow(LONE, {"only": Mark("waiting", children=children)}, 80))
    assert len(lines) == 22
    assert "waiting 50/50" in lines[0]
    assert lines[-1] == "    and 30 more"


@pytest.mark.parametrize("condition", ["output.n > 1", {"var": "output.n", "gt": 1}, True])
def test_a_condition_without_label(condition: Any) -> None:
    edges = (Edge(source="a", target="b", condition=condition), Edge(source="a", target="c"))
    steps = tuple(Step(id=name, name=name) for name in "abc")
    lines = strip_styles(draw_workflow(Workflow(name="w", steps=steps, edges=edges, start="a"), {}, 80))
    shown = {"output.n > 1": "output.n > 1", "True": "true"}.get(
        str(condition), '{"var": "output.n", "gt": 1}'
    )
    assert lines == ["○ a", f"├─ {shown}", "│  ○ b · end", "└─ ○ c · end"]


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    count = draw(st.integers(1, 14))
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count))
    graph = of(draw(st.lists(pair, max_size=30)), count)
    names = draw(st.lists(st.text(max_size=30) | st.just("设计" * 9), min_size=count, max_size=count))
    labels = st.none() | st.text(max_size=60)
    return graph.model_copy(
        update={
            "steps": tuple(
                step.model_copy(update={"name": name}) for step, name in zip(graph.steps, names, strict=True)
            ),
            "edges": tuple(edge.model_copy(update={"label": draw(labels)}) for edge in graph.edges),
        }
    )


STATES = st.sampled_from(["done", "running", "waiting", "stuck", "failed", "skipped", "next"])
MARKS = st.dictionaries(
    st.integers(0, 14).map("s{}".format),
    st.builds(Mark, STATES, st.text(max_size=60), st.none() | st.just((3, 5))),
)


@fuzz
@given(workflows(), MARKS, st.integers(1, 120), st.booleans())
def test_every_step_is_there_and_no_line_too_wide(
    workflow: Workflow, marks: dict[str, Mark], width: int, unicode: bool
) -> None:
    lines = draw_workflow(workflow, marks, width, unicode=unicode)
    texts = strip_styles(lines)
    assert all(count_columns(text) <= width for text in texts)
    assert all(text.isprintable() for text in texts)
    assert unicode or all(text.isascii() for text in texts)
    if width >= 80:
        shown = [segment.text for line in lines for segment in line if segment.style == "id"]
        assert sorted(shown) == sorted(step.id for step in workflow.steps)


@fuzz
@given(workflows())
def test_every_edge_is_followed_or_named(workflow: Workflow) -> None:
    bare = workflow.model_copy(
        update={"edges": tuple(edge.model_copy(update={"label": None}) for edge in workflow.edges)}
    )
    lines = draw_workflow(bare, {}, 200)
    named = sum(segment.style == "reference" for line in lines for segment in line)
    followed = len(bare.edges) - named
    assert 0 <= followed < len(bare.steps)
    entered = {edge.target for edge in bare.edges if edge.source != edge.target}
    for step in bare.steps:
        references = [segment.text for line in lines for segment in line if segment.style == "reference"]
        count = sum(edge.target == step.id for edge in bare.edges)
        assert count - sum(text.split()[1] == step.id for text in references) in (0, 1)
        assert step.id in entered or count == 0 or any(text == f"↩ {step.id}" for text in references)


LARGE = {
    "chain": [(n, n + 1) for n in range(999)],
    "star": [(0, n) for n in range(1, 1000)],
    "ladder": [pair for n in range(998) for pair in ((n, n + 1), (n, n + 2))],
    "loops": [pair for n in range(999) for pair in ((n, n + 1), (n + 1, n))],
    "unconnected": [],
    "random": [(random.Random(n).randrange(1000), random.Random(-n).randrange(1000)) for n in range(5000)],
    "halves": [(n, m) for n in range(500) for m in (2 * n + 1, 2 * n + 2) if m < 1000],
}


@pytest.mark.deep
@pytest.mark.parametrize("pairs", LARGE.values(), ids=LARGE)
def test_a_thousand_steps(pairs: list[tuple[int, int]]) -> None:
    lines = draw_workflow(of(pairs, 1000), {}, 80)
    assert sum(segment.style == "id" for line in lines for segment in line) == 1000
    assert all(count_columns(text) <= 80 for text in strip_styles(lines))
