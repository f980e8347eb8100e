"""Forward compatibility: data of a newer Logist is kept and reported, but no decision depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from logist.core.model.words import ErrorKind, Kind, Word
from logist.core.text.json_object import JsonObject
from logist.errors import NewerFormat, Refused
from logist.formats import JOB, UPGRADE, describe_newer
from logist.formats import is_newer as is_newer_version

if TYPE_CHECKING:  # commands that only show jobs need this module without the models
    from logist.core.model import Interaction, Place, State

UNREAD = "?"
"""The value of a field that can't be read from a newer Logist's interaction."""

AWAITED = (None, "manual", "end", "review")


def is_newer(data: JsonObject) -> bool:
    """Whether an interaction or a state, as on disk, has a newer format than this Logist writes."""
    return is_newer_version(data.get("version", 1))


def read_newer_interaction(entry: JsonObject) -> Interaction | None:
    """Read as much as possible of an interaction of a newer Logist.

    None if it is not from a newer Logist; then it must validate completely.
    """
    kind = entry.get("kind")
    if not is_newer(entry) and not (isinstance(kind, str) and not Kind(kind).is_known):
        return None
    from logist.core.model import Interaction  # noqa: PLC0415 - see above
    from logist.quick_model import ValidationError  # noqa: PLC0415

    try:
        return Interaction.model_validate(entry)
    except ValidationError as error:
        unread_fields = {problem["loc"][0] for problem in error.errors()}
    after = entry.get("state_after")
    blank = {
        **dict.fromkeys(("kind", "actor", "state_before", "state_after"), UNREAD),
        **dict.fromkeys(("timestamp", "workspace_path"), ""),
        "version": JOB.version + 1,
        "after": {"status": after if isinstance(after, str) else UNREAD},
    }
    kept_fields = {name: value for name, value in entry.items() if name not in unread_fields}
    return Interaction.model_validate({**blank, **kept_fields})


def list_unknown_words(entry: Interaction) -> tuple[str, ...]:
    """List the words of an interaction that this Logist doesn't know, for example `kind pause`; () if it knows all."""
    version = (f"format {entry.version}",) if entry.version > JOB.version else ()
    return version + tuple(f"{name} {word}" for name, word in _list_words(entry) if not _is_known(word))


def _list_words(entry: Interaction) -> Iterator[tuple[str, str | None]]:
    """Yield the words of an interaction on which decisions depend."""
    yield "kind", entry.kind
    yield "actor", entry.actor
    yield "state", entry.state_before
    yield from _list_place_words(entry.after)
    if entry.observed:
        yield "phase", entry.observed.phase
    if entry.response.error:
        yield "error", entry.response.error.kind


def _list_place_words(place: Place) -> Iterator[tuple[str, str | None]]:
    yield "state", place.status
    if place.awaiting not in AWAITED:
        yield "awaiting", place.awaiting
    if place.stuck:
        yield "stuck", place.stuck.kind
        yield "phase", place.stuck.phase
    if place.before:
        yield from _list_place_words(place.before)


def _is_known(word: str | None) -> bool:
    return word.is_known if isinstance(word, Word) else isinstance(word, ErrorKind)


def list_newer_warnings(entries: Iterable[Interaction]) -> Iterator[str]:
    """Yield a warning for each interaction that this Logist doesn't fully understand."""
    for entry in entries:
        if words := ", ".join(dict.fromkeys(list_unknown_words(entry))):
            yield f"interaction {entry.sequence} is from a newer version of Logist ({words}): kept, but skipped"


def find_newer_fields(recorded: JsonObject, folded: State) -> JsonObject:
    """Return the fields of a recorded state that a fold can't reproduce: those of a newer Logist, and its format."""
    from logist.core.model.state import STATE_FIELDS  # noqa: PLC0415 - see above

    known_fields = {*STATE_FIELDS, "logist", "checksum"}
    unknown = {name: value for name, value in recorded.items() if name not in known_fields}
    version = recorded.get("version")
    if is_newer(recorded):
        unknown["version"] = max(folded.version, version if isinstance(version, int) else JOB.version + 1)
    return unknown


def refuse_to_move(state: State) -> None:
    """Raise Refused if the job is in a state that only a newer Logist knows, or has a newer format."""
    if state.version > JOB.version:
        raise NewerFormat(describe_newer("the job", state.version), fix=UPGRADE)
    words = [f"{name} {word}" for name, word in _list_place_words(state.place) if not _is_known(word)]
    if words:
        raise Refused(
            f"the job is in a state that this version of Logist doesn't know ({', '.join(words)})",
            fix=UPGRADE,
        )


def has_expected_value(recorded: Any, expected: Any) -> bool:
    """Whether a recorded value equals the expected one, ignoring fields that only a newer Logist knows."""
    if isinstance(recorded, dict) and isinstance(expected, dict):
        return all(
            name in recorded and has_expected_value(recorded[name], value) for name, value in expected.items()
        )
    return bool(recorded == expected)
