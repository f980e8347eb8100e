"""How paths, hosts, addresses and the names of users look in a text. Every search is linear."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_SEGMENT = r"[^\s/\\\"'`<>|:;,*?()\[\]{}=&#!]++"
_OPTION = r"""(?<=[\s"'=(,]-[A-Z])"""
_START = rf"(?:(?<![\w.}}~/<$\\-])|(?<=file://)|(?<=\\[nrt])|{_OPTION})"
"""Where a path may begin: not inside a relative one, an address, a variable or a mark of HTML. `-I/a/b` has one, too."""

PATH = re.compile(rf"{_START}/(?:{_SEGMENT}/)++(?:{_SEGMENT})?")
"""An absolute path of two parts at least: a single one is a route, a command or a slash as often."""
_COMMON = re.compile(
    r"/(?:etc|bin|sbin|lib|lib64|proc|dev(?!/(?:shm|disk|mapper)\b)|usr(?!/(?:home|users|src)\b))/"
)
_ROUTE = re.compile(r"/(?:api|v[0-9]{1,2}|rest|graphql|rpc|oauth2?)/")
_SPACED = rf"(?:(?: {_SEGMENT}){{1,4}}(?=\\{{1,4}}[^\Wnrt]))?+"
"""More words of a name with spaces: the next backslash begins another name, and is no `\\n`."""
DRIVE = re.compile(rf"(?<![\w])[A-Za-z]:(?:\\{{1,4}}{_SEGMENT}{_SPACED}|/{_SEGMENT})++")
_SHARE = r"[\w.$-]{2,255}+"
SHARED = re.compile(
    rf"(?<![\w\\])(?:\\\\{_SHARE}(?:\\{_SEGMENT}{_SPACED})++|\\{{4}}{_SHARE}(?:\\\\{_SEGMENT}{_SPACED})++)"
)
"""A file on another machine: `\\\\server\\folder\\file`, or so in JSON."""
ENCODED = re.compile(r"(?:%2[Ff][\w.~+-]++){2,}+")
"""A path in an address: `%2Fhome%2Fada`."""
ENCODED_NAME = re.compile(r"(?<=%2[Ff])[\w.~+-]++")
REMOTE = re.compile(
    rf"(?:(?<=\w)@[A-Za-z0-9][\w.-]*+:(?![0-9]++(?:\W|\Z))|file://\w[\w.-]*+/)(?P<path>(?:{_SEGMENT}/)*+{_SEGMENT})"
)
"""A path on another machine, as git, scp and browsers write it: `git@host:ada/x.git`, `file://host/ada/x`."""

_MARKS = "\u0300-\u036f"
"""Accents that stand behind their letters, as names of files on some machines have them."""
_HOME = re.compile(
    rf"(?:(?:(?<![\w.}}-])|{_OPTION})/(?:export/|var/)?(?:home|Users)/|(?<=[A-Za-z]:)\\{{1,4}}Users\\{{1,4}}"
    rf"|file://[\w.-]++/(?:home|Users)/|%2[Ff](?:home|Users)%2[Ff]|(?<!\w)~(?=[A-Za-z_][\w.-]*/))"
    rf"(?P<name>\w[\w.+{_MARKS}-]*)"
)
"""A home directory, with the name of its owner."""
_SPACED_HOME = re.compile(rf"[A-Za-z]:\\{{1,4}}Users\\{{1,4}}(?P<name>\w[\w.+-]*+{_SPACED})")
_HOMES = ("home", "Users", "~")
_ACCOUNT = re.compile(
    r"(?:\b[ug]id=[0-9]+\(|\b(?:USER|LOGNAME|USERNAME|SUDO_USER)=[\"']?)(?P<name>[A-Za-z_][\w.-]*)(?![\w\\/$])"
)
"""A name of an account, as `id` and an environment have it."""
_LISTED = re.compile(
    r"(?:(?<=\s)|(?<=\\n)|(?<=[\"'])|\A)[bcdlps-](?:[r-][w-][xsStT-]){3}[+.@]? +[0-9]+ +(?P<name>[A-Za-z_][\w.-]*) +[\w.-]+ +[0-9]"
)
"""The owner of a file, as `ls -l` has it."""

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
_MAILBOX = re.compile(rf"@(?P<host>{_LABEL}(?:\.{_LABEL})*\.[A-Za-z]{{2,24}}|{_LABEL}(?=:| ~|\$ ))")
_LOGIN = re.compile(rf"@(?P<host>{_LABEL})(?![\w.@:-])")
_AT_NUMBER = re.compile(r"@(?=(?P<address>(?:[0-9]{1,3}\.){3}[0-9]{1,3})(?![\w]|\.[0-9]))")
_BY_SHELL = re.compile(
    r"\b(?:(?:ssh|scp|sftp|rsync|mosh)(?: +-\S+(?: +[^-\s]\S*)?)*|ssh-[\w-]+ +[\w+/=]{8,}) +\Z", re.ASCII
)
_LINE = 500
"""Characters in which a command stands that goes to another machine, or a public key with the name of its owner."""
_PORT = re.compile(r":[0-9]{4,5}(?![\w.:])")
_BEFORE_PORT = re.compile(rf"(?<![\w.@/:%$-]){_LABEL}\Z")
_NO_HOST = re.compile(r"(?i:sha|md|utf|u?int|float|base|line|step)-?[0-9]+|[0-9-]+")
"""What stands before a number, too, and is no host."""
_LOCAL_PART = re.compile(r"(?<![\w.+-])\w[\w.+-]*\Z")
_NUMBER = re.compile(r"(?<![\w.])(?P<address>(?:[0-9]{1,3}\.){3}[0-9]{1,3})(?![\w]|\.[0-9])")
_VERSION = re.compile(r"(?:\b(?i:version)(?:\"?: ?\"| is | ?[=:] ?| )|==)\Z")
"""What stands before the number of a program, which looks like an address."""
_GROUPS = r"[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,6}"
_SHORTENED = re.compile(rf"::(?:{_GROUPS})?(?![\w:])")
_FIRST = r"(?:[0-9A-Fa-f]{3,4}|64:ff9b)(?::[0-9A-Fa-f]{1,4}){0,6}"
"""An address begins with one of the large numbers; a slice of a list, `x[1::2]`, does not."""
_BEFORE_SHORTENED = re.compile(rf"(?<![\w:.]){_FIRST}\Z")
_EIGHT = re.compile(r"(?<![\w:.])(?P<address>(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4})(?![\w:])")
_MANY_COLONS = re.compile(r":[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:")
_TOP_LEVEL = re.compile(
    rf"\.(?:(?P<sure>{_TOP[0]})|{_TOP[1]}|{_TOP[0].upper()})(?![\w-]|\.[A-Za-z0-9]|\((?![0-9]))"
)
_PROGRAM = re.compile(
    r"(?i:(?:asp|vb|ado|ml|json|c)\.net|(?:obj|object|np|pd|req|ctx|args|kwargs|props|jest)\..*\.(?:test|home|local))"
)
"""What ends like a host, and is a product, or a field of something in a program."""
_LABELS = re.compile(
    rf"(?:(?<![\w.@/%-])(?<!%[0-9A-Fa-f])|(?<=%[0-9A-Fa-f]{{2}}))(?:{_LABEL}\.){{0,8}}{_LABEL}\Z"
)
_LONGEST = 255
"""Characters of a name."""


class PrivateSpan(NamedTuple):
    """`text[start:end]`: the name of a `user` or `host`, an `address` in numbers, or a `version` that looks like one."""

    start: int
    end: int
    kind: Literal["user", "host", "address", "version"]
    name: str


def hosts(text: str) -> list[PrivateSpan]:
    """Hosts in addresses, behind the name of a mailbox, by their number, or by how a name ends; and their users.

    In order, none overlapping. Each search goes for a sign that is rare, and looks at what stands before that.
    """
    addressed = list(_addressed(text))
    taken = {one.start for one in addressed}
    seen: list[PrivateSpan] = []
    for one in sorted([*addressed, *_mailboxes(text, taken), *_ports(text), *_numbers(text), *_named(text)]):
        if not seen or one.start >= seen[-1].end:
            seen.append(one)
    return seen


def _addressed(text: str) -> Iterator[PrivateSpan]:
    for found in _URL.finditer(text) if "://" in text else ():
        if found["user"]:
            yield PrivateSpan(*found.span("user"), "user", found["user"])
        kind: Literal["host", "address"] = "address" if is_number(found["host"]) else "host"
        yield PrivateSpan(*found.span("host"), kind, found["host"])


def _mailboxes(text: str, taken: set[int]) -> Iterator[PrivateSpan]:
    """`taken` are places of hosts: what stands before them in an address is no mailbox."""
    for found in _MAILBOX.finditer(text) if "@" in text else ():
        begin = max(0, found.start() - 65)
        local = _LOCAL_PART.search(text[begin : found.start()])
        if local and found.start("host") not in taken and not is_number(found["host"]):
            yield PrivateSpan(begin + local.start(), found.start(), "user", local[0])
            yield PrivateSpan(*found.span("host"), "host", found["host"])
    for found in _AT_NUMBER.finditer(text) if "@" in text else ():
        local = _LOCAL_PART.search(text[max(0, found.start() - 65) : found.start()])
        if local and found.start("address") not in taken and is_address(found["address"]):
            yield PrivateSpan(found.start() - len(local[0]), found.start(), "user", local[0])
    for found in _LOGIN.finditer(text) if "@" in text else ():
        before = text[max(0, found.start() - _LINE) : found.start()]
        local = _LOCAL_PART.search(before[-65:])
        if not local or found.start("host") in taken:
            continue
        if _BY_SHELL.search(before[: len(before) - len(local[0])]):
            yield PrivateSpan(found.start() - len(local[0]), found.start(), "user", local[0])
            yield PrivateSpan(*found.span("host"), "host", found["host"])


def _ports(text: str) -> Iterator[PrivateSpan]:
    for port in _PORT.finditer(text):
        begin = max(0, port.start() - 64)
        name = _BEFORE_PORT.search(text[begin : port.start()])
        if name and is_host(name[0]) and not _NO_HOST.fullmatch(name[0]):
            yield PrivateSpan(begin + name.start(), port.start(), "host", name[0])


def _numbers(text: str) -> Iterator[PrivateSpan]:
    for found in _NUMBER.finditer(text):
        if is_address(found["address"]):
            is_version = _VERSION.search(text[max(0, found.start() - 20) : found.start()])
            yield PrivateSpan(
                *found.span("address"), "version" if is_version else "address", found["address"]
            )
    for short in _SHORTENED.finditer(text) if "::" in text else ():
        before = _BEFORE_SHORTENED.search(text[max(0, short.start() - 36) : short.start()])
        name = (before[0] if before else "") + short[0]
        if before and any(sign.isdigit() for sign in name):
            yield PrivateSpan(short.end() - len(name), short.end(), "address", name)
    for found in _EIGHT.finditer(text) if _MANY_COLONS.search(text) else ():
        yield PrivateSpan(*found.span("address"), "address", found["address"])


def _named(text: str) -> Iterator[PrivateSpan]:
    for top in _TOP_LEVEL.finditer(text):
        begin = max(0, top.start() - _LONGEST)
        before = _LABELS.search(text[begin : top.start()])
        if before is None or _OWN.match(before[0]) or not (top["sure"] or "." in before[0]):
            continue
        if not _PROGRAM.fullmatch(before[0] + top[0]):
            yield PrivateSpan(begin + before.start(), top.end(), "host", before[0] + top[0])


LOCAL = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "[::1]", "::1", "host", "hostname"})  # noqa: S104 - names
"""Hosts that say nothing about anybody."""

WORD = re.compile(rf"[^\W_](?:[^\W_]|[{_MARKS}])*+")
"""What gets a stand-in of its own within a name."""
_EXTENSION = re.compile(r"(?<=.)\.[A-Za-z0-9]{1,5}\Z", re.DOTALL)


def owners(text: str) -> Iterator[str]:
    """Whose home directories, accounts and files are named."""
    if any(sign in text for sign in _HOMES):
        for look in (_HOME, _SPACED_HOME):
            yield from (found["name"] for found in look.finditer(text))
    if "id=" in text or "USER" in text or "LOGNAME=" in text:
        yield from (found["name"] for found in _ACCOUNT.finditer(text))
    if "rw" in text or "r-" in text:
        yield from (found["name"] for found in _LISTED.finditer(text))


def is_host(name: str) -> bool:
    """Whether a name is plainly one of a host, wherever it stands: it has a dot, a hyphen or a digit."""
    return len(name) > 3 and any(sign in ".-0123456789" for sign in name) and not name.isdecimal()


def is_number(name: str) -> bool:
    """Whether a host is given by its number."""
    return name.startswith("[") or bool(re.fullmatch(r"[0-9.]+", name))


def is_address(name: str) -> bool:
    """Whether numbers are an address of another machine, not a version such as 1.0.300.2."""
    return name not in LOCAL and (":" in name or all(int(part) < 256 for part in name.split(".")))


def is_common(path: str) -> bool:
    """Whether a path is there on every machine, or a route of a server: it is of nobody, known names in it apart."""
    if _ROUTE.match(path):
        return not without_extension(path)[1]
    return _COMMON.match(path) is not None and "/../" not in path


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
    return re.compile(
        rf"(?:(?<![^\W_])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{{2}}))(?:{either})(?![^\W_])", re.IGNORECASE
    )
