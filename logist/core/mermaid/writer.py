"""Write a graph as a diagram that reads back to the same graph: nodes first, then subgraphs, then edges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from logist.core.mermaid.builder import build_graph
from logist.core.mermaid.error import MermaidError
from logist.core.mermaid.grammar import parse
from logist.core.mermaid.graph import Graph, Group, Link, Node
from logist.core.mermaid.lexer import Lexer
from logist.core.mermaid.source import DiagramSource
from logist.core.mermaid.text import quote_label

_BRACKETS = {
    "square": ("[", "]"),
    "round": ("(", ")"),
    "stadium": ("([", "])"),
    "subroutine": ("[[", "]]"),
    "cylinder": ("[(", ")]"),
    "circle": ("((", "))"),
    "doublecircle": ("(((", ")))"),
    "odd": (">", "]"),
    "diamond": ("{", "}"),
    "hexagon": ("{{", "}}"),
    "lean_right": ("[/", "/]"),
    "lean_left": ("[\\", "\\]"),
    "trapezoid": ("[/", "\\]"),
    "inv_trapezoid": ("[\\", "/]"),
    "ellipse": ("(-", "-)"),
}
_LINES = {"normal": ("--", "-"), "thick": ("==", "="), "dotted": ("-.-", ""), "invisible": ("~~~", "")}
_LEFT = {"": "", "arrow": "<", "circle": "o", "cross": "x"}
_RIGHT = {"arrow": ">", "circle": "o", "cross": "x"}
_ID_WORDS = frozenset(
    ["NUMBER", "NAME", "V", "MINUS", "DEFAULT", "COMMA", "COLON", "AMPERSAND", "HASH", "STAR", "LETTERS"]
)
_DEEPEST_INDENT = 8


def write_graph(graph: Graph) -> str:
    """Return the diagram of a graph. Raises ValueError for what no diagram can express, such as an id with a
    space.

    Line numbers are not kept.
    """
    for node in graph.nodes:
        if not is_id(node.id):
            raise ValueError(f"{node.id!r} can't be an id in a mermaid diagram")
    text = "\n".join([*_write_head(graph), *map(_guard_semicolon, _write_body(graph))]) + "\n"
    _check_round_trip(graph, text)
    return text


def is_id(text: str) -> bool:
    """Whether a node can have this id; for example, `end` and texts with spaces are not allowed."""
    try:
        kinds = [token.type for token in Lexer(DiagramSource(f"{text}\n")).read_tokens()]
    except MermaidError:
        return False
    return (
        len(kinds) > 2
        and _ID_WORDS.issuperset(kinds[:-2])
        and DiagramSource(f"{text}\n").text == f"{text}\n\n"
    )


def remove_lines(graph: Graph) -> Graph:
    """Return the graph without the line numbers of its parts."""
    return replace(
        graph,
        nodes=tuple(replace(node, line=0) for node in graph.nodes),
        links=tuple(replace(link, line=0) for link in graph.links),
        groups=tuple(replace(group, line=0) for group in graph.groups),
    )


def _check_round_trip(graph: Graph, text: str) -> None:
    source = DiagramSource(text)
    try:
        again = remove_lines(build_graph(parse(source), source))
    except MermaidError as error:
        raise ValueError(f"can't write this graph as a diagram: {error.message}") from None
    wanted = remove_lines(graph)
    for name in ("title", "direction", "nodes", "groups", "links"):
        if getattr(again, name) != getattr(wanted, name):
            raise ValueError(f"can't write this graph as a diagram: its {name} would change when read back")


def _write_head(graph: Graph) -> Iterator[str]:
    if graph.title:
        # Mermaid changes quotes in what looks like a tag, also if it begins in the title and ends far below.
        title = json.dumps(graph.title).replace("<", "\\u003c")
        yield from ("---", f"title: {title}", "---")
    yield f"flowchart {graph.direction}"


def _write_body(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        yield f"    {_write_node(node)}"
        yield from (f"    {node.id}:::{name}" for name in node.classes)
    yield from _write_groups(graph)
    yield from (f"    {_write_link(link)}" for link in graph.links)


def _guard_semicolon(line: str) -> str:
    """Mermaid removes the last semicolon of a line that looks like a style
    statement: give it one to remove.
    """
    return line + ";" * ("style" in line) + ";" * ("classDef" in line) if "#" in line else line


def _write_node(node: Node) -> str:
    if node.shape == "plain":
        label = quote_label(node.label).replace("\\", "#92;")
        return node.id if node.label == node.id else f"{node.id}@{{ label: {label} }}"
    before, after = _BRACKETS[node.shape]
    return f"{node.id}{before}{quote_label(node.label)}{after}"


def _write_link(link: Link) -> str:
    left, right = link.heads
    line, open_end = _LINES[link.stroke]
    arrow = _LEFT[left] + line + _RIGHT.get(right, open_end)
    label = "" if link.label is None else f"|{quote_label(link.label)}|"
    return f"{link.source} {arrow}{label} {link.target}"


def _write_groups(graph: Graph) -> Iterator[str]:
    """Write a group inside the group that contains it if it comes right
    after it; otherwise only name it there.
    """
    groups_left = iter(graph.groups)
    next_group = next(groups_left, None)
    opened: list[Iterator[str]] = []
    while opened or next_group:
        member = next(opened[-1], None) if opened else None
        indent = "    " * (min(len(opened), _DEEPEST_INDENT) + 1)
        if next_group and (not opened or member == next_group.id):
            yield from _write_group_start(next_group, indent)
            opened.append(iter(next_group.members))
            next_group = next(groups_left, None)
        elif member is not None:
            yield f"{indent}{member}"
        else:
            opened.pop()
            yield f"{indent[4:]}end"


def _write_group_start(group: Group, indent: str) -> Iterator[str]:
    yield f"{indent}subgraph {group.id} [{quote_label(group.title)}]"
    if group.direction:
        yield f"{indent}    direction {group.direction}"
