"""A graph of steps as the lines of a drawing, in the colours of the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from logist.cli.show import render
from logist.cli.show.output import Line, StyledText
from logist.core.drawing import Mark, drawn

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
"""How each kind of segment looks; a name is plain."""


def graph_lines(workflow: Workflow, marks: Mapping[str, Mark] | None = None) -> list[Line]:
    """The drawing, as wide as the terminal; in ASCII where that shows no more."""
    columns, unicode = render.paper()
    lines = drawn(workflow, marks or {}, columns, unicode=unicode)
    return [
        tuple(StyledText(segment.text, STYLES.get(segment.style, "")) for segment in line) for line in lines
    ]
