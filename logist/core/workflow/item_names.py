"""A short name for an item of a foreach, for people who look at its child job."""

from __future__ import annotations

from typing import Any

from logist.core.text.invisible_characters import is_invisible

LONGEST = 40
_FIELDS = ("name", "title", "path", "file", "id", "key")
"""The fields of an object that name it, the best first."""


def name_item(item: Any) -> str:
    """Return a text or a number itself, and of an object the field that names it; "" if nothing names the item."""
    if isinstance(item, dict):
        item = next((item[field] for field in _FIELDS if isinstance(item.get(field), str | int)), None)
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        return ""
    line = " ".join("".join(c for c in str(item)[:1000] if not is_invisible(c)).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1].rstrip()}…"
