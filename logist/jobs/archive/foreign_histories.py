"""Histories that Logist did not write, or that were written anew since: read, never written to."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from logist.core.answer import exit_command
from logist.core.history import fold
from logist.core.history.fold import restep_to
from logist.core.model import Interaction, JsonObject, Kind
from logist.core.replay import old_shapes
from logist.core.replay.old_entry import is_ours
from logist.core.replay.old_shapes import Notes, OldShapesSurvey
from logist.errors import Damaged
from logist.jobs.base.session import dump, interaction_of
from logist.resources import schema
from logist.store import foreign, history
from logist.store.entries import seal

DEEP = "it is nested too deeply"
DEEPEST = 200
"""Levels of values in an entry; what goes deeper could not be written again."""
NOT_PROVEN = "the file was written anew since Logist wrote it: that nobody changed it can't be proven"
REWRITTEN = "its checksum does not hold: it was changed, or its numbers were written in another way"


def is_foreign(path: Path) -> bool:
    """Whether a history file has another shape than Logist writes (see store.foreign)."""
    return foreign.is_foreign(path)


class Rebuilding:
    """One history of another shape; what a reading found out is kept, so that two are enough for a replay."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked: _Look | None = None
        self._told: Notes | None = None
        """Of a reading that came to the end."""

    def restep_targets(self) -> set[int]:
        """The interactions that a restep goes back before; Damaged, with the file, where it does not read.

        Those of resteps that have to be made up are known once all interactions are made.
        """
        look = self._look()
        if not look.survey.goes_back:
            return set(look.targets)
        return {
            to
            for entry in self.interactions()
            if (to := fold.restep_target(entry)) and entry.kind is Kind.RESTEP
        }

    def interactions(self) -> Iterator[Interaction]:
        """The whole history in order, as interactions.

        Raises Damaged, with the file and the entry, at the first that can't be read.
        """
        look, found = self._look(), Notes()
        with _located(self._path):
            yield from _told(self._path, look, found)
        self._told = found

    def entries(self) -> Iterator[JsonObject]:
        """The same as JSON, as an entry of Logist would hold it; without checksums."""
        return map(dump, self.interactions())

    def notes(self) -> list[str]:
        """What had to be rebuilt, in words; reads the whole history if nobody has."""
        self._look()
        if self._told is None:
            deque(self.interactions(), maxlen=0)
        return list(self._told.lines()) if self._told else []

    def _look(self) -> _Look:
        with _located(self._path):
            version = _version(self._path)
            if self._looked is None or self._looked.version != version:
                self._looked, self._told = _looked(self._path, version), None
            return self._looked


class _Look(NamedTuple):
    """What must be known of a history before it is told."""

    version: tuple[int, ...]
    """Which file was read."""
    is_ours: bool
    targets: set[int]
    survey: OldShapesSurvey


def _version(path: Path) -> tuple[int, ...]:
    with history.opened(path) as file:
        found = os.fstat(file.fileno())
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def _located(path: Path) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise Damaged(DEEP, where=str(path)) from None
    except Damaged as error:
        if error.where:
            raise
        raise Damaged(error.message, where=str(path), fix=error.fix) from error


def _looked(path: Path, version: tuple[int, ...]) -> _Look:
    targets: set[int] = set()

    def seen(entries: Iterable[JsonObject]) -> Iterator[JsonObject]:
        for entry in entries:
            targets.update(restep_to(entry))
            yield entry

    with closing(foreign.entries(path)) as found:
        first = list(islice(found, 1))
        raw, known = seen(chain(first, found)), OldShapesSurvey()
        ours = bool(first) and is_ours(_cleaned(first[0]))
        if ours:
            deque(raw, maxlen=0)
        else:
            known = old_shapes.survey(map(_cleaned, raw))
    return _Look(version, ours, targets, known)


def _told(path: Path, look: _Look, notes: Notes) -> Iterator[Interaction]:
    with closing(foreign.entries(path)) as found:
        raw = map(_cleaned, found)
        if look.is_ours:
            yield from _written_anew(raw, notes)
        else:
            beside = _cleaned(foreign.beside(path))
            chat = schema("llm-chat-schema")
            yield from old_shapes.interactions(raw, chat, notes, beside, look.survey.settings)


def _written_anew(raw: Iterable[JsonObject], notes: Notes) -> Iterator[Interaction]:
    """Interactions of Logist as they are; whether their checksums hold is noted."""
    for place, entry in enumerate(raw, 1):
        if not is_ours(entry):
            raise Damaged(f"entry {place} is no interaction of Logist, and those before it are")
        found = interaction_of(entry)
        notes.add(NOT_PROVEN)
        if not _holds(entry):
            notes.add(REWRITTEN, found.sequence)
        yield found


def _holds(entry: JsonObject) -> bool:
    sequence, checksum = entry.get("sequence"), entry.get("checksum")
    if not isinstance(sequence, int) or not isinstance(checksum, str):
        return True  # it has none, which was noted
    complete, _ = seal(entry, sequence, entry.get("previous"))
    return bool(complete["checksum"] == checksum)


def _cleaned(value: Any, level: int = 0) -> Any:
    """The value with texts that can be stored: no lone surrogates. Raises Damaged for one that is too deep."""
    if level > DEEPEST:
        raise Damaged(DEEP)
    if isinstance(value, str):
        return value if value.isascii() else exit_command.clean(value)[0]
    if isinstance(value, list):
        return [_cleaned(item, level + 1) for item in value]
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item, level + 1) for key, item in value.items()}
    return value
