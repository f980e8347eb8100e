"""Measure how many terminal columns a text needs, cut it to fit, and fill it up."""

from __future__ import annotations

import re
import unicodedata

from logist.lazy_patterns import compile_on_use

_BREAK = compile_on_use(r"<br\s*/?>", re.IGNORECASE)
_EMOJI = "\ufe0f"
"""Makes the character before it a picture, which is wide."""
_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})
_JAMO = (range(0x1160, 0x1200), range(0xD7B0, 0xD800))
"""Vowels and final consonants of Korean that a terminal draws into the column of the consonant before them: names of
files from macOS are written with them.
"""


def count_columns(text: str) -> int:
    """Return the columns of a text: two for wide East Asian characters, none for combining marks."""
    if text.isascii():
        return len(text)
    pairs = zip(f" {text}", text, strict=False)
    return sum(_count_character_columns(before, character) for before, character in pairs)


def _count_character_columns(before: str, character: str) -> int:
    if character == _EMOJI:
        return 1 if before != " " and _count_character_columns("", before) == 1 else 0
    if unicodedata.category(character) in _NO_WIDTH or any(ord(character) in jamo for jamo in _JAMO):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten_to_columns(text: str, width: int, *, unicode: bool = True) -> str:
    """Return the text in at most `width` columns; `…` (`~` in ASCII) replaces the end that is cut off."""
    if count_columns(text) <= width:
        return text
    if width < 1:
        return ""
    end, used = 0, 1
    for before, character in zip(f" {text}", text, strict=False):
        used += _count_character_columns(before, character)
        if used > width:
            break
        end += 1
    return text[:end].rstrip() + ("…" if unicode else "~")


def pad_to_columns(text: str, width: int) -> str:
    """Return the text with spaces after it, so that it needs `width` columns; unchanged if it needs more."""
    return text + " " * (width - count_columns(text))


def to_one_line(text: str, *, unicode: bool = True) -> str:
    """Return an author's text for a drawing: one line without invisible characters, in ASCII if required."""
    spaced = " ".join(_BREAK.sub(" ", text).split())
    plain = "".join(character for character in spaced if unicodedata.category(character)[0] != "C")
    return plain if unicode else plain.encode("ascii", "backslashreplace").decode("ascii")
