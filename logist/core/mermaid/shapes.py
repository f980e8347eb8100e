"""Mermaid's many names of shapes, and which of ours each one is."""

from __future__ import annotations

from logist.core.mermaid.graph import Shape

_NAMES: dict[Shape, str] = {
    "square": "rect proc process rectangle",
    "round": "rounded event",
    "stadium": "stadium terminal pill",
    "subroutine": "fr-rect subprocess subproc framed-rectangle subroutine",
    "cylinder": "cyl db database cylinder",
    "circle": "circle circ",
    "doublecircle": "dbl-circ double-circle doublecircle",
    "odd": "odd",
    "diamond": "diam decision diamond question",
    "hexagon": "hex hexagon prepare",
    "lean_right": "lean-r lean-right in-out",
    "lean_left": "lean-l lean-left out-in",
    "trapezoid": "trap-b priority trapezoid-bottom trapezoid",
    "inv_trapezoid": "trap-t manual trapezoid-top inv-trapezoid",
}
_DRAWN_AS_SQUARES = """
    anchor bang bolt bow-rect bow-tie-rectangle brace brace-l brace-r braces browser bucket card choice cloud
    collate com-link comment composite console cross-circ crossed-circle curv-trap curved-trapezoid das
    data-store datastore delay directory disk display div-proc div-rect divided-process divided-rectangle doc
    docs document documents extract f-circ filled-circle flag flip-tri flipped-triangle folder fork fr-circ
    framed-circle h-cyl half-rounded-rectangle horizontal-cylinder hourglass icon internal-storage join
    junction lightning-bolt lin-cyl lin-doc lin-proc lin-rect lined-cylinder lined-document lined-process
    lined-rectangle loop-limit manual-file manual-input note notch-pent notch-rect notched-pentagon
    notched-rectangle paper-tape person processes procs shaded-process sl-rect sloped-rectangle sm-circ
    small-circle st-doc st-rect stacked-document stacked-rectangle start state stop stored-data summary
    tag-doc tag-proc tag-rect tagged-document tagged-process tagged-rectangle text tri triangle win-pane
    window-pane
"""

SHAPES: dict[str, Shape] = {
    **dict.fromkeys(_DRAWN_AS_SQUARES.split(), "square"),
    **{name: shape for shape, names in _NAMES.items() for name in names.split()},
}
"""What `@{ shape: NAME }` may say; what we have no shape for is a square."""
