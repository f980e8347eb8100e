"""Add the state of the steps to the diagram of a workflow, as mermaid classes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from logist.core.drawing.marks import Mark

_COLORS = {
    "done": "fill:#d5f5dd,stroke:#1a7f37,color:#0b3d1a",
    "running": "fill:#d6e8ff,stroke:#0969da,color:#06305f,stroke-width:3px",
    "waiting": "fill:#fff6cc,stroke:#9a6700,color:#4d3300",
    "stuck": "fill:#ffe0cc,stroke:#bc4c00,color:#5c2500,stroke-width:3px",
    "failed": "fill:#ffdada,stroke:#cf222e,color:#5e0d13",
    "skipped": "fill:#eeeeee,stroke:#8c959f,color:#57606a,stroke-dasharray:4 3",
    "next": "fill:#ffffff,stroke:#0969da,color:#06305f,stroke-dasharray:4 3",
}
_BEGIN, _END = "%% === STATE ===", "%% === END_STATE ==="
_BLOCK = re.compile(rf"\n{_BEGIN}\n(?:(?!{_BEGIN})[^\n]*\n)*?{_END}(?=\n|\Z)")
_ID = re.compile(r"[^\s,;%&|\"'`(){}\[\]<>]+")


def add_state_to_mermaid(diagram: str, marks: Mapping[str, Mark]) -> str:
    """Return the text of a diagram with a block of classes at its end; the text before it is unchanged.

    A block of an earlier state is replaced. Steps whose id is not valid in such a line get no class.
    """
    bare = _BLOCK.sub("", diagram)
    lines = [_BEGIN]
    for state, look in _COLORS.items():
        ids = [step for step, mark in marks.items() if mark.state == state and _ID.fullmatch(step)]
        if ids:
            lines += [f"classDef logist_{state} {look}", f"class {','.join(ids)} logist_{state}"]
    if len(lines) == 1:
        return bare
    return "\n".join([bare.removesuffix("\n"), *lines, _END]) + ("\n" if bare.endswith("\n") else "")
