"""Stores the bodies of the requests of a program: each one repeats the conversation before it, so that is left out.

Without this, a conversation of 1,000 turns would take 1,000 times its length on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logist.core.model import JsonObject
from logist.quick_tuple import NamedTuple

MOST_KEPT = 4
"""Earlier bodies that a new one is compared with: a program may have several conversations at once."""
LEAST_SHARED = 256
"""A shorter common part is not worth a reference."""
AROUND = 8192
"""Characters around a new part that are searched for secrets with it; longer than any key."""


class RequestText(NamedTuple):
    """A body as it is stored: a new part, between the beginning and the end of an earlier one."""

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


class _KeptText(NamedTuple):
    k: int
    body: str
    clean: str
    """Without secrets: what the stored texts are parts of."""


class RequestTexts:
    """The last bodies of one run."""

    def __init__(self, redact: Callable[[str], tuple[str, int]]) -> None:
        """`redact`: returns a text without secrets, and how many it had."""
        self._redact = redact
        self._kept: list[_KeptText] = []

    def shorten(self, k: int, body: str) -> RequestText:
        """Return the body of request `k` as it is stored, without secrets, and keep it for the next ones."""
        clean, stored = body, self._compare(body, [each for each in self._kept if each.body == each.clean])
        # To search all of a long conversation for secrets takes longer than all else, so only what is new is searched, with
        # what is around it: a secret may have begun before.
        near = body[max(0, stored.begin - AROUND) : len(body) - max(0, stored.end - AROUND)]
        if self._redact(near)[1]:
            clean = self._redact(body)[0]
            stored = self._compare(clean, self._kept)
        self._kept = [*self._kept, _KeptText(k, body, clean)][-MOST_KEPT:]
        return stored

    @staticmethod
    def _compare(text: str, kept: Sequence[_KeptText]) -> RequestText:
        """Return the shortest way to store a text."""
        shortest = RequestText(text)
        for each in kept:
            begin = _count_common(each.clean, text)
            end = _count_common(each.clean[begin:][::-1], text[begin:][::-1])
            if begin + end >= LEAST_SHARED and len(text) - begin - end < len(shortest.text):
                shortest = RequestText(text[begin : len(text) - end], each.k, begin, end)
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
