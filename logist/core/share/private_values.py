"""The first pass: collects the private values of a history.

It doesn't guess. A value is private because it is known (a secret in the environment, the user, the name of this
machine, a steward in the history), or because of its format: a secret in the table, the owner of a home directory,
an email address, an IP address, a match of a pattern in the settings.
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
"""Shorter user names are too often ordinary words; they are replaced only in the path of a home directory."""
SHORTEST_PATTERN = 4
"""The minimum length of a pattern's match that is also replaced where the pattern doesn't match."""

_ACCENTS = "\u0300-\u036f"
"""Combining accents, as in file names on some systems."""
WORD = re.compile(rf"[^\W_](?>(?:[^\W_]|[{_ACCENTS}])*)")
"""The parts of a name that get their own stand-in."""


def _after_escape(first: str = "") -> str:
    """Match after an escape that ends in a letter or digit and is not part of the name after it.

    `first`: the first character of the name, if it is already matched.
    """
    return rf"(?<=\\[nrtbf]{first})|(?<=%[0-9A-Fa-f]{{2}}{first})"


_ESCAPE = _after_escape()

# Each search is linear: a lookbehind prevents it from starting inside text that was already read.
HOME = re.compile(
    rf"(?:(?:(?<![\w.}}-])|{_ESCAPE}|(?<=[\s\"'=(,]-[A-Z]))/(?:home|Users)/|(?<=[A-Za-z]:)\\{{1,4}}Users\\{{1,4}}"
    rf"|%2[Ff](?:home|Users)%2[Ff]|(?<!\w)~(?=[A-Za-z_][\w.-]*/))(?P<name>\w[\w.+{_ACCENTS}-]*)"
)
"""A home directory with the name of its owner; also matches `-I/home/ada`."""
_HOMES = ("home", "Users", "~")
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_LOCAL = rf"\w(?:(?<![\w.+%\\-]\w)|{_after_escape(chr(92) + 'w')})[\w.+-]{{0,63}}+"
_LOCAL_PART = re.compile(rf"{_LOCAL}(?=@|%40)")
EMAIL = re.compile(rf"(?P<local>{_LOCAL})(?:@|%40)(?P<host>(?:{_LABEL}\.){{1,8}})[A-Za-z]{{2,24}}(?![\w-])")
"""An email address; `host` is without the last part."""
_LONGEST_LOCAL = 64
_EMAIL_SIGNS = ("@", "%40")
_EMAIL_SIGN = re.compile("|".join(_EMAIL_SIGNS))
# Their first digit comes before what must not stand before it, so that the search can skip ahead.
_IPV4 = re.compile(
    rf"[0-9](?:(?<![\w.][0-9])|{_after_escape('[0-9]')})[0-9]{{0,2}}\.(?:[0-9]{{1,3}}\.){{2}}[0-9]{{1,3}}(?!\w|\.[0-9])"
)
# Networks in use begin with four digits, so a slice such as `x[1::2]` is not an address.
_IPV6 = re.compile(
    rf"[23fF](?:(?<![\w:.][23fF])|{_after_escape('[23fF]')})[0-9A-Fa-f]{{3}}:[0-9A-Fa-f:]{{1,35}}+(?!\w)"
)
# A part of each match of these two that begins with a rare character.
_IPV4_PART = re.compile(r"\.(?<=[0-9]\.)[0-9]{1,3}\.[0-9]{1,3}\.[0-9]")
_IPV6_PART = re.compile(r":(?<=[0-9A-Fa-f]{4}:)[0-9A-Fa-f:]")
_NOBODYS = frozenset({"127.0.0.1", "0.0.0.0"})  # noqa: S104 - addresses of every machine


class Private:
    """The private values of one history."""

    def __init__(
        self, known: Mapping[str, str], patterns: Sequence[re.Pattern[str]] = (), hosts: Iterable[str] = ()
    ) -> None:
        """`known`: values that must not be written, with their kinds; `hosts`: names of machines."""
        self.patterns = patterns
        self.secrets: dict[str, str] = dict(known)
        """Values and their kinds."""
        self.users: dict[str, None] = {}
        """User names in lowercase."""
        self.hosts: dict[str, None] = {}
        """Host names in lowercase."""
        for host in hosts:
            self._add_host(host)
        self.emails: dict[str, None] = {}
        """The words of email addresses in lowercase."""
        self.found: dict[str, None] = {}
        """The matches of the patterns."""

    def text(self, text: str, depth: int = 0) -> None:
        """Search one text and the JSON strings in it; `line` has already covered text without escapes."""
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

    def needs_texts(self, line: str) -> bool:
        """Whether `text` may find something in the texts of an entry, given its JSON: it finds nothing in most."""
        signs = ("\\\\", *_HOMES, *_EMAIL_SIGNS)  # a backslash in a text is two in its JSON
        return bool(self.patterns) or any(sign in line for sign in signs)

    def line(self, text: str) -> bool:
        """Search for secrets only, in the text of a complete entry, where keys tell what their values are; return
        whether there are any.
        """
        matches = redact.find_secrets(text, {})
        for match in matches:
            value = literals.unescaped(text[match.start : match.end])
            if len(value) >= redact.MIN_SECRET:
                self.secrets.setdefault(value, match.kind)
        return bool(matches)

    def user(self, name: str) -> None:
        """Add the name of a person, each part separately."""
        for part in WORD.findall(unicodedata.normalize("NFC", name)):
            if len(part) >= SHORTEST_NAME and part.lower() not in NO_NAMES and not part.isdecimal():
                for form in ("NFC", "NFD"):
                    self.users.setdefault(unicodedata.normalize(form, part.lower()))

    def _add_host(self, name: str) -> None:
        """Add the name of a machine, with and without its domain."""
        name = name.lower().rstrip(".")
        for each in (name, name.partition(".")[0]):
            is_word = len(each) >= SHORTEST_NAME and not each.isdecimal()
            if is_word and each not in NO_NAMES and each != "localhost":
                self.hosts.setdefault(each)

    def values(self) -> Iterator[str]:
        """Yield everything that must not be in the result."""
        yield from (*self.secrets, *self.users, *self.hosts, *self.emails, *self.found)


def secret_of(found: re.Match[str]) -> str | int:
    """Return the private group of a pattern's match: the group `secret`, or else the complete match."""
    return "secret" if found.re.groupindex.get("secret") and found["secret"] is not None else 0


def find_homes(text: str) -> Iterator[re.Match[str]]:
    """Yield the home directories in a text."""
    if any(sign in text for sign in _HOMES):
        yield from HOME.finditer(text)


def find_emails(text: str) -> Iterator[re.Match[str]]:
    """Yield the email addresses in a text: like `EMAIL.finditer`, but searching only before each sign."""
    if not any(sign in text for sign in _EMAIL_SIGNS):
        return
    end = 0
    for sign in _EMAIL_SIGN.finditer(text):
        local = _LOCAL_PART.search(text, max(end, sign.start() - _LONGEST_LOCAL), sign.end())
        found = EMAIL.match(text, local.start()) if local else None
        end = found.end() if found else sign.end()
        if found:
            yield found


def find_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of IPv4 and IPv6 addresses in a text, except those that every machine has."""
    for found in _IPV4.finditer(text) if _IPV4_PART.search(text) else ():
        if found[0] not in _NOBODYS and all(int(part) < 256 for part in found[0].split(".")):
            yield found.span()
    for found in _IPV6.finditer(text) if _IPV6_PART.search(text) else ():
        address = found[0].rstrip(":")
        if _is_ipv6(address):
            yield found.start(), found.start() + len(address)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


class NameSearch:
    """Finds names as separate words or after an escape, ignoring case."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names` are in lowercase."""
        self._names = sorted(set(names), key=lambda name: (-len(name), name))
        either = "|".join(map(re.escape, self._names))
        self._pattern = re.compile(rf"(?:(?<![^\W_])|{_ESCAPE})(?:{either})(?![^\W_])", re.IGNORECASE)
        self._is_ascii = all(map(str.isascii, self._names))

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the names in a text, in order."""
        if not self._names:
            return iter(())
        # Most texts have no name, and a plain search says so much sooner. Outside ASCII, letters have more than two cases.
        if self._is_ascii and text.isascii():
            return self._find_at(text, _find_starts(text.lower(), self._names))
        return self._pattern.finditer(text)

    def _find_at(self, text: str, starts: Iterable[int]) -> Iterator[re.Match[str]]:
        """Like `finditer`, if each match begins at one of `starts`."""
        end = 0
        for start in starts:
            found = self._pattern.match(text, start) if start >= end else None
            if found:
                yield found
                end = found.end()


def _find_starts(lower: str, names: Iterable[str]) -> list[int]:
    """Return where one of the names begins, in order."""
    starts = set()
    for name in names:
        start = lower.find(name)
        while start >= 0:
            starts.add(start)
            start = lower.find(name, start + 1)
    return sorted(starts)
