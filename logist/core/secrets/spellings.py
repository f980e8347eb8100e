"""The spellings of a known secret: encoded forms of the value, and decoded versions of the searched text."""

from __future__ import annotations

import binascii
import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator

from logist.core.text import invisible_characters
from logist.lazy_patterns import compile_on_use
from logist.quick_tuple import NamedTuple

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

# Unnecessary escapes: only written to hide something, or by a very careful library.
_ODD_ESCAPE = compile_on_use(r"\\(?:u00[2-7][0-9A-Fa-f]|x[2-7][0-9A-Fa-f]|/)")
# Escapes of invisible characters, at any depth of JSON; and those that split a word, which `\b` in a pattern does not.
# The backslash comes first, so that the search can skip ahead.
_UNSEEN = (
    r"(?:(?:u00|x)(?:[01][0-9A-Fa-f]|7[fF]|[89][0-9A-Fa-f]|[aA][dD])|[bf]|r(?!\\+n)"
    r"|u(?:034[fF]|061[cC]|115[fF]|1160|17[bB][45]|180[b-fB-F]|3164|[fF][eE]0[0-9A-Fa-f]|[fF]{2}[aA]0|20(?:0[b-fB-F]|2[89a-eA-E]|6[0-9a-fA-F])|[fF][eE][fF]{2}|[fF]{3}[9abAB]|[eE][0-9A-Fa-f]{3}"
    r"|[dD][bB](?:40|[89a-fA-F][0-9A-Fa-f])\\++u[dD][c-fC-F][0-9A-Fa-f]{2}))"
)
_UNSEEN_ESCAPE = compile_on_use(rf"\\(?<!\\\\)\\*+{_UNSEEN}")
_SPLIT_WORD = compile_on_use(
    rf"\\(?<=[A-Za-z0-9_+/=-]\\)\\*+{_UNSEEN}(?:\\++{_UNSEEN}){{0,8}}+(?=[A-Za-z0-9_+/=-])"
)
# Each match of the three patterns above has this part; most texts have no such escape.
_RARE_ESCAPE = compile_on_use(r"\\[uxbfr/]")
# Escapes of JSON and of a shell. The two halves of a surrogate pair are one character.
_ESCAPE = compile_on_use(
    r"\\(?:u(?P<high>[dD][89abAB][0-9A-Fa-f]{2})\\u(?P<low>[dD][c-fC-F][0-9A-Fa-f]{2})"
    r"|u(?P<u>[0-9A-Fa-f]{4})|x(?P<x>[0-9A-Fa-f]{2})|(?P<letter>[bfnrt])|(?P<itself>[ -/:-@\[-`{-~]))"
)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# What a shell quotes (see shlex) and JSON may escape.
_UNSAFE = compile_on_use(r"[^A-Za-z0-9_@%+=:,./-]+")
_NOT_UTF8 = compile_on_use("[\udc80-\udcff]")
SHORTEST_ENCODED = 6
"""Base64 and hex of fewer characters are in any text by chance, so a short value is not searched for in these forms."""
DEEPEST = 3
"""The maximum depth of unescaping: JSON in JSON in JSON."""
_PERCENT = compile_on_use(r"%([0-9A-Fa-f]{2})")
# A line break, also as in JSON or a shell, and the indentation or quote marks on the next line.
# Each alternative begins with a character: then `re` skips ahead to one of these, which is several times faster.
_BREAK = compile_on_use(r"(?:\n|\r\n|\\\n|\\\r\n|\\r\\n|\\n)[ \t>|#*]*+")


def list_forms(secret: str) -> frozenset[str]:
    """Return a value unchanged, in JSON, in a URL, in HTML, in shell quotes, in base64 and in hex."""
    import html  # noqa: PLC0415 - it loads a table of all entities; most commands know no secret value

    encoded = secret.encode("utf-8", "surrogatepass")
    return frozenset(
        (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            html.escape(secret, quote=False),
            *_list_html_forms(html.escape(secret)),
            secret.replace("'", "'\\''"),
            secret.replace("'", "'\"'\"'"),
            *_percent_encode(encoded),
            *list_encodings(encoded),
        )
    )


def _list_html_forms(escaped: str) -> Iterator[str]:
    """Yield the value with both kinds of quotes as different libraries escape them."""
    for single in ("&#x27;", "&#39;", "&apos;"):
        spelled = escaped.replace("&#x27;", single)
        yield from (spelled, spelled.replace("&quot;", "&#34;"))


def list_wrapped_forms(secret: str) -> Iterator[str]:
    """Yield the forms of a value (plain, JSON, base64, hex) in a text whose line breaks are removed."""
    joined = _BREAK.sub("", secret)
    if joined:
        yield from (joined, json.dumps(joined)[1:-1], json.dumps(joined, ensure_ascii=False)[1:-1])
    yield from list_encodings(secret.encode("utf-8", "surrogatepass"))


def list_encodings(encoded: bytes) -> Iterator[str]:
    """Yield the value in hex and in both alphabets of base64.

    Base64 depends on where the value begins in the encoded data, so all three offsets are covered.
    """
    if len(encoded) * 2 >= SHORTEST_ENCODED:
        yield encoded.hex()
        yield encoded.hex().upper()
    for before in range(3):
        if (before + len(encoded)) * 8 // 6 - (0, 2, 3)[before] < SHORTEST_ENCODED:
            continue
        whole = binascii.b2a_base64(bytes(before) + encoded, newline=False).decode()
        # Only characters that don't depend on neighboring bytes.
        own = whole[(0, 2, 3)[before] : (before + len(encoded)) * 8 // 6]
        yield own
        yield own.replace("+", "-").replace("/", "_")


def _percent_encode(encoded: bytes) -> Iterator[str]:
    for pattern in ("%{:02X}", "%{:02x}"):
        escaped = "".join(chr(byte) if byte in _UNRESERVED else pattern.format(byte) for byte in encoded)
        yield escaped
        yield escaped.replace("%20", "+")


class TextReading:
    """A text with some parts decoded or removed, and the original position of each of its characters."""

    def __init__(
        self,
        original: str | TextReading,
        escape: re.Pattern[str],
        decoded: Callable[[re.Match[str]], str] | None = None,
    ) -> None:
        """Replace each match of `escape` by the single character that `decoded` returns, or remove it without
        `decoded`.
        """
        self._outer = original if isinstance(original, TextReading) else None
        self._original = original.text if isinstance(original, TextReading) else original
        self._escape, self._decoded = escape, decoded
        self._pieces: _Pieces | None = None
        self.text: str = escape.sub(decoded or "", self._original)

    def find_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the position of `text[start:end]`, which is not empty, in the first original."""
        # Computed only when needed: it is slower than the text alone, and most texts contain no secret.
        if self._pieces is None:
            self._pieces = self._locate_pieces()
        begins, originals, widths = self._pieces
        first, last = bisect_right(begins, start) - 1, bisect_right(begins, end - 1) - 1
        begin = originals[first] + (0 if widths[first] else start - begins[first])
        finish = originals[last] + (widths[last] or end - begins[last])
        return self._outer.find_span(begin, finish) if self._outer else (begin, finish)

    def _locate_pieces(self) -> _Pieces:
        pieces = _Pieces(array("q"), array("q"), array("q"))
        position = length = 0

        def add_piece(size: int, original: int, width: int) -> None:
            nonlocal length
            if size:
                pieces.begins.append(length)
                pieces.originals.append(original)
                pieces.widths.append(width)
                length += size

        for match in self._escape.finditer(self._original):
            start, end = match.span()
            add_piece(start - position, position, 0)
            add_piece(1 if self._decoded else 0, start, end - start)
            position = end
        add_piece(len(self._original) - position, position, 0)
        return pieces


class _Pieces(NamedTuple):
    """The pieces of a reading: unchanged parts of the original, and decoded escapes."""

    begins: array[int]
    """The start of each piece in the text."""
    originals: array[int]
    """The start of each piece in the original."""
    widths: array[int]
    """The length of an escape in the original (it is one character in the text); 0 for an unchanged part."""


def list_readings(text: str, secrets: Collection[str] = ()) -> Iterator[TextReading]:
    """Yield the text without the escapes of JSON, of JSON in JSON, or of a shell, each also without invisible
    characters.

    Yields nothing for a text without escapes and invisible characters. Ordinary escapes, which are common in
    JSON, are decoded only if the text contains the longest part of one of `secrets` that needs no escape.
    """
    current: str | TextReading = text
    # In a program or an image, which `verify --secrets` reads too, backslashes are not escapes.
    is_binary = "\0" in text and _NOT_UTF8.search(text)
    deepest = 0 if is_binary else DEEPEST
    for depth in range(deepest + 1):
        current_text = current.text if isinstance(current, TextReading) else current
        if hidden := invisible_characters.compile_invisible_pattern(current_text):
            visible = TextReading(current, hidden)
            yield visible
            current_text = visible.text
        if depth == deepest or not _needs_decoding(current_text, secrets):
            return
        current = TextReading(current, _ESCAPE, _decode_escape)
        yield current


def _needs_decoding(text: str, secrets: Collection[str]) -> bool:
    """Whether the escapes of the text may hide a secret; rarely true."""
    if "\\" not in text:
        return False
    is_rare = _RARE_ESCAPE.search(text) is not None
    if is_rare and (_ODD_ESCAPE.search(text) or _SPLIT_WORD.search(text)):
        return True
    visible = _UNSEEN_ESCAPE.sub("", text) if is_rare and secrets else text
    longest_parts = (max(_UNSAFE.split(secret), key=len) for secret in secrets)
    return any(part in text or part in visible for part in longest_parts)


def _decode_escape(match: re.Match[str]) -> str:
    if match["high"]:
        pair = bytes.fromhex(match["high"] + match["low"])
        return pair.decode("utf-16-be")
    letter, itself, code = match["letter"], match["itself"], match["u"] or match["x"]
    return chr(int(code, 16)) if code else itself or _LETTERS[letter]


def decode_percents(text: str) -> TextReading:
    """Return the text with each `%41` decoded to its byte, as Latin-1."""
    return TextReading(text, _PERCENT, lambda match: chr(int(match[1], 16)))


def join_lines(text: str) -> TextReading:
    """Return the text without line breaks, and without indentation and quote marks after them."""
    return TextReading(text, _BREAK)
