"""Removes secrets from text before it is sent or written: known values, and text that looks like a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from logist.core.secrets import secrets_table, spellings
from logist.core.secrets.secrets_table import Match
from logist.quick_tuple import NamedTuple

REDACTED = "[redacted]"
MIN_SECRET = 8
"""Shorter values are ignored, because they are too often ordinary words."""

KNOWN = "known value"


def redact(text: str, secrets: Sequence[str], *, keep_lines: bool = False) -> tuple[str, int]:
    """Return `text` with each secret replaced by `[redacted]`, and the number of replacements.

    `secrets` are known values; those under MIN_SECRET characters are ignored. Each is found in all spellings
    (see `spellings`). Overlapping secrets count as one. `keep_lines`: the line breaks in a secret remain, so that
    every line keeps its number.
    """
    places = find_secrets(text, dict.fromkeys(secrets, KNOWN))
    pieces: list[str] = []
    position = 0
    for place in places:
        breaks = text.count("\n", place.start, place.end) if keep_lines else 0
        pieces += (text[position : place.start], REDACTED, "\n" * breaks)
        position = place.end
    return "".join([*pieces, text[position:]]), len(places)


def find_secrets(text: str, secrets: Mapping[str, str], *, is_clean: bool = False) -> list[Match]:
    """Return each secret in `text` in order, without overlaps; `secrets` maps each value to its kind.

    `is_clean`: a search without known values has found nothing in this text, and is not repeated.
    """
    wanted = {secret: kind for secret, kind in secrets.items() if len(secret) >= MIN_SECRET}
    return _join_overlapping(_find_all(text, wanted, is_clean=is_clean))


def find_spellings(text: str, values: Mapping[str, str]) -> list[Match]:
    """Return each of these values in `text`, in all spellings and however short it is, in order, without overlaps."""
    return _join_overlapping(_find_known(text, values, list(spellings.list_readings(text, values))))


def _join_overlapping(matches: Iterable[Match]) -> list[Match]:
    places: list[Match] = []
    for match in sorted(matches, key=lambda match: match.start):
        if places and match.start < places[-1].end:
            places[-1] = places[-1]._replace(end=max(places[-1].end, match.end))
        else:
            places.append(match)
    return places


def _find_all(text: str, wanted: Mapping[str, str], *, is_clean: bool) -> Iterator[Match]:
    """Yield the secrets in all readings of the text, in any order, known values first; they may overlap."""
    readings = list(spellings.list_readings(text, wanted))
    if wanted:
        yield from _find_known(text, wanted, readings)
    if is_clean and not readings:  # known values can make more readings
        return
    yield from secrets_table.find_by_pattern(text)
    for reading in readings:
        yield from _map_to_original(reading, secrets_table.find_by_pattern(reading.text))


def _find_known(
    text: str, wanted: Mapping[str, str], readings: Sequence[spellings.TextReading]
) -> Iterator[Match]:
    known = _spell_secrets(tuple(wanted.items()))
    yield from _find_values(text, known.forms)
    for reading in readings:
        yield from _map_to_original(reading, _find_values(reading.text, known.forms))
    percent = spellings.decode_percents(text)
    yield from _map_to_original(percent, _find_values(percent.text, known.bytes_as_latin))
    unbroken = spellings.join_lines(text)
    yield from _map_to_original(unbroken, _find_values(unbroken.text, known.wrapped))


class _Spellings(NamedTuple):
    """All spellings of some secrets, each with the kind of its secret."""

    forms: Mapping[str, str]
    bytes_as_latin: Mapping[str, str]
    """For a text with decoded percent signs."""
    wrapped: Mapping[str, str]
    """For a text without line breaks."""


# A command looks for the same secrets in dozens of texts for each step, and spelling them out takes longer than looking.
@lru_cache(maxsize=8)
def _spell_secrets(wanted: tuple[tuple[str, str], ...]) -> _Spellings:
    return _Spellings(
        {form: kind for secret, kind in wanted for form in spellings.list_forms(secret)},
        {_to_latin(secret): kind for secret, kind in wanted},
        {
            form: kind
            for secret, kind in wanted
            for form in spellings.list_wrapped_forms(secret)
            if len(form) >= min(MIN_SECRET, max(len(secret), spellings.SHORTEST_ENCODED))
        },
    )


def _to_latin(secret: str) -> str:
    return secret.encode("utf-8", "surrogatepass").decode("latin-1")


def _map_to_original(reading: spellings.TextReading, matches: Iterable[Match]) -> Iterator[Match]:
    return (Match(*reading.find_span(match.start, match.end), match.kind) for match in matches)


def _find_values(text: str, values: Mapping[str, str]) -> Iterator[Match]:
    for value, kind in values.items():
        start = text.find(value)
        while start >= 0:
            yield Match(start, start + len(value), kind)
            start = text.find(value, start + len(value))
