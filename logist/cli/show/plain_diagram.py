"""A diagram without what only Logist and its agents read in it."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"(?:\A|(?<=[\r\n]))[ \t]*%%(?!\{)[^\r\n]*(?:\r\n|[\r\n]|\Z)")
"""Lines that mermaid passes over; `%%{init: ...}%%` is none."""


def without_comments(diagram: str) -> str:
    """The diagram without its config block and all other comments; it draws the same picture."""
    return _COMMENT.sub("", diagram).rstrip() + "\n"
