"""What the fixtures cannot say of the reader: places in the text as given, titles, and texts made to hurt."""

from __future__ import annotations

import pytest

from logist.core.mermaid import MAX_CHARACTERS, MAX_LINKS, MAX_TOKENS, MermaidError, read_graph
from logist.core.mermaid.graph import Graph

BROKEN = "A --> B C"
"""Its fault is in column 9."""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"graph TD\n{BROKEN}", (2, 9)),
        (f"graph TD\r\n%% one\r\n\r\n{BROKEN}", (4, 9)),
        (f"graph TD\r%% one\r{BROKEN}", (3, 9)),
        (f"\ufeffgraph TD\n{BROKEN}", (2, 9)),
        (f"---\ntitle: x\n---\ngraph TD\n{BROKEN}", (5, 9)),
        (f"%%{{init: {{}}}}%%\ngraph TD\n%%{{wrap}}%% {BROKEN}", (3, 20)),
        (f"graph TD\nstyle A fill:#f9f;\n{BROKEN}", (3, 9)),
        (f"graph TD\nA{{x}}  \n\n\n{BROKEN}", (5, 9)),
        ('graph TD\nX["#quot;#quot;"] --> B C', (2, 25)),
        ('graph TD\nX["<b class="c">"] --> B C', (2, 26)),
        ("\ufeffA", (1, 2)),
        ("graph TD\n  subgraph one\n  subgraph two\n  end\nA\n", (2, 3)),
        ("graph TD\nA --> B:::\n", (2, 11)),
        ("graph TD\nA[a]\nlinkStyle 7 stroke:red", (3, 11)),
    ],
)
def test_a_fault_is_told_with_its_place_in_the_text_as_given(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(MermaidError) as caught:
        read_graph(text)
    assert (caught.value.line, caught.value.column) == place
    assert str(caught.value) == f"line {place[0]}, column {place[1]}: {caught.value.message}"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("A[Do (twice)] --> B", "unexpected `(` in a label: close the label before it, or quote its text"),
        (
            "A --> B{ok?\nB -->|yes| C",
            "unexpected `|` in a label: close the label before it, or quote its text",
        ),
        ("A -> B", "unexpected `->`: an arrow is `-->`"),
    ],
)
def test_a_common_mistake_is_named_with_its_correction(line: str, advice: str) -> None:
    with pytest.raises(MermaidError) as caught:
        read_graph(f"graph TD\n{line}\n")
    assert caught.value.message.startswith(advice)


def test_everything_knows_its_line() -> None:
    graph = read_graph(
        "---\ntitle: x\n---\ngraph TD\n%% c\nA -->\n  B\nsubgraph s [S]\nB[Later]\n\nA ==> C@{ shape: hex }\nend"
    )
    assert {node.id: node.line for node in graph.nodes} == {"A": 6, "B": 9, "C": 11}
    assert [link.line for link in graph.links] == [6, 11]
    assert [(group.id, group.line) for group in graph.groups] == [("s", 8)]


def test_groups_and_their_members_stand_in_the_order_of_the_text() -> None:
    graph = read_graph("graph TD\nsubgraph z\nC --> B\nsubgraph y\nA\nend\nD\nend\nsubgraph x\nend")
    assert [(group.id, group.members) for group in graph.groups] == [
        ("z", ("C", "B", "y", "D")),
        ("y", ("A",)),
        ("x", ()),
    ]


@pytest.mark.parametrize(
    ("front", "title"),
    [
        ("title: Plain words # a comment", "Plain words"),
        ('title: "A: \\"b\\" #1"', 'A: "b" #1'),
        ("title: 'it''s'", "it's"),
        ("config:\n  title: no\ntitle: yes", "yes"),
        ("config: {}", ""),
    ],
)
def test_the_title_is_the_front_matters(front: str, title: str) -> None:
    assert read_graph(f"---\n{front}\n---\ngraph TD\nA").title == title


def test_a_byte_order_mark_before_front_matter_is_no_fault() -> None:
    """Mermaid rejects it, but editors write it."""
    assert read_graph("\ufeff---\r\ntitle: T\r\n---\r\ngraph TD\r\nA\r\n").title == "T"


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("#quot;a#quot;", '"a"'),
        ("#35;1 #amp; #lt;", "#1 & <"),
        ("#9829;", "\u2665"),
        ("#nosuch; #x41;", "&nosuch; &x41;"),
        ("&lt;b&gt; &amp;amp;", "<b> &amp;"),
        ("&#35;", "&#"),
        ("#128;#0;#55296;#1114112;#99999999999999999999;", "\u20ac\ufffd\ufffd\ufffd\ufffd"),
        ("#amp;lt;", "&lt;"),
        ("a && b &copy", "a && b &copy"),
        ("x<br/>y", "x<br/>y"),
    ],
)
def test_entities_are_read_once_as_a_browser_shows_them(written: str, label: str) -> None:
    graph = read_graph(f'graph TD\nA["{written}"] -->|"{written}"| B')
    assert (graph.nodes[0].label, graph.links[0].label) == (label, label)


@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ("shape: rect label: x", "must be in quotes"),
        ("shape: rect,, label: x", "expected an attribute such as `shape: diamond`, got `, label: x`"),
        ("label: 'a' b", "missing comma before `b`"),
        ("shape: [rect]", r"missing comma before `\[rect\]`"),
        ('label: "\\q"', "is not a valid YAML escape"),
        ("shape: 5", "unknown shape `5`"),
        ("icon: x, label: 5", "`label` must be text if there is an icon or an image"),
        ("\n shape: rect\n  label: x\n", "expected a line such as `shape: diamond`, got `label: x`"),
        ("\n label: 'a' b\n", "after the quoted text"),
        ("\n label: *x\n", "must be in quotes"),
    ],
)
def test_attributes_that_are_no_mapping_are_a_fault(attributes: str, fault: str) -> None:
    with pytest.raises(MermaidError, match=fault):
        read_graph(f"graph TD\nA@{{{attributes}}}")


@pytest.mark.parametrize(
    ("attributes", "label"),
    [
        ('label: "tab\\tend \\u00e9 \\x41 \\\\"', "tab\tend é A \\"),
        ("label: 1.50", "1.5"),
        ("label: 2.0", "2"),
        ("label: true", "true"),
        ("label: null", "A"),
        ("label: x # a comment", "x"),
        ("\n  # a comment\n\n  label: x y # another\n  w: 60\n", "x y"),
        ("\n  'label': 'x' # why\n", "x"),
        ("label", "A"),
    ],
)
def test_attributes_are_read_as_yaml(attributes: str, label: str) -> None:
    assert read_graph(f"graph TD\nA@{{{attributes}}}").nodes[0].label == label


HOSTILE = {
    "spaces": "graph TD\n" + " " * 20_000 + "A",
    "an arrow after a million spaces": "graph TD\nA" + " " * 1_000_000 + "--> B",
    "line breaks": "graph TD\n" + "\n" * 500_000,
    "subgraphs": "graph TD\n" + "subgraph s\n" * 2_000 + "end\n" * 2_000,
    "subgraphs left open": "graph TD\n" + "subgraph s\n" * 2_000,
    "a chain": "graph TD\nA" + "-->A" * 3_000,
    "brackets": "graph TD\nA" + "[" * 500_000,
    "an open string": 'graph TD\nA["' + "x" * 1_000_000,
    "at signs": "graph TD\n" + "a@" * 200_000,
    "directions": "graph TD\n" + "a direction TB " * 50_000,
    "tags": "graph TD\nA[" + "<a" * 300_000 + "]",
    "directives": "graph TD\n" + "%%{" * 200_000,
    "directives left open": "graph TD\n%%{init: " + "}" * 500_000,
    "comments": "graph TD\n" + "%% x\n" * 50_000,
    "braces": "graph TD\nA{x" + "} " * 200_000,
    "styles": "graph TD\nstyle A " + ":x" * 10_000,
    "front matter": "---\n" + "---x\n" * 100_000,
    "edge text": "graph TD\nA -- " + " x" * 10_000 + " --> B",
    "dots": "graph TD\n" + "." * 100_000,
    "entities": 'graph TD\nA["' + "#1;" * 100_000 + '"]',
    "quotes in attributes": "graph TD\nA@{" + "'" * 200_000 + "}",
    "escapes in attributes": 'graph TD\nA@{ label: "' + "\\" * 200_000 + '" }',
    "a number": "graph TD\nA --> B\nlinkStyle " + "9" * 100_000 + " stroke:red",
    "zeros": "\0" * 100_000,
}


@pytest.mark.deep
@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_made_to_hurt_ends_with_a_graph_or_a_fault(name: str) -> None:
    """Each of these is quadratic, or deeper than Python's stack, if it is read carelessly."""
    try:
        outcome: Graph | MermaidError = read_graph(HOSTILE[name])
    except MermaidError as error:
        outcome = error
    assert len(outcome.nodes if isinstance(outcome, Graph) else outcome.message) < 200


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x" * (MAX_CHARACTERS + 1), "more than 4,194,304 characters"),
        ("graph TD;" + ";" * (MAX_TOKENS + 1), "more than 100,000 tokens"),
        ("graph TD\n" + " & ".join("A" * 150) + " --> " + " & ".join("B" * 150), "more than 20,000 edges"),
    ],
)
def test_there_are_limits(text: str, fault: str) -> None:
    assert MAX_LINKS < 150 * 150
    with pytest.raises(MermaidError, match=fault):
        read_graph(text)
