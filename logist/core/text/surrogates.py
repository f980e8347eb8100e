"""Lone surrogates: Python has them for bytes that are not UTF-8, and no file can hold them."""

from __future__ import annotations


def replace_surrogates(text: str) -> tuple[str, bool]:
    """Replace every lone surrogate in `text` by a backslash escape, so that the text can be stored.

    Also returns whether there was one.
    """
    cleaned = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return cleaned, len(cleaned) != len(text)
