"""Find the diagrams in Markdown, which are the blocks fenced as mermaid, and the front matter of the page."""

from __future__ import annotations

import re

from logist.quick_dataclass import dataclass

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*(?:>[ \t]?)*)(?P<fence>`{3,}|~{3,})[ \t]*\{?\.?(?P<word>[\w-]*)[^\n`]*$"
)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$")
_FLOW = re.compile(r"^\s*(?:flowchart|graph)\b", re.MULTILINE)


@dataclass(frozen=True)
class DiagramBlock:
    """One diagram: its text, how many lines of the page come before it, and the heading above it."""

    text: str
    before: int
    heading: str = ""

    @property
    def is_flow(self) -> bool:
        """Whether it is a flowchart, and not a diagram of another kind."""
        return _FLOW.search(self.text) is not None


@dataclass(frozen=True)
class Page:
    """The diagrams of a page, and its front matter as text."""

    blocks: tuple[DiagramBlock, ...]
    front: str = ""


def read_page(text: str) -> Page:
    """Return the diagrams and the front matter of a Markdown text. An unclosed fence extends to the end."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    front, here = _read_front_matter(lines)
    blocks: list[DiagramBlock] = []
    heading = ""
    while here < len(lines):
        opened = _FENCE.match(lines[here])
        here += 1
        if opened is None:
            if heading_match := _HEADING.match(lines[here - 1]):
                heading = heading_match[1]
            continue
        start = here
        while here < len(lines) and not _is_closing_fence(lines[here], opened["fence"]):
            here += 1
        if opened["word"].lower() == "mermaid":
            inside = "\n".join(_remove_indent(line, opened["indent"]) for line in lines[start:here])
            blocks.append(DiagramBlock(inside + "\n", start, heading))
        here += 1
    return Page(tuple(blocks), front)


def _read_front_matter(lines: list[str]) -> tuple[str, int]:
    """Return the front matter, and the line at which the page continues."""
    if lines and lines[0].rstrip() == "---":
        for number, line in enumerate(lines[1:], start=1):
            if line.rstrip() in {"---", "..."}:
                return "\n".join(lines[1:number]) + "\n", number + 1
    return "", 0


def _is_closing_fence(line: str, fence: str) -> bool:
    bare = line.strip(" \t>")
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _remove_indent(line: str, indent: str) -> str:
    if line.startswith(indent):
        return line[len(indent) :]
    return line.lstrip(" \t") if not indent.strip() else line.lstrip(" \t>")
