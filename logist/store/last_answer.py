"""Reads a history from its end backwards, and no more of it than is needed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from logist.regular_files import open_regular
from logist.store.entries import verify_line

MOST_BYTES = 4 << 20
"""How much of the end is read; an answer that begins before that is not found."""
_FIRST_PIECE = 1 << 16
"""How much is read first; each further piece is twice as long."""
_RETURNS = ("restep", "rerun")
"""After these, earlier answers are not about the current work."""


def read_last_answer(folder: str, head: str) -> dict[str, Any] | None:
    """Return the last entry that records an answer, with its chain of hashes verified from `head`, the hash of the
    last entry, backwards; None if there is none near the end.
    """
    for entry in iter_backwards(folder, head):
        if entry.get("kind") == "ask":
            return entry
        if entry.get("kind") in _RETURNS:
            return None
    return None


def iter_backwards(folder: str, head: str) -> Iterator[dict[str, Any]]:
    """Yield the entries near the end of a history, the last one first, each with the hash that the one after it names;
    `head` is that of the last one.

    Ends before the first one that does not verify, is in a closed segment, or begins before the last MOST_BYTES.
    """
    try:
        descriptor, size = open_regular(f"{folder}/jobHistory.json")
    except OSError:
        return
    expected: object = head
    try:
        for line in _iter_lines_backwards(descriptor, size):
            sealed = line.removeprefix(b",")
            if not sealed.startswith(b'{"sequence":'):
                continue  # the closing, or a part of a line
            if verify_line(sealed) != expected:
                return
            entry: dict[str, Any] = json.loads(sealed)
            yield entry
            expected = entry.get("previous")
    except (OSError, ValueError, RecursionError):
        return
    finally:
        os.close(descriptor)


def _iter_lines_backwards(descriptor: int, size: int) -> Iterator[bytes]:
    """Yield the lines in the last MOST_BYTES of a file, the last one first; the first of them may be incomplete."""
    start, rest, piece = size, b"", _FIRST_PIECE
    while start > max(0, size - MOST_BYTES):
        end, start = start, max(0, size - MOST_BYTES, start - piece)
        rest, *lines = (os.pread(descriptor, end - start, start) + rest).split(b"\n")
        yield from reversed(lines)
        piece *= 2
    yield rest
