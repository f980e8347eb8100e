"""Histories that Logist did not write, or that were written anew since: read, never written to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any

from logist.core import exit_command, old_shapes
from logist.core.model import Interaction, JsonObject
from logist.core.old_entry import is_ours
from logist.core.old_shapes import Notes
from logist.errors import Damaged
from logist.jobs.session import dump, interaction_of
from logist.resources import schema
from logist.store import foreign
from logist.store.entries import seal

DEEP = "it is nested too deeply"
DEEPEST = 200
"""Levels of values in an entry; what goes deeper could not be written again."""
NOT_PROVEN = "the file was written anew since Logist wrote it: that nobody changed it can't be proven"
REWRITTEN = "its checksum does not hold: it was changed, or its numbers were written in another way"


def is_foreign(path: Path) -> bool:
    """Whether a history file has another shape than Logist writes (see store.foreign)."""
    return foreign.is_foreign(path)


def interactions(path: Path, notes: Notes | None = None) -> Iterator[Interaction]:
    """The whole history in order, as interactions; what had to be rebuilt is added to `notes`.

    Raises Damaged, with the file and the entry, at the first that can't be read.
    """
    found = notes if notes is not None else Notes()
    try:
        yield from _told(path, found)
    except RecursionError:
        raise Damaged(DEEP, where=str(path)) from None
    except Damaged as error:
        if error.where:
            raise
        raise Damaged(error.message, where=str(path), fix=error.fix) from error


def entries(path: Path) -> Iterator[JsonObject]:
    """The same as JSON, as an entry of Logist would hold it; without checksums."""
    return map(dump, interactions(path))


def notes(path: Path) -> list[str]:
    """What had to be rebuilt, in words; reads the whole history."""
    found = Notes()
    for _ in interactions(path, found):
        pass
    return list(found.lines())


def _told(path: Path, notes: Notes) -> Iterator[Interaction]:
    with closing(foreign.entries(path)) as found:
        raw = map(_cleaned, found)
        first = list(islice(raw, 1))
        if first and is_ours(first[0]):
            yield from _written_anew(chain(first, raw), notes)
        else:
            beside = _cleaned(foreign.beside(path))
            with closing(foreign.entries(path)) as again:
                known = old_shapes.settings(map(_cleaned, again))
            chat = schema("llm-chat-schema")
            yield from old_shapes.interactions(chain(first, raw), chat, notes, beside, known)


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
