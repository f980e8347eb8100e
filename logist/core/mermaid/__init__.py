"""Read mermaid flowcharts from text into a graph, and write them. Logist rejects what mermaid rejects."""

from __future__ import annotations

from logist.core.mermaid.builder import MAX_LINKS, build_graph
from logist.core.mermaid.error import MermaidError
from logist.core.mermaid.grammar import parse
from logist.core.mermaid.graph import Graph
from logist.core.mermaid.lexer import MAX_TOKENS
from logist.core.mermaid.source import MAX_CHARACTERS, DiagramSource, extract_front_matter
from logist.core.mermaid.writer import is_id, remove_lines, write_graph

__all__ = [
    "MAX_CHARACTERS",
    "MAX_LINKS",
    "MAX_TOKENS",
    "MermaidError",
    "extract_front_matter",
    "is_id",
    "read_graph",
    "remove_lines",
    "write_graph",
]


def read_graph(text: str) -> Graph:
    """Return the graph of a flowchart. Raises MermaidError, with line and
    column, for any other text, however large or deep.
    """
    source = DiagramSource(text)
    return build_graph(parse(source), source)
