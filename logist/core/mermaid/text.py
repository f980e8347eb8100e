"""Convert labels between the text that mermaid keeps and the text that a reader sees."""

from __future__ import annotations

import html
import re

from logist.core.mermaid.source import BLANKS, ENTITY_CLOSE, ENTITY_OPEN

_ENTITY = re.compile(rf"{ENTITY_OPEN}(\w+){ENTITY_CLOSE}|&#?\w+;", re.ASCII)
_LARGEST = 7
"""The maximum number of digits that the number of a character can have."""
_WINDOWS = range(0x80, 0xA0)
_SURROGATES = range(0xD800, 0xE000)
_UNSAFE = re.compile(
    r'["\x01-\x1f\x7f\ufdd0\ufdd1]|\A`|=\Z|#(?=\w+;)|&(?=#?\w+;)|%(?=%\{)|(?<=direction)\s(?=\s*(?:TB|BT|RL|LR|TD))',
    re.ASCII,
)
"""Text that would end the quotes, or that would not be read back unchanged."""


def decode_entities(text: str) -> str:
    """Return `text` with its entities replaced by their characters; an unknown one reads `&name;`."""
    return _ENTITY.sub(_decode_entity, text)


def _decode_entity(match: re.Match[str]) -> str:
    name = match[1]
    entity = match[0] if name is None else f"&{'#' * name.isdigit()}{name};"
    number = entity[2:-1]
    if not entity.startswith("&#") or not number.isdigit():
        return html.unescape(entity)
    if len(number.lstrip("0")) > _LARGEST:
        return "\ufffd"
    value = int(number)
    if value in _WINDOWS:
        return html.unescape(entity)
    if value == 0 or value in _SURROGATES or value > 0x10FFFF:
        return "\ufffd"
    return chr(value)


def quote_label(text: str) -> str:
    """Return `text` as it is written between quotes in a diagram, the quotes
    included; never empty between them.
    """
    bare = text.strip(BLANKS)
    start = text.find(bare) if bare else len(text)
    before, after = text[:start], text[start + len(bare) :]
    inner = _encode_characters(before) + _UNSAFE.sub(_encode_match, bare) + _encode_characters(after)
    return f'"{inner or " "}"'


def _encode_match(match: re.Match[str]) -> str:
    return _encode_characters(match[0])


def _encode_characters(text: str) -> str:
    """Return every character as an entity."""
    return "".join("#quot;" if character == '"' else f"#{ord(character)};" for character in text)
