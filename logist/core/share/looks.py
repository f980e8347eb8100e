"""How paths, hosts, addresses and the names of users look in a text. Every search is linear."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_SEGMENT = r"[^\s/\\\"'`<>|:;,*?()\[\]{}=&#!]++"
_START = r"(?:(?<![\w.}~/<$\\-])|(?<=file://)|(?<=\\[nrt]))"
"""Where a path may begin: not inside a relative one, an address, a variable or a mark of HTML."""

PATH = re.compile(rf"{_START}/(?:{_SEGMENT}/)++(?:{_SEGMENT})?")
"""An absolute path of two parts at least: a single one is a route, a command or a slash as often."""
DRIVE = re.compile(rf"(?<![\w])[A-Za-z]:(?:\\{{1,4}}{_SEGMENT}|/{_SEGMENT})++")

_HOME = re.compile(
    r"(?:(?<![\w.}-])/(?:export/|var/)?(?:home|Users)/|(?<=[A-Za-z]:)\\{1,4}Users\\{1,4}|(?<![\w/])~(?=[A-Za-z_][\w.-]*/))"
    r"(?P<name>\w[\w.+-]*)"
)
"""A home directory, with the name of its owner."""
_HOMES = ("/home/", "Users", "~")

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOTTED = rf"{_LABEL}(?:\.{_LABEL})++"
_TOP = (
    "com|org|net|edu|gov|mil|internal|intranet|local|lan|corp|localdomain|home|test|example|invalid",
    "io|dev|ai|app|cloud|co|uk|de|fr|nl|ch|at|eu|us|jp|cn|ru|se|dk|fi|it|es|au|br|ca",
)
"""Ends of names of hosts; those of the second row are words of programs too, so two labels have to stand before."""
_OWN = re.compile(
    r"(?:self|this|cls|output|input|steps|item|os|sys|config|settings|process|window|document|module)(?:\.|\Z)"
)
"""How names begin in programs and conditions."""
_URL = re.compile(
    r"""://(?:(?P<user>[^\s/?\#@:"'<>\\]{1,64}+)(?::[^\s/?\#@"'<>\\]*+)?@)?(?P<host>\[[0-9A-Fa-f:.]+\]|\w[\w.-]*)"""
)
_MAILBOX = re.compile(rf"@(?P<host>{_LABEL}(?:\.{_LABEL})*\.[A-Za-z]{{2,24}}|{_LABEL}(?=:))")
_LOCAL_PART = re.compile(r"(?<![\w.+-])\w[\w.+-]*\Z")
_NUMBER = re.compile(r"(?<![\w.:])(?P<address>(?:[0-9]{1,3}\.){3}[0-9]{1,3})(?![\w]|\.[0-9])")
_GROUPS = r"[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,6}"
_SHORTENED = re.compile(rf"::(?:{_GROUPS})?(?![\w:])")
_BEFORE_SHORTENED = re.compile(rf"(?<![\w:.]){_GROUPS}\Z")
_EIGHT = re.compile(r"(?<![\w:.])(?P<address>(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4})(?![\w:])")
_MANY_COLONS = re.compile(r":[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:")
_TOP_LEVEL = re.compile(rf"\.(?:(?P<sure>{_TOP[0]})|{_TOP[1]})(?![\w-]|\.[A-Za-z0-9])")
_LABELS = re.compile(rf"(?<![\w.@/-])(?:{_LABEL}\.){{0,8}}{_LABEL}\Z")
_LONGEST = 255
"""Characters of a name."""


class Seen(NamedTuple):
    """`text[start:end]`: the name of a `user` or `host`, or an `address` in numbers."""

    start: int
    end: int
    kind: Literal["user", "host", "address"]
    name: str


def hosts(text: str) -> list[Seen]:
    """Hosts in addresses, behind the name of a mailbox, by their number, or by how a name ends; and their users.

    In order, none overlapping. Each search goes for a sign that is rare, and looks at what stands before that.
    """
    addressed = list(_addressed(text))
    taken = {one.start for one in addressed}
    seen: list[Seen] = []
    for one in sorted([*addressed, *_mailboxes(text, taken), *_numbers(text), *_named(text)]):
        if not seen or one.start >= seen[-1].end:
            seen.append(one)
    return seen


def _addressed(text: str) -> Iterator[Seen]:
    for found in _URL.finditer(text) if "://" in text else ():
        if found["user"]:
            yield Seen(*found.span("user"), "user", found["user"])
        kind: Literal["host", "address"] = "address" if is_number(found["host"]) else "host"
        yield Seen(*found.span("host"), kind, found["host"])


def _mailboxes(text: str, taken: set[int]) -> Iterator[Seen]:
    """`taken` are places of hosts: what stands before them in an address is no mailbox."""
    for found in _MAILBOX.finditer(text) if "@" in text else ():
        begin = max(0, found.start() - 65)
        local = _LOCAL_PART.search(text[begin : found.start()])
        if local and found.start("host") not in taken and not is_number(found["host"]):
            yield Seen(begin + local.start(), found.start(), "user", local[0])
            yield Seen(*found.span("host"), "host", found["host"])


def _numbers(text: str) -> Iterator[Seen]:
    for found in _NUMBER.finditer(text):
        if is_address(found["address"]):
            yield Seen(*found.span("address"), "address", found["address"])
    for short in _SHORTENED.finditer(text) if "::" in text else ():
        before = _BEFORE_SHORTENED.search(text[max(0, short.start() - 36) : short.start()])
        name = (before[0] if before else "") + short[0]
        if before and any(sign.isdigit() for sign in name):
            yield Seen(short.end() - len(name), short.end(), "address", name)
    for found in _EIGHT.finditer(text) if _MANY_COLONS.search(text) else ():
        yield Seen(*found.span("address"), "address", found["address"])


def _named(text: str) -> Iterator[Seen]:
    for top in _TOP_LEVEL.finditer(text):
        begin = max(0, top.start() - _LONGEST)
        before = _LABELS.search(text[begin : top.start()])
        if before is None or _OWN.match(before[0]) or not (top["sure"] or "." in before[0]):
            continue
        yield Seen(begin + before.start(), top.end(), "host", before[0] + top[0])


LOCAL = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "[::1]", "::1", "host", "hostname"})  # noqa: S104 - names
"""Hosts that say nothing about anybody."""

WORD = re.compile(r"[^\W_]+")
"""What gets a stand-in of its own within a name."""
_EXTENSION = re.compile(r"(?<=.)\.[A-Za-z0-9]{1,5}\Z", re.DOTALL)


def owners(text: str) -> Iterator[str]:
    """Whose home directories are named."""
    if any(sign in text for sign in _HOMES):
        yield from (found["name"] for found in _HOME.finditer(text))


def is_host(name: str) -> bool:
    """Whether a name is plainly one of a host, wherever it stands: it has a dot, a hyphen or a digit."""
    return len(name) > 3 and any(sign in ".-0123456789" for sign in name) and not name.isdecimal()


def is_number(name: str) -> bool:
    """Whether a host is given by its number."""
    return name.startswith("[") or bool(re.fullmatch(r"[0-9.]+", name))


def is_address(name: str) -> bool:
    """Whether numbers are an address of another machine, not a version such as 1.0.300.2."""
    return name not in LOCAL and (":" in name or all(int(part) < 256 for part in name.split(".")))


def without_extension(path: str) -> tuple[str, str]:
    """A path, and how the name of its file ends: `/a/b`, `.py`."""
    found = _EXTENSION.search(path, path.rfind("/") + 1)
    return (path[: found.start()], found[0]) if found else (path, "")


def any_of(words: Iterator[str]) -> re.Pattern[str] | None:
    """One of these names, standing alone or after an escape, in any case; None if there are none."""
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    if not longest_first:
        return None
    either = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?:(?<![^\W_])|(?<=\\[nrtbf]))(?:{either})(?![^\W_])", re.IGNORECASE)
