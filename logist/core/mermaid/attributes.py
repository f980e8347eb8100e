"""Read the attributes in `A@{ ... }`: a small YAML mapping, on one line or on several."""

from __future__ import annotations

import re
from collections.abc import Iterator

Value = str | int | float | bool | None

_QUOTED_KEY = r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^']|'')*)')"""
_PLAIN_KEY = r"""(?P<plain>[^\s"'\[\]{},#&*!|>%@`:?-](?:[^\[\]{},:\n]|:(?!\s|$))*)"""
_FLOW_PAIR = re.compile(rf"\s*(?:{_QUOTED_KEY}\s*:|{_PLAIN_KEY}(?P<colon>:(?=\s|$))?)", re.DOTALL)
_BLOCK_PAIR = re.compile(rf"(?P<indent> *)(?:{_QUOTED_KEY}|{_PLAIN_KEY})[ \t]*:(?:[ \t]+|$)(?P<rest>.*)")
_DOUBLE = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*', re.DOTALL)
_SINGLE = re.compile(r"\s*'((?:[^']|'')*)'\s*", re.DOTALL)
_FLOW_PLAIN = re.compile(r"[^,\[\]{}]*")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}
_ESCAPED_SELF = '"\\/ '
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,15})")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?|[-+]?[0-9]+[eE][-+]?[0-9]{1,3}"
)
_WORDS: dict[str, Value] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def read_attributes(text: str) -> dict[str, Value]:
    """Return key and value of every pair. Raises ValueError, with a message for
    people, for anything but a mapping of plain values.
    """
    pairs = _read_block_pairs(text) if "\n" in text else _read_flow_pairs(text)
    values: dict[str, Value] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"duplicate attribute `{key}`")
        values[key] = value
    return values


def _read_flow_pairs(text: str) -> Iterator[tuple[str, Value]]:
    text = re.split(r"(?:^|\s)#", text, maxsplit=1)[0] if '"' not in text and "'" not in text else text
    position = 0
    while text[position:].strip():
        match = _FLOW_PAIR.match(text, position)
        if match is None:
            raise ValueError(
                f"expected an attribute such as `shape: diamond`, got {_quote_excerpt(text[position:])}"
            )
        if match["plain"] is None or match["colon"]:
            value, position = _read_flow_value(text, match.end())
            yield _read_key(match), value
        else:
            position = match.end()
            yield _read_key(match), None
        if position < len(text):
            if text[position] != ",":
                raise ValueError(f"missing comma before {_quote_excerpt(text[position:])}")
            position += 1


def _read_flow_value(text: str, position: int) -> tuple[Value, int]:
    for pattern, unquote in ((_DOUBLE, _unescape_double_quoted), (_SINGLE, _unescape_single_quoted)):
        if match := pattern.match(text, position):
            return unquote(match[1]), match.end()
    match = _FLOW_PLAIN.match(text, position)
    plain = match[0] if match else ""
    return _read_plain_value(plain), position + len(plain)


def _read_block_pairs(text: str) -> Iterator[tuple[str, Value]]:
    lines = [(line, line.lstrip(" ")) for line in text.split("\n")]
    lines = [(line, bare) for line, bare in lines if bare.strip() and not bare.startswith("#")]
    indent = None
    for line, _ in lines:
        match = _BLOCK_PAIR.fullmatch(line)
        if match is None or indent not in (None, match["indent"]):
            raise ValueError(f"expected a line such as `shape: diamond`, got {_quote_excerpt(line)}")
        indent = match["indent"]
        yield _read_key(match), _read_block_value(match["rest"])


def _read_block_value(text: str) -> Value:
    for pattern, unquote in ((_DOUBLE, _unescape_double_quoted), (_SINGLE, _unescape_single_quoted)):
        if match := pattern.match(text):
            if text[match.end() :] and not text[match.end() :].startswith("#"):
                raise ValueError(f"unexpected {_quote_excerpt(text[match.end() :])} after the quoted text")
            return unquote(match[1])
    return _read_plain_value(re.split(r"(?:^|\s)#", text, maxsplit=1)[0])


def _read_key(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return _unescape_double_quoted(match["double"])
    return _unescape_single_quoted(match["single"]) if match["single"] is not None else match["plain"].strip()


def _read_plain_value(text: str) -> Value:
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "\"'[]{},#&*!|>%@`" or re.match(r"[-?:](?:\s|$)", text) or re.search(r":(?:\s|$)", text):
        raise ValueError(f"{_quote_excerpt(text)} must be in quotes")
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _unescape_double_quoted(text: str) -> str:
    return _ESCAPE.sub(_decode_escape, text)


def _decode_escape(match: re.Match[str]) -> str:
    mark = match[1]
    if len(mark) > 1:
        return chr(min(int(mark[1:], 16), 0x10FFFF))
    if mark in _ESCAPED_SELF:
        return mark
    if mark not in _ESCAPES:
        raise ValueError(f"`\\{mark}` is not a valid YAML escape")
    return _ESCAPES[mark]


def _unescape_single_quoted(text: str) -> str:
    return text.replace("''", "'")


def _quote_excerpt(text: str) -> str:
    return f"`{text.strip()[:40]}`"
