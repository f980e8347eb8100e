"""The possible versions on disk of a file that was written but not flushed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

PAGE, SECTOR = 4096, 512


class Write(NamedTuple):
    """Bytes that were written, and may not be on disk."""

    offset: int
    data: bytes


class Resize(NamedTuple):
    """A size that was set, and may not be on disk."""

    size: int


Step = Write | Resize


def done(content: bytes, step: Step) -> bytes:
    """The content after a step."""
    if isinstance(step, Resize):
        return content[: step.size].ljust(step.size, b"\0")
    end = step.offset + len(step.data)
    return content[: step.offset].ljust(step.offset, b"\0") + step.data + content[end:]


def versions(
    kept: bytes, pending: Sequence[Step], chance: Random, stale: bytes = b"", cuts: int = 64
) -> Iterator[bytes]:
    """Yield the possible versions of a file: with lost steps, steps cut at a byte, or without some of their pages.

    A write longer than `cuts` is cut near both ends, and at this many random places.
    """
    yield kept
    for number, step in enumerate(pending):
        before = kept
        for earlier in pending[:number]:
            before = done(before, earlier)
        if isinstance(step, Write):
            yield from _torn(before, step, chance, stale, cuts)
        yield done(before, step)
    for chosen in _subsets(len(pending), chance):
        content = kept
        for step in itertools.compress(pending, chosen):
            content = done(content, step)
        yield content
        # Later writes whose pages are on disk although a size or an earlier write is lost.
        if chosen and chosen[-1] and isinstance(pending[-1], Write):
            yield from _torn(content, pending[-1], chance, stale, 2)


def by_chance(kept: bytes, pending: Sequence[Step], chance: Random, stale: bytes) -> bytes:
    """One version of a file."""
    content = kept
    for step in pending:
        if chance.random() < 0.7:
            content = done(content, step)
        elif isinstance(step, Write) and chance.random() < 0.5:
            content = chance.choice(list(_torn(content, step, chance, stale, 2)) or [content])
    return content


def _subsets(count: int, chance: Random) -> Iterator[tuple[bool, ...]]:
    if count <= 4:
        yield from itertools.product((True, False), repeat=count)
    else:
        yield from (tuple(chance.random() < 0.7 for _ in range(count)) for _ in range(8))


def _torn(before: bytes, write: Write, chance: Random, stale: bytes, cuts: int) -> Iterator[bytes]:
    for cut in _places(len(write.data), chance, cuts):
        yield done(before, Write(write.offset, write.data[:cut]))
        if stale:
            yield done(before, Write(write.offset, write.data[:cut] + stale[write.offset + cut :]))
    for size in (PAGE, SECTOR):
        pieces = list(_pieces(write, size))
        for kept in _some_pieces(pieces, chance):
            yield _filled(before, write, kept, b"", grown=False)
            yield _filled(before, write, kept, b"", grown=True)
            if stale:
                yield _filled(before, write, kept, stale, grown=True)


def _places(size: int, chance: Random, most: int) -> list[int]:
    if size <= most:
        return list(range(1, size))
    ends = {1, 2, *range(3, min(9, most)), *range(max(1, size - most // 6), size)}
    return sorted(ends | {chance.randrange(1, size) for _ in range(most)})


def _pieces(write: Write, size: int) -> Iterator[Write]:
    """Split a write into the pages or sectors that it touches."""
    start, end = write.offset, write.offset + len(write.data)
    while start < end:
        stop = min(end, (start // size + 1) * size)
        yield Write(start, write.data[start - write.offset : stop - write.offset])
        start = stop


def _some_pieces(pieces: list[Write], chance: Random) -> Iterator[list[Write]]:
    """Yield none of them, each one missing, each one alone, and a few combinations."""
    yield []
    if len(pieces) > 1:
        for piece in pieces if len(pieces) <= 8 else [pieces[0], *chance.sample(pieces[1:-1], 5), pieces[-1]]:
            yield [other for other in pieces if other is not piece]
            yield [piece]
        for _ in range(4):
            yield [piece for piece in pieces if chance.random() < 0.5]


def _filled(before: bytes, write: Write, kept: list[Write], stale: bytes, *, grown: bool) -> bytes:
    """Write some pieces; the rest keeps its old content, or, where the file has `grown`, zeros or old bytes
    of the disk.
    """
    end = write.offset + len(write.data) if grown else max((p.offset + len(p.data) for p in kept), default=0)
    content = bytearray(before)
    content += (stale[len(before) : end] if stale else b"").ljust(max(0, end - len(before)), b"\0")
    for piece in kept:
        content[piece.offset : piece.offset + len(piece.data)] = piece.data
    return bytes(content)
