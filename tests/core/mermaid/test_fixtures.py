"""Every diagram under fixtures/workflows/mermaid against what mermaid itself makes of it (see oracle.mjs there)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logist.core.mermaid import MermaidError, read_graph, remove_lines, write_graph
from logist.core.mermaid.graph import Graph

FIXTURES = Path(__file__).parents[3] / "fixtures" / "workflows" / "mermaid"
ACCEPTED = sorted((FIXTURES / "accepted").glob("*.mmd"))
REJECTED = sorted((FIXTURES / "rejected").glob("*.mmd"))

DIFFERENT = {
    "comment-bare": "mermaid takes a bare `%%` for a node: in a config block it is an empty line, not a step",
}
"""Where our reader means to differ from mermaid, and why."""

LATER = {
    "attributes-not-closed",
    "click-nothing",
    "edge-text-no-end",
    "edge-text-not-closed",
    "edge-text-strokes-differ",
    "id-missing-target",
    "label-not-closed",
    "label-quote-not-closed",
    "subgraph-brackets-open",
    "subgraph-not-closed",
}
"""Mermaid notices these at the end of the text; we say what was left open, and where."""

PLACES: dict[str, tuple[int, int]] = {
    "attributes-key-twice": (2, 2),
    "attributes-not-closed": (2, 2),
    "class-def-empty": (2, 13),
    "class-without-name": (3, 8),
    "click-nothing": (4, 1),
    "comment-only": (2, 1),
    "comment-trailing": (2, 9),
    "direction-unknown": (1, 6),
    "edge-one-dash": (2, 3),
    "edge-text-brackets": (2, 8),
    "edge-text-empty": (2, 7),
    "edge-text-no-end": (2, 2),
    "edge-text-not-closed": (2, 6),
    "edge-text-strokes-differ": (2, 2),
    "edge-text-twice": (2, 13),
    "edge-text-two-spaces-after": (2, 12),
    "edge-two-arrows": (2, 7),
    "empty": (1, 1),
    "end-too-many": (5, 1),
    "fan-no-space": (2, 4),
    "fan-nothing": (2, 4),
    "header-glued": (1, 1),
    "header-upper-case": (1, 1),
    "id-class": (2, 6),
    "id-emoji": (2, 7),
    "id-end-first": (2, 1),
    "id-end": (2, 7),
    "id-entity": (2, 2),
    "id-graph": (2, 7),
    "id-missing-source": (2, 9),
    "id-missing-target": (2, 6),
    "id-parenthesis": (2, 2),
    "id-style": (2, 7),
    "id-subgraph": (2, 7),
    "id-with-space": (2, 3),
    "label-braces": (2, 3),
    "label-empty-quoted": (2, 5),
    "label-empty": (2, 3),
    "label-not-closed": (2, 8),
    "label-parentheses": (2, 7),
    "label-quote-inside": (2, 8),
    "label-quote-not-closed": (2, 3),
    "label-then-text": (2, 8),
    "label-wrong-bracket": (2, 7),
    "link-style-out-of-range": (3, 11),
    "no-header": (1, 1),
    "node-after-direction": (1, 10),
    "other-diagram": (1, 1),
    "shape-unknown": (3, 2),
    "shape-upper-case": (2, 2),
    "style-empty": (3, 8),
    "subgraph-brackets-open": (2, 14),
    "subgraph-not-closed": (2, 1),
    "subgraph-without-title": (2, 9),
    "text-after-statement": (2, 9),
}
"""Line and column of what is rejected."""


def facts(graph: Graph) -> dict[str, Any]:
    """A graph as the expectations write it."""
    groups = [
        {"id": group.id, "title": group.title, "direction": group.direction, "members": sorted(group.members)}
        for group in graph.groups
    ]
    return {
        "direction": graph.direction,
        "nodes": [
            {"id": node.id, "label": node.label, "shape": node.shape, "classes": list(node.classes)}
            for node in graph.nodes
        ],
        "links": [
            {
                "source": link.source,
                "target": link.target,
                "label": link.label,
                "stroke": link.stroke,
                "heads": list(link.heads),
            }
            for link in graph.links
        ],
        "groups": sorted(groups, key=lambda group: str(group["id"])),
    }


def text_of(path: Path) -> str:
    return path.read_bytes().decode()


def test_there_are_enough_diagrams() -> None:
    assert len(ACCEPTED) >= 130
    assert len(REJECTED) >= 30


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_a_diagram_reads_as_mermaid_reads_it(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert (facts(read_graph(text_of(path))) == expected) is (path.stem not in DIFFERENT), path.stem


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_a_diagram_is_written_and_reads_back(path: Path) -> None:
    graph = read_graph(text_of(path))
    if path.stem == "edge-id-is-no-node":  # its second edge leaves an edge, not a node
        with pytest.raises(ValueError, match="its nodes would change when read back"):
            write_graph(graph)
    else:
        assert remove_lines(read_graph(write_graph(graph))) == remove_lines(graph)


@pytest.mark.parametrize("path", REJECTED, ids=lambda path: path.stem)
def test_what_mermaid_rejects_is_rejected_with_its_place(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert "rejected" in expected
    with pytest.raises(MermaidError) as caught:
        read_graph(text_of(path))
    assert (caught.value.line, caught.value.column) == PLACES[path.stem]
    assert path.stem in LATER or expected["line"] in (None, caught.value.line)


def test_every_rejected_diagram_has_its_place() -> None:
    assert PLACES.keys() == {path.stem for path in REJECTED}


def test_the_pull_request_review_has_its_nodes_edges_and_cycle() -> None:
    graph = read_graph(text_of(FIXTURES / "accepted" / "pr-review.mmd"))
    assert (len(graph.nodes), len(graph.links)) == (11, 12)
    assert [(link.source, link.label) for link in graph.links if link.target == "A"] == [
        ("J", "output.shouldRetry")
    ]
    assert [node.line for node in graph.nodes][:3] == [2, 2, 3]
