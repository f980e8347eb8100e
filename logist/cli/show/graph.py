"""Draws a graph of steps as lines with terminal colors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from logist.cli.show import render
from logist.cli.show.output import Line, StyledText
from logist.core.drawing import Mark, draw_workflow

if TYPE_CHECKING:
    from logist.core.model import Workflow

STYLES = {
    "line": "dim",
    "id": "bold",
    "kind": "cyan",
    "condition": "yellow",
    "reference": "dim",
    "text": "dim",
    "done": "green",
    "running": "blue bold",
    "waiting": "yellow",
    "stuck": "red bold",
    "failed": "red",
    "skipped": "dim",
    "next": "cyan bold",
}
"""Style of each kind of segment; a name has none."""


_COMMENT = re.compile(r"(?:\A|(?<=[\r\n]))[ \t]*%%(?!\{)[^\r\n]*(?:\r\n|[\r\n]|\Z)")
"""Comment lines, which mermaid ignores; `%%{init: ...}%%` is not a comment."""


def without_comments(diagram: str) -> str:
    """Return the diagram without its config block and other comments; the picture stays the same."""
    return _COMMENT.sub("", diagram).rstrip() + "\n"


def draw_graph(workflow: Workflow, marks: Mapping[str, Mark] | None = None) -> list[Line]:
    """Return the drawing, as wide as the terminal; in ASCII if the terminal doesn't support Unicode."""
    columns, unicode = render.get_drawing_space()
    lines = draw_workflow(workflow, marks or {}, columns, unicode=unicode)
    return [
        tuple(StyledText(segment.text, STYLES.get(segment.style, "")) for segment in line) for line in lines
    ]
