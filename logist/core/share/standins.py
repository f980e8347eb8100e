"""Stand-ins for private values: each has the same length as its value, is unique, and is the same everywhere.

Stand-ins are numbers in the order of first use, written in letters; they reveal nothing about a value except its
length. Stand-ins of secrets look like masked passwords, so that no later search takes them for secrets.
"""

from __future__ import annotations

import re
import string
from collections.abc import Container
from typing import Literal

Kind = Literal["secret", "pattern", "user", "host", "email", "address"]

FILLERS: dict[str, str] = {"pattern": "x", "user": "u", "host": "h", "email": "e"}
"""The letter that pads a stand-in, by kind."""
_MORE = 0x4E00
"""The first of the characters that are used if a value is too short for letters."""
_NUMBER = re.compile(r"-?(?P<digits>[0-9]+(?:\.[0-9]+)?)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_WORD = re.compile(r"[^\W_]+")
_GROUP = 8
"""The distance of dots in the stand-in of a long secret; no key looks like this."""


class StandIns:
    """Assigns a stand-in to each value; no stand-in is one of the values in `avoided`."""

    def __init__(self, avoided: Container[str] = ()) -> None:
        self._avoided = avoided
        self._of: dict[str, str] = {}
        self._used: set[str] = set()
        self._pieces: set[str] = set()
        """The words of stand-ins."""
        self._next: dict[tuple[str, int], int] = {}
        self.counts: dict[str, int] = {}
        """The number of values with a stand-in, by kind."""

    def word(self, kind: Kind, value: str) -> str:
        """Return the stand-in for a run of letters and digits, with the capitalization of the value."""
        key = value.lower() if len(value.lower()) == len(value) else value
        if key in self._used:
            return value  # it is already a stand-in: a text may be processed twice
        found = self._of.get(key) or self._made(kind, key)
        if key == value:
            return found
        return found.upper() if value.isupper() and len(value) > 1 else found[:1].upper() + found[1:]

    def phrase(self, kind: Kind, value: str) -> str:
        """Return the stand-in for a value with spaces and punctuation, which stay; a number for a number."""
        if value in self._used:
            return value
        found = self._of.get(value)
        number = _NUMBER.fullmatch(value)
        if found is None and number and "." in value and value.endswith("0") and value[-2] != ".":
            found = self.phrase(kind, value[:-1]) + "0"  # the same number, so the same stand-in
            self.take(found)
            return found
        if found is None:
            begin, end = number.span("digits") if number else (0, len(value))
            own = [at for at, sign in enumerate(value) if sign.isalnum() and begin <= at < end]
            core = self._made(kind, "".join(value[at] for at in own), under=value) if own else ""
            signs = list(value)
            for at, sign in zip(own, core, strict=True):
                signs[at] = sign
            found = self._of[value] = "".join(signs)
            self._used.add(found)
            self.take(found)
        return found

    def take(self, text: str) -> None:
        """Treat the words of a text as stand-ins."""
        self._pieces.update(_WORD.findall(text.lower()))

    def stands(self, text: str) -> bool:
        """Whether the complete text is a stand-in."""
        return text in self._used

    def rounded(self, text: str) -> None:
        """Register a stand-in as it is written after parsing it as a number, which shortens long fractions."""
        self.take(text)
        self._used.add(text)
        self._used.update(word for word in _WORD.findall(text) if len(word) >= _GROUP)

    def made(self, text: str) -> bool:
        """Whether each word of a text is a stand-in or a part of one."""
        if text in self._used:
            return True
        return all(
            word in self._used or word in self._pieces or word.lower() in self._used
            for word in _WORD.findall(text)
        )

    def secret(self, value: str) -> str:
        """Return the stand-in for a secret; only its line breaks stay."""
        return self._of.get(value) or self._made("secret", value)

    def fill(self, value: str, spelled: str) -> str:
        """Return the stand-in for another spelling of a secret; line breaks and quote marks of lines stay."""
        code = self.secret(value).replace("\r", "x").replace("\n", "x")
        return "".join(
            sign if sign in "\r\n\t >|#*" else code[at % len(code)] for at, sign in enumerate(spelled)
        )

    def address(self, value: str) -> str:
        """Return the stand-in for an IP address: its digits form a number."""
        if value in self._used:
            return value
        found = self._of.get(value)
        if found is None:
            digits = sum(sign.isalnum() for sign in value)
            number = self._numbered("address", digits) + 1  # 0.0.0.0 is never replaced
            code = iter(str(number).zfill(digits)[-digits:])
            found = "".join(next(code) if sign.isalnum() else sign for sign in value)
            self._keep("address", value, found)
        return found

    def hash(self, value: str) -> str:
        """Return the stand-in for a hash whose content could be guessed; it is not counted."""
        if value in self._used:
            return value
        found = self._of.get(value)
        if found is None:
            found = self._of[value] = f"{self._numbered('hash', len(value)) + 1:0{len(value)}x}"
            self._used.add(found)
        return found

    def _made(self, kind: Kind, value: str, *, under: str | None = None) -> str:
        while True:
            number = self._numbered(kind, len(value))
            made = _digits(number, len(value)) if value.isdecimal() else None
            if made is None:
                made = (
                    _secret(number, len(value), value)
                    if kind == "secret"
                    else _letters(FILLERS.get(kind, "x"), number, len(value))
                )
            # Values that are too short for a unique stand-in may share one.
            if number > 4096 or (made != value and made not in self._used and made not in self._avoided):
                self._keep(kind, value if under is None else under, made)
                return made

    def _numbered(self, kind: str, length: int) -> int:
        number = self._next.get((kind, length), 0)
        self._next[kind, length] = number + 1
        return number

    def _keep(self, kind: str, value: str, made: str) -> None:
        self._of[value] = made
        self._used.add(made)
        self.take(made)
        self.counts[kind] = self.counts.get(kind, 0) + 1


def _letters(filler: str, number: int, length: int) -> str:
    """Return `number` in letters, padded on the left."""
    letters = string.ascii_lowercase.replace(filler, "")
    code, rest = letters[number % 25], number // 25
    while rest:
        code, rest = letters[rest % 25] + code, rest // 25
    if len(code) > length:
        code = chr(_MORE + number % 20_000)
    return code.rjust(length, filler)[:length]


def _secret(number: int, length: int, value: str = "") -> str:
    """Return `number` in the characters of a masked password."""
    dots = set(range(_GROUP - 1, length - 1, _GROUP)) if length > _GROUP else set()
    free = length - len(dots)
    bits = iter(f"{number % (1 << min(free, 64)):0{free}b}".replace("0", "x").replace("1", "0"))
    breaks = {at for at, sign in enumerate(value) if sign in "\r\n"}
    signs = ["." if at in dots else next(bits) for at in range(length)]
    return "".join(value[at] if at in breaks else sign for at, sign in enumerate(signs))


def _digits(number: int, length: int) -> str:
    """Return digits that are a valid number in JSON; in binary if they are so many that they could be a secret.

    They never begin or end with a zero, because JSON would drop it.
    """
    if length < _GROUP:
        front, last = divmod(number, 9)
        least = 10 ** (length - 2) if length > 1 else 0
        return (str(least + front % (9 * least)) if least else "") + str(last + 1)
    return "1" + f"{(2 * number + 1) % (1 << min(length - 1, 64)):b}".zfill(length - 1)
