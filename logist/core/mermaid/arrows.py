"""What an arrow says: its stroke, and what it has at its ends."""

from __future__ import annotations

from typing import Literal

Stroke = Literal["normal", "thick", "dotted", "invisible"]

_STROKES: dict[str, Stroke] = {"=": "thick", "~": "invisible"}
_HEADS = {">": "arrow", "<": "arrow", "o": "circle", "x": "cross"}


def ends(end: str, start: str) -> tuple[Stroke, tuple[str, str]]:
    """Stroke and heads of an arrow; of `-- text -->`, `start` is what stands before the text.

    Where the two sides do not agree, as in `x-- text ==>`, mermaid draws a plain arrow.
    """
    head = _HEADS.get(end[-1], "") if end[-1] != "<" else ""
    tail = head if head and end[0] == ("<" if end[-1] == ">" else end[-1]) else ""
    stroke = _stroke(end[1:-1] if tail else end[:-1])
    if not start:
        return stroke, (tail, head)
    before = _HEADS.get(start[0], "")
    if _stroke(start[1:] if before else start) != stroke or (before and (tail or before != head)):
        return "normal", ("", "arrow")
    return stroke, (before or tail, head)


def _stroke(line: str) -> Stroke:
    if "." in line:
        return "dotted"
    return _STROKES.get(line[:1], "normal")
