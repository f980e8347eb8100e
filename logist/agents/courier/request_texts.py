"""Stores the bodies of the requests of a program: each one repeats the conversation before it, so that is left out.

Without this, a conversation of 1,000 turns would take 1,000 times its length on the disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from logist.core.model import JsonObject
from logist.quick_tuple import NamedTuple

MOST_KEPT = 4
"""Earlier bodies that a new one is compared with: a program may have several conversations at once."""
LEAST_SHARED = 256
"""A shorter common part is not worth a reference."""


class RequestText(NamedTuple):
    """A body as it is stored: a part of its own, between the beginning and the end of an earlier one."""

    text: str
    like: int | None = None
    """The number of the earlier request; None: `text` is all of it."""
    begin: int = 0
    """How many characters of the beginning of the earlier body it begins with."""
    end: int = 0
    """How many characters of the end of the earlier body it ends with."""

    def to_json(self) -> JsonObject:
        """Return it as the record of a request has it."""
        return {"text": self.text} if self.like is None else self._asdict()


class RequestTexts:
    """The last bodies of one run, without secrets."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, str]] = []

    def shorten(self, k: int, body: str) -> RequestText:
        """Return the body of request `k` as it is stored, and keep it for the next ones."""
        shortest = RequestText(body)
        for number, earlier in self._kept:
            begin = _count_common(earlier, body)
            end = _count_common(earlier[begin:][::-1], body[begin:][::-1])
            if begin + end >= LEAST_SHARED and len(body) - begin - end < len(shortest.text):
                shortest = RequestText(body[begin : len(body) - end], number, begin, end)
        self._kept = [*self._kept, (k, body)][-MOST_KEPT:]
        return shortest


def restore_request_text(stored: Sequence[tuple[int, JsonObject]], k: int) -> str:
    """Return the body of request `k`; `stored`: the number of each request, and its body as it is stored.

    Raises KeyError, ValueError or TypeError if it can't be restored.
    """
    known = dict(stored)
    chain = [k]
    while (like := known[chain[-1]].get("like")) is not None:
        if not isinstance(like, int) or like >= chain[-1]:
            raise ValueError("a request refers to a later one")
        chain.append(like)
    body = ""
    for number in reversed(chain):
        begin, end = int(known[number].get("begin", 0)), int(known[number].get("end", 0))
        body = body[:begin] + str(known[number]["text"]) + (body[len(body) - end :] if end else "")
    return body


def _count_common(one: str, other: str) -> int:
    """Return the length of the common beginning: by halves, because slices are compared faster than characters."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
