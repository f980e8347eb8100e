"""Reads histories that Logist did not write, or that were rewritten since; never writes them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

from logist.core.history import fold
from logist.core.history.fold import restep_to
from logist.core.model import Interaction, JsonObject, Kind
from logist.core.replay import old_shapes
from logist.core.replay.old_entry import is_logist_interaction
from logist.core.replay.old_shapes import Notes, OldShapesSurvey
from logist.core.text import surrogates
from logist.errors import Damaged
from logist.jobs.base.stored_records import dump_interaction, parse_interaction
from logist.quick_tuple import NamedTuple
from logist.resources import load_schema
from logist.store import foreign, history
from logist.store.entries import seal_entry

DEEP = "an entry is nested too deeply"
DEEPEST = 200
"""Maximum nesting of an entry; Logist could not write a deeper one."""
NOT_PROVEN = "another program rewrote the file, so Logist can't verify that it is unchanged"
REWRITTEN = "the checksum does not match: the entry or the format of its numbers was changed"


def has_foreign_shape(path: Path) -> bool:
    """True if a history file has another shape than Logist writes (see store.foreign)."""
    return foreign.is_foreign(path)


class Rebuilding:
    """One history of another shape. It keeps the findings of a pass, so that two passes are enough for a replay."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked: _Look | None = None
        self._told: Notes | None = None
        """The notes of a complete reading."""

    def find_restep_targets(self) -> set[int]:
        """The interactions that a restep returns to the state before.

        Raises Damaged, with the file, if it can't be read. Targets of resteps that have to be reconstructed
        are known once all interactions are built.
        """
        survey = self._survey_file()
        if not survey.survey.goes_back:
            return set(survey.targets)
        return {
            to
            for entry in self.read_interactions()
            if (to := fold.read_restep_target(entry)) and entry.kind is Kind.RESTEP
        }

    def read_interactions(self) -> Iterator[Interaction]:
        """Yield the whole history in order, as interactions.

        Raises Damaged, with the file and the entry, at the first that can't be read.
        """
        look, notes = self._survey_file(), Notes()
        with _add_location(self._path):
            yield from _build_interactions(self._path, look, notes)
        self._told = notes

    def read_entries(self) -> Iterator[JsonObject]:
        """Yield the same as JSON, as Logist would write it; without checksums."""
        return map(dump_interaction, self.read_interactions())

    def read_notes(self) -> list[str]:
        """What had to be rebuilt, as text; reads the history if that has not happened yet."""
        self._survey_file()
        if self._told is None:
            deque(self.read_interactions(), maxlen=0)
        return list(self._told.render_lines()) if self._told else []

    def _survey_file(self) -> _Look:
        with _add_location(self._path):
            version = _read_file_version(self._path)
            if self._looked is None or self._looked.version != version:
                self._looked, self._told = _survey_history(self._path, version), None
            return self._looked


class _Look(NamedTuple):
    """What must be known about a history before its interactions are built."""

    version: tuple[int, ...]
    """Which file was read."""
    is_ours: bool
    targets: set[int]
    survey: OldShapesSurvey


def _read_file_version(path: Path) -> tuple[int, ...]:
    with history.open_history(path) as file:
        status = os.fstat(file.fileno())
    return status.st_ino, status.st_mtime_ns, status.st_size


@contextmanager
def _add_location(path: Path) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise Damaged(DEEP, where=str(path)) from None
    except Damaged as error:
        if error.where:
            raise
        raise Damaged(error.message, where=str(path), fix=error.fix) from error


def _survey_history(path: Path, version: tuple[int, ...]) -> _Look:
    targets: set[int] = set()

    def collect_targets(entries: Iterable[JsonObject]) -> Iterator[JsonObject]:
        for entry in entries:
            targets.update(restep_to(entry))
            yield entry

    with closing(foreign.read_foreign_entries(path)) as raw_entries:
        first = list(islice(raw_entries, 1))
        raw, survey = collect_targets(chain(first, raw_entries)), OldShapesSurvey()
        is_own = bool(first) and is_logist_interaction(_clean_value(first[0]))
        if is_own:
            deque(raw, maxlen=0)
        else:
            survey = old_shapes.survey_entries(map(_clean_value, raw))
    return _Look(version, is_own, targets, survey)


def _build_interactions(path: Path, look: _Look, notes: Notes) -> Iterator[Interaction]:
    with closing(foreign.read_foreign_entries(path)) as entries:
        raw = map(_clean_value, entries)
        if look.is_ours:
            yield from _read_rewritten(raw, notes)
        else:
            leading_members = _clean_value(foreign.read_leading_members(path))
            chat_schema = load_schema("llm-chat-schema")
            yield from old_shapes.rebuild_interactions(
                raw, chat_schema, notes, leading_members, look.survey.settings
            )


def _read_rewritten(raw: Iterable[JsonObject], notes: Notes) -> Iterator[Interaction]:
    """Yield interactions of Logist unchanged; note those whose checksums are wrong."""
    for place, entry in enumerate(raw, 1):
        if not is_logist_interaction(entry):
            raise Damaged(f"entry {place} is not a Logist interaction, but those before it are")
        interaction = parse_interaction(entry)
        notes.add_note(NOT_PROVEN)
        if not _has_valid_checksum(entry):
            notes.add_note(REWRITTEN, interaction.sequence)
        yield interaction


def _has_valid_checksum(entry: JsonObject) -> bool:
    sequence, checksum = entry.get("sequence"), entry.get("checksum")
    if not isinstance(sequence, int) or not isinstance(checksum, str):
        return True  # without a checksum: noted above
    complete, _ = seal_entry(entry, sequence, entry.get("previous"))
    return bool(complete["checksum"] == checksum)


def _clean_value(value: Any, level: int = 0) -> Any:
    """The value with texts that can be stored: no lone surrogates. Raises
    Damaged for one nested too deeply.
    """
    if level > DEEPEST:
        raise Damaged(DEEP)
    if isinstance(value, str):
        return value if value.isascii() else surrogates.replace_surrogates(value)[0]
    if isinstance(value, list):
        return [_clean_value(item, level + 1) for item in value]
    if isinstance(value, dict):
        return {_clean_value(key): _clean_value(item, level + 1) for key, item in value.items()}
    return value
