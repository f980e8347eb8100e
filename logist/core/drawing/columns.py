"""Measure how many terminal columns a text needs, and cut it to fit."""

from __future__ import annotations

import re
import unicodedata

_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_EMOJI = "\ufe0f"
_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def count_columns(text: str) -> int:
    """Return the columns of a text: two for wide East Asian characters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(_count_character_columns(character) for character in text)


def _count_character_columns(character: str) -> int:
    if character == _EMOJI:  # makes the character before it wide
        return 1
    if unicodedata.category(character) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten_to_columns(text: str, width: int, *, unicode: bool = True) -> str:
    """Return the text in at most `width` columns; `…` (`~` in ASCII) replaces the end that is cut off."""
    if count_columns(text) <= width:
        return text
    if width < 1:
        return ""
    kept, used = [], 1
    for character in text:
        used += _count_character_columns(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept).rstrip() + ("…" if unicode else "~")


def to_one_line(text: str, *, unicode: bool = True) -> str:
    """Return an author's text for a drawing: one line without invisible characters, in ASCII if required."""
    spaced = " ".join(_BREAK.sub(" ", text).split())
    plain = "".join(character for character in spaced if unicodedata.category(character)[0] != "C")
    return plain if unicode else plain.encode("ascii", "backslashreplace").decode("ascii")
