"""Draws agents' words as Markdown, values as highlighted JSON, and panels around them. Loads rich.

All text is cleaned first. Nothing in it is interpreted as markup of rich, as HTML or as a link of the terminal, and
nothing of it is hidden.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from logist.cli.show import render
from logist.cli.show.consoles import create_console
from logist.cli.show.output import DrawnText, Line, Screen

LONGEST = 20_000
"""Characters; a longer text is shown as it is, because drawing it would take too long."""
LEAST_COLUMNS = 30
"""On a narrower terminal, panels have no borders."""
_THEME = "ansi_dark"
_SHOWN_AS_WRITTEN = ["link", "image", "reference", "html_block", "html_inline", "entity"]
"""Markdown that would hide a part of the text, or, for `&#x202e;`, bring back a character that was removed."""


def build_markdown(text: str, screen: Screen) -> RenderableType:
    """Return a text by an agent as Markdown; as it is if it is long, or without styles or Unicode."""
    text = render.clean_for_terminal(text).expandtabs(4).strip("\n")
    _, has_unicode = render.get_drawing_space()
    if len(text) > LONGEST or not (screen.color and has_unicode):
        return Text(text)
    markdown = Markdown(text, code_theme=_THEME, hyperlinks=False)
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    markdown.parsed = parser.disable(_SHOWN_AS_WRITTEN).parse(text)
    for token in markdown.parsed:
        for inner in token.children or ():
            if inner.type == "softbreak":  # the lines of an agent stay lines
                inner.type = "hardbreak"
    return markdown


def build_json(value: Any) -> RenderableType:
    """Return a value as highlighted JSON."""
    text = render.clean_for_terminal(json.dumps(value, ensure_ascii=False, indent=2))
    if len(text) > LONGEST:
        return Text(text)
    return Syntax(text, "json", theme=_THEME, background_color="default", word_wrap=True)


def build_lines(lines: Sequence[Line]) -> RenderableType:
    """Return plain lines, which are wrapped at the border of a panel."""
    return Text.from_ansi("\n".join(" ".join(render.style_line(line, False).split("\n")) for line in lines))


def draw_panel(
    title: Line, facts: str, content: Sequence[RenderableType], screen: Screen, border: str = "dim"
) -> DrawnText:
    """Draw a panel with a headline, and with facts in its lower border if they fit."""
    head = Text.from_ansi(render.style_line(title, screen.color))
    if screen.columns < LEAST_COLUMNS:
        return draw(
            Group(head, Padding(Group(*content), (0, 0, 0, 3))), screen
        )  # never like a line of Logist
    subtitle = Text(render.clean_for_terminal(facts), "dim") if facts else None
    panel = Panel(
        Group(*content),
        title=head,
        title_align="left",
        subtitle=subtitle if facts and len(facts) + 6 <= screen.columns else None,
        subtitle_align="right",
        border_style=border,
    )
    return draw(panel, screen)


def draw(content: RenderableType, screen: Screen) -> DrawnText:
    """Draw for the terminal."""
    console = create_console(color=screen.color, width=screen.columns)
    with console.capture() as capture:
        console.print(content)
    return DrawnText(capture.get().rstrip("\n"))
