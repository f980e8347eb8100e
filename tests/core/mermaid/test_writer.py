"""What is written reads back; what cannot be written is said."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from logist.core.mermaid import is_id, read_graph, remove_lines, write_graph
from logist.core.mermaid.graph import Graph, Group, Link, Node, Shape
from tests.support import examples

SHAPES = list(get_args(Shape))
HEADS = [("", ""), ("", "arrow"), ("", "circle"), ("", "cross")] + [
    (h, h) for h in ("arrow", "circle", "cross")
]
AWKWARD = st.sampled_from(
    [
        '"',
        "#",
        ";",
        "&",
        "#quot;",
        "&lt;",
        "`",
        "<b x=",
        ">",
        "%%",
        "%%{x}%%",
        "\n",
        "\r",
        " ",
        "\\",
        "|",
        "{{x}}",
        "direction LR",
        "style:#1;",
        "classDef:#x;",
        "end",
        "[",
        ")",
        "-->",
        "}\n",
        "\ufdd0",
        "'",
        "é",
        "\u00a0",
        "@{",
    ]
)
LABELS = st.lists(AWKWARD | st.text(max_size=3), max_size=6).map("".join)
TITLES = LABELS.filter(lambda text: text.encode("utf-8", "replace").decode() == text)
NAMES = [
    "A",
    "step.one",
    "a-b",
    "v",
    "x",
    "o",
    "prüfung",
    "审查",
    "42",
    "2nd",
    "default",
    "a:b",
    "mystyle:x",
    "A-",
]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs that a diagram can say."""
    ids = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    nodes = tuple(
        draw(st.builds(Node, st.just(name), st.just(name) | LABELS, SHAPE, CLASSES)) for name in ids
    )
    nodes = tuple(replace(node, label=node.id) if node.shape == "plain" else node for node in nodes)
    nodes = tuple(
        replace(node, label=node.label.strip() if node.shape == "plain" else node.label) for node in nodes
    )
    groups = draw(grouped(ids))
    ends = st.sampled_from([*ids, *(group.id for group in groups)])
    links = draw(
        st.lists(
            st.builds(Link, ends, ends, st.none() | LABELS.filter(bool), STROKES, st.sampled_from(HEADS))
        )
    )
    links = [replace(link, heads=("", "")) if link.stroke == "invisible" else link for link in links]
    return Graph(draw(st.sampled_from(["TB", "LR", "RL", "BT"])), nodes, tuple(links), groups, draw(TITLES))


SHAPE = st.sampled_from(SHAPES)
CLASSES = st.lists(st.sampled_from(["urgent", "big-one"]), max_size=2).map(tuple)
STROKES = st.sampled_from(["normal", "thick", "dotted", "invisible"])


@st.composite
def grouped(draw: st.DrawFn, ids: list[str]) -> tuple[Group, ...]:
    """Two groups beside each other, the first with one inside it."""
    shuffled = draw(st.permutations(ids))
    first, second, third = shuffled[::3], shuffled[1::3], shuffled[2::3]
    names = ("outer", "inner one", "last")
    members = ((*first, names[1]), tuple(second), tuple(third))
    made = [
        Group(name, draw(LABELS.map(str.strip)), inside, direction=draw(st.sampled_from(["", "LR", "TB"])))
        for name, inside in zip(names, members, strict=True)
    ]
    return tuple(
        replace(
            group, id=group.id.replace(" ", "-"), members=tuple(m.replace(" ", "-") for m in group.members)
        )
        for group in made
    )


@settings(max_examples=examples(30), deadline=None, phases=[Phase.explicit, Phase.generate])
@given(graphs())
def test_a_graph_is_written_and_reads_back(graph: Graph) -> None:
    assert remove_lines(read_graph(write_graph(graph))) == graph


def test_a_diagram_is_plain_to_read() -> None:
    graph = read_graph(
        'graph LR\nA[Fetch PR] -->|"s >= 80"| B{Gate}:::hot\nsubgraph s [Part]\ndirection TB\nA\nend\nB -.-> s'
    )
    assert write_graph(graph) == (
        "flowchart LR\n"
        '    A["Fetch PR"]\n'
        '    B{"Gate"}\n'
        "    B:::hot\n"
        '    subgraph s ["Part"]\n'
        "        direction TB\n"
        "        A\n"
        "    end\n"
        '    A -->|"s >= 80"| B\n'
        "    B -.-> s\n"
    )


def test_deep_groups_are_written_without_depth() -> None:
    deep = "graph TD\n" + "".join(f"subgraph s{n}\n" for n in range(1_200)) + "A\n" + "end\n" * 1_200
    graph = read_graph(deep)
    assert remove_lines(read_graph(write_graph(graph))) == remove_lines(graph)


@pytest.mark.parametrize(
    ("name", "possible"),
    [
        ("step.one-a", True),
        ("审查", True),
        ("default", True),
        ("endpoint", True),
        ("end", False),
        ("graph", False),
        ("two words", False),
        ("", False),
        ("a\nb", False),
        ("a[b", False),
        ("a--b", False),
        ("a@b", False),
        ("a#35;b", False),
        ("%%", False),
        ("🎉", False),
        ("%%{x}%%a", False),
    ],
)
def test_an_id_is_what_mermaid_takes_for_one(name: str, possible: bool) -> None:
    assert is_id(name) is possible


@pytest.mark.parametrize(
    ("graph", "fault"),
    [
        (Graph(nodes=(Node("two words", "x", "square"),)), "'two words' can't be an id"),
        (Graph(nodes=(Node("A", "", "plain"),)), "its nodes would change when read back"),
        (Graph(nodes=(Node("A", "A"),), links=(Link("A", "B"),)), "its nodes would change when read back"),
        (Graph(direction="UP"), "can't write this graph as a diagram: invalid direction"),
        (
            Graph(nodes=(Node("A", "A", classes=("two words",)),)),
            "can't write this graph as a diagram: unexpected `words`",
        ),
        (
            Graph(nodes=(Node("A", "A"),), links=(Link("A", "A", heads=("arrow", "")),)),
            "can't write this graph as a diagram: its links would change when read back",
        ),
    ],
)
def test_what_no_diagram_can_say_is_a_fault(graph: Graph, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        write_graph(graph)


def test_a_title_that_begins_like_a_tag_changes_nothing_below() -> None:
    graph = Graph(
        nodes=(Node("A", "A", "stadium"), Node("B", "B", "square")),
        links=(Link("A", "B", heads=("", "arrow")),),
        title="<b x=",
    )
    assert remove_lines(read_graph(write_graph(graph))) == graph
