"""How many columns a text takes on a terminal, and how it is cut to fit."""

from __future__ import annotations

import re
import unicodedata

_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_EMOJI = "\ufe0f"
_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def count_columns(text: str) -> int:
    """Columns of a text: two for wide East Asian characters, none for marks that sit on others."""
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
    """The text in at most `width` columns; what is cut off is replaced by `…`, or by `~` in ASCII."""
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
    """A text of an author as it can stand in a drawing: one line, nothing unseen, and plain ASCII if asked."""
    spaced = " ".join(_BREAK.sub(" ", text).split())
    plain = "".join(character for character in spaced if unicodedata.category(character)[0] != "C")
    return plain if unicode else plain.encode("ascii", "backslashreplace").decode("ascii")
