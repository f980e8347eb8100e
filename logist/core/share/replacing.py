"""The second pass: replaces every private value by its stand-in."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from logist.core.model import JsonObject
from logist.core.secrets import redact
from logist.core.share import literals, private_values
from logist.core.share.private_values import WORD, NameSearch, Private, secret_of
from logist.core.share.standins import Kind, StandIns
from logist.core.share.words import NO_NAMES
from logist.quick_tuple import NamedTuple

CACHED = 4096
LONGEST_CACHED = 500
"""The number and maximum length of cached texts: names and paths are repeated often."""


class Replacement(NamedTuple):
    """`text[start:end]` becomes `new`."""

    start: int
    end: int
    new: str


Pass = Callable[[str, int], Iterable[Replacement]]


class Replacing:
    """Replaces the private values of one history in texts; without `private`, only the paths in `places`."""

    def __init__(self, places: Mapping[str, str], private: Private | None = None) -> None:
        """`places` maps directories to their replacements; the longest match counts."""
        longest = sorted(places, key=lambda place: (-len(place), place))
        either = "|".join(map(re.escape, longest))
        self.redacts = private is not None
        """Whether private values are replaced, and not only the paths of the job."""
        self._quiet = False
        self._places = dict(places)
        self._place = re.compile(rf"(?<![\w.-])(?:{either})(?![\w-]|\.\w)") if longest else None
        self.stand_ins = StandIns(frozenset(private.values()) if private else ())
        self._passes: list[Pass] = [self._in_places]
        if private is not None:
            self._private = private
            self._labels = {value: f"#{number}" for number, value in enumerate(private.secrets)}
            self._values = {label: value for value, label in self._labels.items()}
            self._labels = literals.spelled(self._labels)
            self._user = NameSearch(private.users)
            self._host = NameSearch(private.hosts)
            self._found = _either(private.found)
            self._passes += [
                self._in_literals,
                self._secrets,
                self._patterns,
                self._homes,
                self._emails,
                self._addresses,
                self._hosts,
                self._users,
            ]
        self._short = lru_cache(maxsize=CACHED)(lambda text: self.marked(text, ())[0])

    @property
    def patterns(self) -> Sequence[re.Pattern[str]]:
        """Patterns that must not match anything in the result except stand-ins."""
        return self._private.patterns if self.redacts else ()

    @property
    def known(self) -> dict[str, str]:
        """Every secret that must not be in the result, with its kind."""
        return self._private.secrets if self.redacts else {}

    def look(self, line: str) -> None:
        """Search the JSON that contains all of the next texts; if it has no secret, they are not searched again."""
        self._quiet = self.redacts and not redact.find_secrets(line, self._labels)

    def look_into(self, entry: JsonObject, *, is_clean: bool) -> None:
        """Do the same for an interaction. `is_clean`: the first pass has found no secret in it by its format."""
        if is_clean and not self._labels:
            self._quiet = True
            return
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
        self._quiet = not redact.find_secrets(line, self._labels, is_clean=is_clean)

    def text(self, text: str) -> str:
        """Return the text without private values."""
        return self._short(text) if len(text) <= LONGEST_CACHED else self.marked(text, ())[0]

    def number(self, value: float, *, own: bool) -> float:
        """Return another number of the same length, if it contains something private.

        In `own` numbers of the format, only secrets are replaced.
        """
        text = json.dumps(value)
        if self.stand_ins.stands(text):
            return value  # a shortened fraction has other digits than its stand-in
        new = _apply(text, self._secrets(text, 0), [])[0] if own else self.text(text)
        if new == text:
            return value
        for written in (new, self.stand_ins.phrase("pattern", text)):
            with suppress(ValueError):
                made = json.loads(written)
                if isinstance(made, int | float):
                    self.stand_ins.rounded(json.dumps(made))
                    return made
        return value

    def is_left(self, text: str, depth: int = 0) -> bool:
        """Whether a pattern still finds something in a changed text that is not a stand-in."""
        if self.stand_ins.stands(text):
            return False
        for pattern in self.patterns:
            for found in pattern.finditer(text):
                if not self.stand_ins.made(found[secret_of(found)]):
                    return True
        if depth >= literals.DEEPEST:
            return False
        return any(self.is_left(each.value, depth + 1) for each in literals.escaped(text))

    def name(self, text: str) -> str:
        """Like `text`, for a field that contains only the name of a person."""
        if not self.redacts:
            return text
        return self.text(WORD.sub(lambda found: self.stand_ins.word("user", found[0]), text))

    def hash(self, digest: str) -> str:
        """Return another hash for a file, because the content of a short file could be guessed from its hash."""
        return digest if not self.redacts else self.stand_ins.hash(digest)

    def marked(self, text: str, marks: Sequence[int], depth: int = 0) -> tuple[str, list[int]]:
        """Like `text`, but also return the new positions of `marks`."""
        moved = list(marks)
        for run in self._passes:
            text, moved = _apply(text, run(text, depth), moved)
        return text, moved

    def _in_places(self, text: str, depth: int) -> Iterator[Replacement]:
        if self._place is not None and "/" in text and any(place in text for place in self._places):
            for found in self._place.finditer(text):
                yield Replacement(found.start(), found.end(), self._places[found[0]])

    def _in_literals(self, text: str, depth: int) -> Iterator[Replacement]:
        if depth >= literals.DEEPEST:
            return
        for start, end, value in literals.escaped(text):
            new = self.marked(value, (), depth + 1)[0]
            if new != value:
                yield Replacement(start, end, literals.encoded(new, text[start:end]))

    def _secrets(self, text: str, depth: int) -> Iterator[Replacement]:
        if self._quiet and literals.is_plain(text) and not depth:
            return
        for start, end, kind in redact.find_secrets(text, self._labels):
            spelled = text[start:end]
            value = self._values.get(kind, spelled)
            if spelled == value:
                yield Replacement(start, end, self.stand_ins.secret(value))
            elif (plain := literals.unescaped(spelled)) == value or kind not in self._values:
                yield Replacement(start, end, literals.encoded(self.stand_ins.secret(plain), spelled)[1:-1])
            else:
                yield Replacement(start, end, self.stand_ins.fill(value, spelled))

    def _patterns(self, text: str, depth: int) -> Iterator[Replacement]:
        spans = [
            found.span(secret_of(found))
            for pattern in self._private.patterns
            for found in pattern.finditer(text)
        ]
        if self._found is not None:
            spans += [found.span() for found in self._found.finditer(text)]
        for start, end in _united(spans):
            yield Replacement(start, end, self.stand_ins.phrase("pattern", text[start:end]))

    def _homes(self, text: str, depth: int) -> Iterator[Replacement]:
        for found in private_values.find_homes(text):
            yield Replacement(*found.span("name"), self._words("user", found["name"]))

    def _emails(self, text: str, depth: int) -> Iterator[Replacement]:
        for found in private_values.find_emails(text):
            for part in ("local", "host"):
                yield Replacement(*found.span(part), self._words("email", found[part]))

    def _addresses(self, text: str, depth: int) -> Iterator[Replacement]:
        for start, end in sorted(private_values.find_addresses(text)):
            yield Replacement(start, end, self.stand_ins.address(text[start:end]))

    def _hosts(self, text: str, depth: int) -> Iterator[Replacement]:
        for found in self._host.find(text):
            yield Replacement(*found.span(), self._words("host", found[0]))

    def _users(self, text: str, depth: int) -> Iterator[Replacement]:
        for found in self._user.find(text):
            yield Replacement(*found.span(), self.stand_ins.word("user", found[0]))

    def _words(self, kind: Kind, text: str) -> str:
        """Replace each word of a name; a word that is a user name gets the stand-in of that user."""
        return WORD.sub(lambda found: self._word(kind, found[0]), text)

    def _word(self, kind: Kind, word: str) -> str:
        if kind == "user" and word.lower() in NO_NAMES:
            return word
        return self.stand_ins.word("user" if word.lower() in self._private.users else kind, word)


def _either(values: Iterable[str]) -> re.Pattern[str] | None:
    longest = sorted(values, key=lambda value: (-len(value), value))
    return re.compile("|".join(map(re.escape, longest))) if longest else None


def _united(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Sort the spans and merge those that overlap. Otherwise the first match could hide a part of another match, and
    the patterns of a project could disable those of the user."""
    start = end = 0
    for begin, stop in sorted(spans):
        if begin < end:
            end = max(end, stop)
            continue
        if end > start:
            yield start, end
        start, end = begin, stop
    if end > start:
        yield start, end


def _apply(text: str, changes: Iterable[Replacement], marks: list[int]) -> tuple[str, list[int]]:
    """Return the changed text and the new positions of `marks`; a mark inside a change moves with its start."""
    pieces: list[str] = []
    starts: list[int] = []
    shifts: list[tuple[int, int, int]] = []
    at = shift = 0
    for start, end, new in changes:
        if text[start:end] == new:
            continue
        pieces += (text[at:start], new)
        starts.append(start)
        shifts.append((end, shift, shift + len(new) - (end - start)))
        shift, at = shifts[-1][2], end
    if not pieces:
        return text, marks
    return "".join([*pieces, text[at:]]), [_moved(mark, starts, shifts) for mark in marks]


def _moved(mark: int, starts: list[int], shifts: list[tuple[int, int, int]]) -> int:
    last = bisect_right(starts, mark) - 1
    if last < 0:
        return mark
    end, before, after = shifts[last]
    return mark + after if mark >= end else min(mark + before, end + after)
