"""A graph of steps as the lines of a drawing, in the colours of the terminal."""

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
"""How each kind of segment looks; a name is plain."""


_COMMENT = re.compile(r"(?:\A|(?<=[\r\n]))[ \t]*%%(?!\{)[^\r\n]*(?:\r\n|[\r\n]|\Z)")
"""Lines that mermaid passes over; `%%{init: ...}%%` is none."""


def without_comments(diagram: str) -> str:
    """The diagram without its config block and all other comments; it draws the same picture."""
    return _COMMENT.sub("", diagram).rstrip() + "\n"


def draw_graph(workflow: Workflow, marks: Mapping[str, Mark] | None = None) -> list[Line]:
    """Return the drawing, as wide as the terminal; in ASCII where the terminal supports no more."""
    columns, unicode = render.get_drawing_space()
    lines = draw_workflow(workflow, marks or {}, columns, unicode=unicode)
    return [
        tuple(StyledText(segment.text, STYLES.get(segment.style, "")) for segment in line) for line in lines
    ]
