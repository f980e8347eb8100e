"""Workflows drawn for people: as text for a terminal, and as a mermaid diagram with states."""

from logist.core.drawing.lines import drawn, plain
from logist.core.drawing.marks import DrawnChild, Line, LineSegment, Mark, Standing
from logist.core.drawing.mermaid import mermaid_with_state

__all__ = ["DrawnChild", "Line", "LineSegment", "Mark", "Standing", "drawn", "mermaid_with_state", "plain"]
