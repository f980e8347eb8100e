"""How texts are shown: what agents wrote is never markup, is not endless, and hides nothing."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup, escape

from logist.core.text.invisible_characters import compile_invisible_pattern

MOST_CHARACTERS = 20_000
"""Of one text on a page; the terminal and the files have all of it."""


def show_text(value: object, most: int = MOST_CHARACTERS) -> Markup:
    """Return a text for a page: escaped, cut to `most` characters, and with names in place of invisible characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    cut = text[:most]
    pattern = compile_invisible_pattern(cut)
    if pattern is None:
        shown = escape(cut)
    else:
        parts: list[Markup] = []
        end = 0
        for match in pattern.finditer(cut):
            parts += [escape(cut[end : match.start()]), _name_characters(match[0])]
            end = match.end()
        shown = Markup("").join([*parts, escape(cut[end:])])
    if len(text) > most:
        left = Markup('<span class="cut">… {:,} more characters</span>').format(len(text) - most)
        return shown + left
    return shown


def _name_characters(run: str) -> Markup:
    names = Markup("").join(
        character
        if character in "\n\t"
        else Markup('<span class="hidden">U+{:04X}</span>').format(ord(character))
        for character in run[:20]
    )
    return names + (Markup('<span class="hidden">…</span>') if len(run) > 20 else Markup(""))


def to_one_line(value: Any, most: int = 300) -> Markup:
    """Return a text on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return show_text(" ".join(text[: 4 * most].split()), most)


def to_plain_line(value: str) -> str:
    """Return a text on one line for a script, which shows it as text: with names of invisible characters too."""
    return str(to_one_line(value).striptags())


def format_age(seconds: float) -> str:
    """Return how long something is ago: `3 min`, `2 h`, `5 days`."""
    if seconds < 60:
        return "just now"
    for size, unit in ((86400, "day"), (3600, "h"), (60, "min")):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}{'s' if unit == 'day' and number > 1 else ''}"
    return ""
