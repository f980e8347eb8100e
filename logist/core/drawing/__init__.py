"""Draw workflows for people: as text for a terminal, and as a mermaid diagram with states."""

from logist.core.drawing.lines import draw_workflow, strip_styles
from logist.core.drawing.marks import DrawnChild, Line, LineSegment, Mark, Standing
from logist.core.drawing.mermaid import add_state_to_mermaid

__all__ = [
    "DrawnChild",
    "Line",
    "LineSegment",
    "Mark",
    "Standing",
    "add_state_to_mermaid",
    "draw_workflow",
    "strip_styles",
]
