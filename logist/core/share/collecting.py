"""The first reading: which values are private, wherever they stand later."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from logist.core.secrets import redact
from logist.core.share import literals, looks
from logist.core.share.words import NO_NAMES

SHORTEST_NAME = 3
"""Shorter names of users are words too often; they are replaced only where a name stands."""
SHORTEST_PATTERN = 4
"""Of what a pattern finds: the shortest that is replaced where the pattern does not find it, too."""


class Private:
    """What one history has that others are not to see."""

    def __init__(
        self, known: Mapping[str, str], patterns: Sequence[re.Pattern[str]] = (), hosts: Iterable[str] = ()
    ) -> None:
        """`known` are values that must not reach a file, with what each is; `hosts` names of machines."""
        self.patterns = patterns
        self.secrets: dict[str, str] = dict(known)
        """Values, with what each is."""
        self.users: dict[str, None] = {}
        """In small letters."""
        self.hosts: dict[str, None] = {}
        """In small letters."""
        self.addresses: set[str] = set()
        for host in hosts:
            self.host(host, sure=True)
        self.found: dict[str, None] = {}
        """What the patterns have found."""

    def text(self, text: str, depth: int = 0) -> None:
        """Looks through one text, and through the strings of JSON in it; one without escapes `line` has seen."""
        if not literals.is_plain(text):
            self.line(text)
        for pattern in self.patterns:
            for found in pattern.finditer(text):
                value = found[secret_of(found)]
                if len(value) >= SHORTEST_PATTERN:
                    self.found.setdefault(value)
        for name in looks.owners(text):
            self.user(name)
        for seen in looks.hosts(text):
            self._seen(seen)
        if depth < literals.DEEPEST:
            for literal in literals.escaped(text):
                self.text(literal.value, depth + 1)

    def line(self, text: str) -> None:
        """Looks for secrets alone, in the text of a whole entry: a key says what stands behind it."""
        for match in redact.found(text, {}):
            value = literals.unescaped(text[match.start : match.end])
            if len(value) >= redact.MIN_SECRET:
                self.secrets.setdefault(value, match.kind)

    def user(self, name: str) -> None:
        """Takes the name of a person, each part of it on its own."""
        for part in looks.WORD.findall(unicodedata.normalize("NFC", name)):
            if len(part) >= SHORTEST_NAME and part.lower() not in NO_NAMES and not part.isdecimal():
                for form in ("NFC", "NFD"):
                    self.users.setdefault(unicodedata.normalize(form, part.lower()))

    def host(self, name: str, *, sure: bool = False) -> None:
        """Takes the name of a machine, with its domain and without; a plain word only where that is `sure`."""
        name = name.lower().rstrip(".")
        for each in (name, name.partition(".")[0]):
            is_word = sure and len(each) >= SHORTEST_NAME and not each.isdecimal()
            if each not in looks.LOCAL and each not in NO_NAMES and (is_word or looks.is_host(each)):
                self.hosts.setdefault(each)

    def _seen(self, seen: looks.PrivateSpan) -> None:
        if seen.kind == "user" and not seen.name.startswith("$"):
            self.user(seen.name)
        if seen.kind == "host":
            self.host(seen.name)
        if seen.kind == "address":
            self.addresses.add(seen.name)

    def values(self) -> Iterator[str]:
        """All that is to be gone from the result, as it is written most often."""
        yield from (*self.secrets, *self.users, *self.hosts, *self.found)


def secret_of(found: re.Match[str]) -> str | int:
    """The group of a pattern's match that is private: the one named `secret`, else all of it."""
    return "secret" if found.re.groupindex.get("secret") and found["secret"] is not None else 0
