"""Takes secrets out of text before it is sent or written: known values, and what is plainly a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from logist.core import secrets_table, spellings
from logist.core.secrets_table import Match

REDACTED = "[redacted]"
MIN_SECRET = 8
"""Shorter values are ordinary words too often."""

KNOWN = "a known value"


def redact(text: str, secrets: Sequence[str]) -> tuple[str, int]:
    """`text` with each secret replaced by `[redacted]`, and how many places that were.

    `secrets` are known values; those under 8 characters are passed over. Each is found in the spellings
    of `spellings`. Secrets that overlap are one place.
    """
    places = found(text, dict.fromkeys(secrets, KNOWN))
    pieces: list[str] = []
    position = 0
    for place in places:
        pieces += (text[position : place.start], REDACTED)
        position = place.end
    return "".join([*pieces, text[position:]]), len(places)


def found(text: str, secrets: Mapping[str, str]) -> list[Match]:
    """Each secret of `text` in order, none overlapping; `secrets` says of each value what it is."""
    every = sorted(chain(_known(text, secrets), _by_looks(text)), key=lambda match: match.start)
    places: list[Match] = []
    for match in every:
        if places and match.start < places[-1].end:
            places[-1] = places[-1]._replace(end=max(places[-1].end, match.end))
        else:
            places.append(match)
    return places


def _by_looks(text: str) -> Iterator[Match]:
    yield from secrets_table.matches(text)
    for reading in spellings.unescaped(text):
        for match in secrets_table.matches(reading.text):
            yield Match(*reading.span(match.start, match.end), match.kind)


def _known(text: str, secrets: Mapping[str, str]) -> Iterator[Match]:
    wanted = {secret: kind for secret, kind in secrets.items() if len(secret) >= MIN_SECRET}
    if not wanted:
        return
    plain = {form: kind for secret, kind in wanted.items() for form in spellings.forms(secret)}
    yield from _each(text, plain)
    for reading in spellings.unescaped(text):
        yield from _back(reading, _each(reading.text, wanted))
    for reading in spellings.without_percents(text):
        yield from _back(reading, _each(reading.text, {_latin(s): kind for s, kind in wanted.items()}))
    lines = {form: kind for secret, kind in wanted.items() for form in _of_lines(secret)}
    unbroken = spellings.unbroken(text)
    if any(form in unbroken for form in lines):
        reading = spellings.joined(text)
        yield from _back(reading, _each(reading.text, lines))


def _of_lines(secret: str) -> Iterable[str]:
    """What may be wrapped: the value, its base64 and hex."""
    return (secret, *spellings.encodings(secret.encode("utf-8", "surrogatepass")))


def _latin(secret: str) -> str:
    return secret.encode("utf-8", "surrogatepass").decode("latin-1")


def _back(reading: spellings.Reading | spellings.Nested, matches: Iterable[Match]) -> Iterator[Match]:
    return (Match(*reading.span(match.start, match.end), match.kind) for match in matches)


def _each(text: str, values: Mapping[str, str]) -> Iterator[Match]:
    for value, kind in values.items():
        start = text.find(value)
        while start >= 0:
            yield Match(start, start + len(value), kind)
            start = text.find(value, start + len(value))
