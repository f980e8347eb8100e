"""The parts of a prompt: redacted, joined, located in the prompt and hashed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from logist.core.model import Part
from logist.digests import compute_sha256
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple

SEPARATOR = "\n\n---\n\n"
"""Between the system half and the user half of `request.prompt`."""
JOINT = "\n\n"
"""Between the parts of one half."""
CONTRACT_SOURCE = "contract"
"""The part that says how to answer; always the last one of a prompt."""

Redact: TypeAlias = Callable[[str], tuple[str, int]]
"""Removes secrets from a text; returns `(text, number of secrets)`."""


class UnplacedPart(NamedTuple):
    """A part before its position in the prompt is known. A replay builds dozens for each request."""

    source: str
    kind: Literal["rule", "given"]
    text: str
    glued: bool = False
    """It follows the previous part directly, without a separator."""
    least: int = 0
    """This many of its first characters are always kept, however small the budget is."""
    reason: str = ""
    """Why the prompt contains it, if that is not obvious."""
    is_masked: bool = False
    """For an archived part: an export removed something from it."""


def find_end_of_context(sources: Sequence[str]) -> int:
    """Return the index at which the context of a prompt ends: at the end of the parts, but before the contract."""
    return len(sources) - (sources[-1:] == [CONTRACT_SOURCE])


def assemble(
    system: Iterable[UnplacedPart], user: Iterable[UnplacedPart], redact: Redact, joint: str = JOINT
) -> tuple[str, list[Part], int, int]:
    """Return `(prompt, parts, user_start, redactions)`; every piece is
    redacted before it gets its position.
    """
    text = ""
    parts: list[Part] = []
    redactions = user_start = 0
    for half, between in ((system, ""), (user, SEPARATOR)):
        cleaned, count = redact_pieces(half, redact)
        text += between
        user_start, redactions = len(text), redactions + count
        for place in _place_pieces(cleaned, joint):
            text += place.before + place.piece.text
            parts.append(_build_part(place.piece, len(text)))
    return text, parts, user_start, redactions


def redact_pieces(pieces: Iterable[UnplacedPart], redact: Redact) -> tuple[list[UnplacedPart], int]:
    """Redact the pieces and count the redactions, including secrets that extend across glued pieces."""
    redacted: list[UnplacedPart] = []
    redactions = 0
    for run in _group_glued(pieces):
        cleaned = [_redact_piece(piece, redact) for piece in run]
        count = sum(count for _, count in cleaned)
        parts = [piece for piece, _ in cleaned]
        if len(parts) > 1 and (count_across := redact("".join(piece.text for piece in parts))[1]):
            parts, count = _redact_across(parts, redact), count + count_across
        redacted += parts
        redactions += count
    return redacted, redactions


def _redact_across(parts: list[UnplacedPart], redact: Redact) -> list[UnplacedPart]:
    """Redact glued pieces across which a secret extends; merges as few of them as possible."""
    merged = parts[:1]
    for piece in parts[1:]:
        text, across = redact(merged[-1].text + piece.text)
        merged[-1:] = [_merge_pair(merged[-1], piece, text)] if across else [merged[-1], piece]
    text, across = redact("".join(piece.text for piece in merged))
    return [parts[0]._replace(kind="given", text=text)] if across else merged


def _merge_pair(left: UnplacedPart, right: UnplacedPart, text: str) -> UnplacedPart:
    source = right.source if left.kind == "rule" else left.source
    return left._replace(source=source, kind="given", text=text, least=0, reason="")


def _group_glued(pieces: Iterable[UnplacedPart]) -> Iterator[list[UnplacedPart]]:
    """Yield each piece together with those that are glued to it."""
    run: list[UnplacedPart] = []
    for piece in pieces:
        if run and not piece.glued:
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


def _redact_piece(piece: UnplacedPart, redact: Redact) -> tuple[UnplacedPart, int]:
    text, count = redact(piece.text)
    least = len(redact(piece.text[: piece.least])[0]) if piece.least else 0
    source, reason = redact(piece.source)[0], redact(piece.reason)[0]
    return piece._replace(source=source, text=text, least=min(least, len(text)), reason=reason), count


@dataclass(frozen=True)
class _Place:
    piece: UnplacedPart
    before: str
    """The separator between it and the previous part."""


def _place_pieces(pieces: Iterable[UnplacedPart], joint: str) -> Iterator[_Place]:
    """Yield each piece with the separator before it; empty pieces among glued ones are skipped."""
    between = ""
    for run in _group_glued(pieces):
        separator = between
        for piece in run:
            if piece.text or len(run) == 1:
                yield _Place(piece, separator)
                separator, between = "", joint


def _build_part(piece: UnplacedPart, end: int) -> Part:
    digest = compute_sha256(piece.text.encode("utf-8", "surrogatepass"))
    return Part(source=piece.source, kind=piece.kind, sha256=digest, start=end - len(piece.text), end=end)


def escape_unprintable(path: str) -> str:
    """Put a path on one line: an agent may create a file whose name contains line breaks and headings."""
    return path if path.isprintable() else json.dumps(path)


def count_bytes(text: str) -> int:
    """Count the bytes of a text, as a tokenizer sees them; surrogates count too."""
    return len(text.encode("utf-8", "surrogatepass"))
