"""Text for a model: valid, redacted across every cut, and of bounded length."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable

from logist.core.text.surrogates import replace_surrogates

Redact = Callable[[str], tuple[str, int]]

CONTEXT = 8192
"""Characters around a piece that are included in the redaction, so that its ends show no part of a secret."""
MAX_NAME = 200


def decode_text(data: bytes) -> str:
    """Decode bytes as text; bytes that are not UTF-8 become lone surrogates, which are later written as escapes
    (for example udcff).
    """
    return data.decode("utf-8", "surrogateescape")


def redact_between(redact: Redact, before: str, text: str, after: str) -> tuple[str, int]:
    """Redact `text` with the text before and after it: a secret that
    crosses its ends is removed completely.
    """
    left, left_count = redact(before)
    right, right_count = redact(after)
    redacted, count = redact(before + text + after)
    start = _count_shared(left, redacted)
    rest = redacted[start:]
    end = _count_shared(right[::-1], rest[::-1])
    return rest[: len(rest) - end], max(0, count - left_count - right_count)


def _count_shared(one: str, other: str) -> int:
    """Return the length of the common start."""
    shortest = min(len(one), len(other))
    return bisect_left(range(shortest), True, key=lambda end: one[: end + 1] != other[: end + 1])


def finish_result(redact: Redact, content: str, limit: int) -> tuple[str, int]:
    """Return `content` cleaned, redacted and cut to `limit` characters, with a note of the cut."""
    redacted, count = redact(replace_surrogates(content)[0])
    if len(redacted) <= limit:
        return redacted, count
    note = f"\n[... {len(redacted):,} characters in total; the rest is cut]"
    return (redacted[: max(0, limit - len(note))] + note)[:limit], count


def format_path(path: str) -> str:
    """Return a path on one line with limited length."""
    display_path = path if path.isprintable() else json.dumps(path)
    return display_path if len(display_path) <= MAX_NAME else f"{display_path[:MAX_NAME]}..."


def format_line(redact: Redact, text: str, limit: int) -> str:
    """Return the beginning of a line of a file, redacted before it is cut."""
    visible, _ = redact(replace_surrogates(text[: limit + CONTEXT])[0])
    visible = visible.strip("\r\n")
    return visible if len(visible) <= limit else f"{visible[:limit]}..."
