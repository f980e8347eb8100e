"""The first reading: which values of a history are private, wherever they stand later.

It guesses at nothing. A value is private because it is known (a secret of the environment, who works here, the
name of this machine, a steward in the history), or because it has a form that nothing else has: a secret of the
table, the owner of a home directory, an e-mail address, an IP address, a match of a person's own pattern.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from logist.core.secrets import redact
from logist.core.share import literals
from logist.core.share.words import NO_NAMES

SHORTEST_NAME = 3
"""Shorter names of users are words too often; they are replaced only in the path of a home directory."""
SHORTEST_PATTERN = 4
"""Of what a pattern finds: the shortest that is replaced where the pattern does not find it, too."""

_ACCENTS = "\u0300-\u036f"
"""Accents that stand behind their letters, as names of files on some machines have them."""
WORD = re.compile(rf"[^\W_](?:[^\W_]|[{_ACCENTS}])*+")
"""What gets a stand-in of its own within a name."""
_ESCAPE = r"(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})"
"""What ends in a letter or digit, and is no part of the name behind it."""

# Each search is linear: a lookbehind keeps it from starting within what it has read already.
HOME = re.compile(
    rf"(?:(?:(?<![\w.}}-])|{_ESCAPE}|(?<=[\s\"'=(,]-[A-Z]))/(?:home|Users)/|(?<=[A-Za-z]:)\\{{1,4}}Users\\{{1,4}}"
    rf"|%2[Ff](?:home|Users)%2[Ff]|(?<!\w)~(?=[A-Za-z_][\w.-]*/))(?P<name>\w[\w.+{_ACCENTS}-]*)"
)
"""A home directory, with the name of its owner; `-I/home/ada` is one, too."""
_HOMES = ("home", "Users", "~")
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
EMAIL = re.compile(
    rf"(?:(?<![\w.+%\\-])|{_ESCAPE})(?P<local>\w[\w.+-]{{0,63}}+)(?:@|%40)(?P<host>(?:{_LABEL}\.){{1,8}})[A-Za-z]{{2,24}}(?![\w-])"
)
"""An e-mail address; its `host` without the last part."""
_IPV4 = re.compile(rf"(?:(?<![\w.])|{_ESCAPE})(?:[0-9]{{1,3}}\.){{3}}[0-9]{{1,3}}(?!\w|\.[0-9])")
# The networks in use begin with four digits; so a slice, `x[1::2]`, is no address.
_IPV6 = re.compile(rf"(?:(?<![\w:.])|{_ESCAPE})[23fF][0-9A-Fa-f]{{3}}:[0-9A-Fa-f:]{{1,35}}+(?!\w)")
_NOBODYS = frozenset({"127.0.0.1", "0.0.0.0"})  # noqa: S104 - addresses of every machine


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
        for host in hosts:
            self._add_host(host)
        self.emails: dict[str, None] = {}
        """The words of e-mail addresses, in small letters."""
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
        for home in find_homes(text):
            self.user(home["name"])
        for email in find_emails(text):
            self.emails.update(dict.fromkeys(WORD.findall(email[0].lower())))
        if depth < literals.DEEPEST:
            for literal in literals.escaped(text):
                self.text(literal.value, depth + 1)

    def line(self, text: str) -> None:
        """Looks for secrets alone, in the text of a whole entry: a key says what stands behind it."""
        for match in redact.find_secrets(text, {}):
            value = literals.unescaped(text[match.start : match.end])
            if len(value) >= redact.MIN_SECRET:
                self.secrets.setdefault(value, match.kind)

    def user(self, name: str) -> None:
        """Takes the name of a person, each part of it on its own."""
        for part in WORD.findall(unicodedata.normalize("NFC", name)):
            if len(part) >= SHORTEST_NAME and part.lower() not in NO_NAMES and not part.isdecimal():
                for form in ("NFC", "NFD"):
                    self.users.setdefault(unicodedata.normalize(form, part.lower()))

    def _add_host(self, name: str) -> None:
        """Takes the name of a machine, with its domain and without."""
        name = name.lower().rstrip(".")
        for each in (name, name.partition(".")[0]):
            is_word = len(each) >= SHORTEST_NAME and not each.isdecimal()
            if is_word and each not in NO_NAMES and each != "localhost":
                self.hosts.setdefault(each)

    def values(self) -> Iterator[str]:
        """All that is to be gone from the result, as it is written most often."""
        yield from (*self.secrets, *self.users, *self.hosts, *self.emails, *self.found)


def secret_of(found: re.Match[str]) -> str | int:
    """The group of a pattern's match that is private: the one named `secret`, else all of it."""
    return "secret" if found.re.groupindex.get("secret") and found["secret"] is not None else 0


def find_homes(text: str) -> Iterator[re.Match[str]]:
    """The home directories in a text."""
    if any(sign in text for sign in _HOMES):
        yield from HOME.finditer(text)


def find_emails(text: str) -> Iterator[re.Match[str]]:
    """The e-mail addresses in a text."""
    if "@" in text or "%40" in text:
        yield from EMAIL.finditer(text)


def find_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Where IPv4 and IPv6 addresses are in a text, but those that every machine has."""
    for found in _IPV4.finditer(text):
        if found[0] not in _NOBODYS and all(int(part) < 256 for part in found[0].split(".")):
            yield found.span()
    for found in _IPV6.finditer(text) if ":" in text else ():
        address = found[0].rstrip(":")
        if _is_ipv6(address):
            yield found.start(), found.start() + len(address)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def any_word_of(words: Iterable[str]) -> re.Pattern[str] | None:
    """One of these names, standing alone or after an escape, in any case; None if there are none."""
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    if not longest_first:
        return None
    either = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?:(?<![^\W_])|{_ESCAPE})(?:{either})(?![^\W_])", re.IGNORECASE)
