"""Reads histories that another program wrote or rewrote: plain JSON, one entry at a time.

Two shapes: a list of entries, or an object with such a list as `interactions`. Entries only have to be JSON
objects here; core.replay.old_shapes interprets their content.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from logist.core.text.json_object import JsonObject
from logist.errors import Damaged
from logist.store import history

LIST = "interactions"
LONGEST = 64 << 20
"""The maximum number of characters of one entry, or of another value next to the list."""

_BEGIN = b'{"version":'
_SIGNS = (_BEGIN, b',"segment":', b',"first_sequence":', b',"previous":', b',"interactions": [')
"""Parts of the first line that Logist writes. Two of them identify it, even if a byte was changed."""
_WRITTEN_ANEW = b'"interactions":[{'
_BLANKS = " \t\r\n"
_SKIPPED = re.compile(r"[ \t\r\n]*+")
_PEEKED = 4096
_CHUNK = 1 << 16
_CUT = 12
"""An error within this many characters before the end of the text in memory may only mean that the rest is missing."""


def is_foreign(path: Path) -> bool:
    """True for a JSON history that does not begin like those that Logist writes, damaged ones included.

    Raises what history.open_history raises.
    """
    with history.open_history(path) as file:
        begin = file.read(_PEEKED)
    first = begin.partition(b"\n")[0]
    signs = sum(sign in first for sign in _SIGNS)
    if (signs > 1 or begin.startswith(_BEGIN)) and _WRITTEN_ANEW not in first:
        return False
    return begin.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANKS.encode())[:1] in (b"[", b"{")


def read_foreign_entries(path: Path) -> Generator[JsonObject]:
    """Yield the entries in file order. Raises Damaged, with the position, if the file is no such history."""
    with _open_text(path) as text:
        yield from _read_entries(text)


def read_leading_members(path: Path) -> JsonObject:
    """Read the members of the object before its list, such as the title of the job. Empty for a list."""
    members: JsonObject = {}
    with _open_text(path) as text:
        for name in _read_member_names(text) if text.peek() == "{" else ():
            if name == LIST:
                break
            members[name] = text.read_value(f"`{name}`")
    return members


@contextmanager
def _open_text(path: Path) -> Iterator[_Text]:
    with history.open_history(path) as file:
        try:
            yield _Text(io.TextIOWrapper(file, encoding="utf-8-sig", newline="\n"))
        except UnicodeDecodeError as error:
            raise Damaged("the history is not valid UTF-8", where=str(path)) from error
        except _FaultError as error:
            raise Damaged(f"the history is invalid: {error}", where=str(path)) from error


class _FaultError(Exception):
    """The text is not a valid history; the message says why and where."""


class _Text:
    """A JSON text. Only a part of it is in memory at a time."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._before = 0
        """The number of characters before those in memory."""

    def peek(self) -> str:
        """The next character that is not blank; "" at the end, without consuming it."""
        while True:
            skipped = _SKIPPED.match(self._text, self._at)
            assert skipped is not None
            self._at = skipped.end()
            if self._at < len(self._text) or not self._read_more():
                return self._text[self._at : self._at + 1]

    def take(self, wanted: str, what: str) -> str:
        """Consume the next character, which must be one of `wanted`."""
        char = self.peek()
        if not char or char not in wanted:
            raise _FaultError(
                f"expected {what}, got {'the end of the file' if not char else repr(char)}{self._describe_position()}"
            )
        self._at += 1
        return char

    def read_value(self, what: str) -> Any:
        """Parse the JSON value that begins here."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise _FaultError(f"{what} is nested too deeply{self._describe_position()}") from None
            except json.JSONDecodeError as error:
                self._read_on_or_raise(error, what)
            except ValueError as error:
                raise _FaultError(f"{what} contains an invalid number: {error}") from error
            else:
                # A number may continue beyond the text in memory.
                rest = len(self._text) - end
                if rest >= _CUT or not self._read_more():
                    self._at = len(self._text) - rest
                    return value

    def _read_on_or_raise(self, error: json.JSONDecodeError, what: str) -> None:
        """Read more text if the decoder failed only because the text in memory
        ends; otherwise raise the error.
        """
        cut = error.pos >= len(self._text) - _CUT or error.msg.startswith("Unterminated")
        place = self._describe_position(error.pos)
        if cut and len(self._text) - self._at > LONGEST:
            raise _FaultError(
                f"{what} is longer than {LONGEST >> 20} million characters, or its end is missing{place}"
            )
        if not cut or not self._read_more():
            raise _FaultError(f"{what} is not valid JSON: {error.msg}{place}")

    def _read_more(self) -> bool:
        """Read at least as much again as is in memory; False at the end."""
        rest = self._text[self._at :]
        self._before += self._at
        read = self._file.read(max(_CHUNK, len(rest)))
        self._text, self._at = rest + read, 0
        return bool(read)

    def _describe_position(self, at: int | None = None) -> str:
        return f" (character {self._before + (self._at if at is None else at) + 1})"


def _reject_constant(word: str) -> float:
    raise _FaultError(f"{word} is not valid JSON")


def _parse_finite_number(word: str) -> float:
    number = float(word)
    if number in (float("inf"), float("-inf")):
        raise _FaultError(f"the number {word[:40]} is too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite_number)


def _read_entries(text: _Text) -> Iterator[JsonObject]:
    if text.peek() == "[":
        yield from _read_list(text)
        _require_end(text)
        return
    has_list = False
    for name in _read_member_names(text):
        if name != LIST or text.peek() != "[":
            text.read_value(f"`{name}`")
        elif has_list:
            raise _FaultError(f"duplicate `{LIST}`")
        else:
            has_list = True
            yield from _read_list(text)
    _require_end(text)
    if not has_list:
        raise _FaultError(f"missing list `{LIST}`")


def _read_member_names(text: _Text) -> Iterator[str]:
    """Yield the names in an object; the caller must read each value before it takes the next name."""
    text.take("{", "a list of entries or an object with such a list")
    more = text.peek() != "}" or text.take("}", "`}`") == ""
    while more:
        if text.peek() != '"':
            text.take('"', "a name")
        name = text.read_value("a name")
        text.take(":", "`:`")
        yield name
        more = text.take(",}", f"`,` or `}}` after `{name}`") == ","


def _read_list(text: _Text) -> Iterator[JsonObject]:
    text.take("[", "a list")
    place, more = 0, text.peek() != "]" or text.take("]", "`]`") == ""
    while more:
        place += 1
        value = text.read_value(f"entry {place}")
        if not isinstance(value, dict):
            raise _FaultError(f"entry {place} is not a JSON object")
        yield value
        more = text.take(",]", f"`,` or `]` after entry {place}") == ","


def _require_end(text: _Text) -> None:
    if char := text.peek():
        raise _FaultError(f"unexpected {char!r} after the end")
