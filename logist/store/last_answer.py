"""Finds the last answer at the end of a history, for people who look at a job. Reads no more than the end."""

from __future__ import annotations

import json
import os
from typing import Any

from logist.regular_files import open_regular
from logist.store.entries import verify_line

MOST_BYTES = 4 << 20
"""How much of the end is read; an answer that begins before that is not found."""
_RETURNS = ("restep", "rerun")
"""After these, earlier answers are not about the current work."""


def read_last_answer(folder: str, head: str) -> dict[str, Any] | None:
    """Return the last entry that records an answer, with its chain of hashes verified from `head`, the hash of the
    last entry, backwards; None if there is none near the end.
    """
    try:
        descriptor, size = open_regular(f"{folder}/jobHistory.json")
    except OSError:
        return None
    try:
        start = max(0, size - MOST_BYTES)
        lines = os.pread(descriptor, size - start, start).splitlines()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    expected: object = head
    for line in reversed(lines):
        sealed = line.removeprefix(b",")
        if not sealed.startswith(b'{"sequence":'):
            continue  # the closing, or a part of a line
        if verify_line(sealed) != expected:
            return None
        try:
            entry: dict[str, Any] = json.loads(sealed)
        except (ValueError, RecursionError):
            return None
        if entry.get("kind") == "ask":
            return entry
        if entry.get("kind") in _RETURNS:
            return None
        expected = entry.get("previous")
    return None
