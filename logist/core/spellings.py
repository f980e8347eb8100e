"""How a known secret may be spelled: forms of the value, and readings of the text around it."""

from __future__ import annotations

import base64
import html
import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

# Escapes of characters that need none: nobody writes them but to hide, or by a careful library.
_ODD_ESCAPE = re.compile(r"\\(?:u00[2-7][0-9A-Fa-f]|x[2-7][0-9A-Fa-f]|/)")
_ESCAPE = re.compile(r"\\(?:u00(?P<u>[2-7][0-9A-Fa-f])|x(?P<x>[2-7][0-9A-Fa-f])|(?P<c>[/\\\"']))")
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
# A line break, also as JSON or a shell writes it, and what stands before the rest of a value on the next line.
_BREAK = re.compile(r"(?:\\?\r?\n|\\r\\n|\\n)[ \t>|#*]*+")


def forms(secret: str) -> frozenset[str]:
    """A value as it is, in JSON, in an address, in HTML, in a shell's quotes, in base64 and in hex."""
    encoded = secret.encode("utf-8", "surrogatepass")
    return frozenset(
        (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            html.escape(secret, quote=False),
            html.escape(secret),
            secret.replace("'", "'\\''"),
            *_percent_encoded(encoded),
            *encodings(encoded),
        )
    )


def encodings(encoded: bytes) -> Iterator[str]:
    """Base64 of the value, wherever it begins in what was encoded, both alphabets; and hex."""
    yield encoded.hex()
    yield encoded.hex().upper()
    for before in range(3):
        whole = base64.b64encode(bytes(before) + encoded).decode()
        # Only characters that no neighbour has a part in.
        own = whole[(0, 2, 3)[before] : (before + len(encoded)) * 8 // 6]
        yield own
        yield own.replace("+", "-").replace("/", "_")


def _percent_encoded(encoded: bytes) -> Iterator[str]:
    for pattern in ("%{:02X}", "%{:02x}"):
        escaped = "".join(chr(byte) if byte in _UNRESERVED else pattern.format(byte) for byte in encoded)
        yield escaped
        yield escaped.replace("%20", "+")


def _offsets() -> array[int]:
    return array("q")


@dataclass
class Reading:
    """A text with something decoded or left out, and where each of its characters stands in the original."""

    text: str = ""
    _begins: array[int] = field(default_factory=_offsets)
    """Where each piece begins in `text`."""
    _original: array[int] = field(default_factory=_offsets)
    """Where it begins in the original."""
    _widths: array[int] = field(default_factory=_offsets)
    """Of an escape, which is one character here: how long it is there. 0 for a piece as it was."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where `text[start:end]`, not empty, stands in the original."""
        first, last = bisect_right(self._begins, start) - 1, bisect_right(self._begins, end - 1) - 1
        begin = self._original[first] + (0 if self._widths[first] else start - self._begins[first])
        width = self._widths[last]
        return begin, self._original[last] + (width or end - self._begins[last])

    @classmethod
    def of(cls, text: str, escape: re.Pattern[str], decoded: Callable[[re.Match[str]], str]) -> Reading:
        """Each match of `escape` as what `decoded` makes of it: one character, or nothing."""
        reading, pieces, position, length = cls(), [], 0, 0

        def add(piece: str, original: int, width: int) -> None:
            nonlocal length
            if piece:
                reading._begins.append(length)
                reading._original.append(original)
                reading._widths.append(width)
                pieces.append(piece)
                length += len(piece)

        for match in escape.finditer(text):
            add(text[position : match.start()], position, 0)
            add(decoded(match), match.start(), match.end() - match.start())
            position = match.end()
        add(text[position:], position, 0)
        reading.text = "".join(pieces)
        return reading


@dataclass(frozen=True)
class Nested:
    """A reading of a reading."""

    outer: Reading
    inner: Reading

    @property
    def text(self) -> str:
        return self.inner.text

    def span(self, start: int, end: int) -> tuple[int, int]:
        """As Reading.span, back to the first original."""
        return self.outer.span(*self.inner.span(start, end))


def unescaped(text: str) -> Iterator[Reading | Nested]:
    """The text without JSON's escapes, and JSON in JSON too; nothing where no odd escape stands in it."""
    if not _ODD_ESCAPE.search(text):
        return
    once = Reading.of(text, _ESCAPE, _character)
    yield once
    if _ODD_ESCAPE.search(once.text):
        yield Nested(once, Reading.of(once.text, _ESCAPE, _character))


def _character(match: re.Match[str]) -> str:
    return match["c"] or chr(int(match["u"] or match["x"], 16))


def without_percents(text: str) -> Iterator[Reading]:
    """The text with each `%41` as the byte it stands for, in Latin-1."""
    if _PERCENT.search(text):
        yield Reading.of(text, _PERCENT, lambda match: chr(int(match[1], 16)))


def unbroken(text: str) -> str:
    """The text without line breaks and what indents or quotes the lines after them."""
    return _BREAK.sub("", text)


def joined(text: str) -> Reading:
    """The same as a reading, which takes longer."""
    return Reading.of(text, _BREAK, lambda match: "")
