"""Splits an expression into tokens: paths, numbers, texts and signs, each with its column."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Literal

from logist.core.condition.fault import ConditionError
from logist.core.text import paths
from logist.lazy_patterns import compile_on_use
from logist.quick_dataclass import dataclass

_SPACE = compile_on_use(r"\s*")
_NUMBER = compile_on_use(r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])")
_TEXT = compile_on_use(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_SIGN = compile_on_use(r"===|!==|==|!=|>=|<=|&&|\|\||[<>!()\[\],?:+*/%.-]")
_ESCAPE = compile_on_use(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(frozen=True)
class Token:
    """A token; `path` is set for a path, `text` is the source (of a text: its content, without quotes and escapes)."""

    kind: Literal["path", "number", "text", "sign", "end"]
    text: str
    column: int
    path: paths.Path = ()
    number: float = math.nan


def split_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of `text`, with one for the end. Raises ConditionError for an unexpected character."""
    here = 0
    while True:
        here = _skip_space(text, here)
        column = here + 1
        if here == len(text):
            yield Token("end", "", column)
            return
        token, here = _read_token(text, here, column)
        yield token


def _skip_space(text: str, here: int) -> int:
    match = _SPACE.match(text, here)
    return match.end() if match else here


def _read_token(text: str, here: int, column: int) -> tuple[Token, int]:
    if match := _NUMBER.match(text, here):
        return Token("number", match[0], column, number=float(match[0])), match.end()
    if match := _TEXT.match(text, here):
        return Token(
            "text", _unescape_text(match[1] if match[1] is not None else match[2]), column
        ), match.end()
    if text[here] != "[":
        path, end = paths.scan_path(text, here)
        if path:
            return Token("path", text[here:end], column, path), end
    if match := _SIGN.match(text, here):
        return Token("sign", match[0], column), match.end()
    if text[here] in "'\"":
        raise ConditionError("unclosed quote", column)
    fix = {"&": "; write `&&`", "|": "; write `||`", "=": "; write `===`"}.get(text[here], "")
    raise ConditionError(f"unexpected `{text[here]}`{fix}", column)


def _unescape_text(body: str) -> str:
    """Decode the escapes in quoted text: `\\'` is a quote, `\\n` a line break, `\\u00e4` a letter."""
    return _ESCAPE.sub(lambda match: _decode_escape(match[1], match[2]), body)


def _decode_escape(code: str | None, letter: str) -> str:
    return chr(int(code, 16)) if code else _LETTERS.get(letter, letter)
