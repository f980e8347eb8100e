"""Find invisible characters. They are removed from displayed text, and from text that is searched for secrets,
because they could split a secret.
"""

from __future__ import annotations

import re
import unicodedata

_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Unicode categories; they include line separators, which some terminals treat as new lines."""
_IGNORED = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Invisible characters of other categories: joiners, fillers and variation selectors."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def is_invisible(character: str) -> bool:
    """Whether the character is invisible or could control a terminal: a control, format, surrogate, private or
    separator character.
    """
    return character not in "\n\t" and unicodedata.category(character) in _CATEGORIES


def _is_hidden(character: str) -> bool:
    """Whether the character is invisible; emoji and Korean text need some of these."""
    return character in _IGNORED or is_invisible(character)


def compile_invisible_pattern(text: str) -> re.Pattern[str] | None:
    """Return a pattern that matches each run of invisible characters in a text; None if it has none.

    A carriage return at the end of a line does not count: it is common, and it splits nothing.
    """
    if text.isascii() and not _CONTROLS.search(text):
        return None
    characters = "".join(sorted(character for character in set(text) if _is_hidden(character)))
    if not characters or (characters == "\r" and text.count("\r") == text.count("\r\n")):
        return None
    without_returns = re.escape(characters.replace("\r", ""))
    alternatives = [f"[{without_returns}]"] * bool(without_returns) + [r"\r(?!\n)"] * ("\r" in characters)
    return re.compile(f"(?:{'|'.join(alternatives)})+")
