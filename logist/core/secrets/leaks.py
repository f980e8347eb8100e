"""Finds secrets in text that arrives in blocks, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from logist.core.secrets import redact
from logist.quick_tuple import NamedTuple

SHOWN = 4
"""The number of characters of a secret that are reported, so that its owner recognizes it."""
LEAST_HIDDEN = 12
"""If fewer characters than this would stay hidden, nothing of the secret is reported."""
CARRIED = 1 << 16
"""Characters at the end of a block that are read again with the next one: the maximum length of a secret."""
BEFORE = 512
"""Characters before those, because some patterns depend on the text before a secret."""


class Leak(NamedTuple):
    """A secret in a place where no secret is allowed."""

    line: int
    """The line, counted from 1."""
    offset: int
    """The byte offset in the text as UTF-8."""
    kind: str
    shown: str
    """The first characters of the secret, or empty."""
    length: int


def find_leaks(blocks: Iterable[str], secrets: Mapping[str, str]) -> Iterator[Leak]:
    """Yield each secret in the text that the blocks form; `secrets` maps each value to its kind.

    Bytes that are not UTF-8 must be surrogates (surrogateescape).
    """
    carried = max([CARRIED, *(12 * len(secret) for secret in secrets)])
    window, line, offset, reported_until = "", 1, 0, 0
    for block, last in _mark_last(blocks):
        window += block
        if not last and len(window) < 2 * carried:
            continue
        end = len(window) if last else len(window) - carried
        for match in redact.find_secrets(window, secrets):
            if reported_until <= match.start < end:
                before = window[: match.start]
                secret = window[match.start : match.end]
                yield Leak(
                    line + before.count("\n"),
                    offset + _count_bytes(before),
                    match.kind,
                    _shorten_secret(secret),
                    len(secret),
                )
                reported_until = match.end
        cut = max(0, end - BEFORE)
        line += window.count("\n", 0, cut)
        offset += _count_bytes(window[:cut])
        window, reported_until = window[cut:], max(reported_until, end) - cut


def _mark_last(blocks: Iterable[str]) -> Iterator[tuple[str, bool]]:
    previous: str | None = None
    for block in blocks:
        if previous is not None:
            yield previous, False
        previous = block
    if previous is not None:
        yield previous, True


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _shorten_secret(secret: str) -> str:
    return secret[:SHOWN] if len(secret) >= SHOWN + LEAST_HIDDEN else ""
