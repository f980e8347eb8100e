"""Detects imported jobs that share their first interactions with another history in the same set.

`job import` makes a job from a history and keeps that file's hash, and the file may be in the same folder.
The interactions in both were paid for once, so sums over jobs must count them once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from logist.core.model import JsonObject, Kind
from logist.errors import LogistError
from logist.jobs.archive import foreign_histories, recorded_jobs
from logist.jobs.archive.recorded_jobs import NONSENSE, Archive
from logist.store import HISTORY, history
from logist.store.entries import CLOSING, read_header

_IMPORTED = re.compile(rb'"imported":"([0-9a-f]{64})"')
_UNREADABLE = (LogistError, OSError, RecursionError, *NONSENSE)
"""Errors that are ignored here: the caller that reads the complete history reports them."""
_PIECE = 1 << 20
_KEPT = ("sequence", "timestamp", "kind", "usage", "after")
"""Fields that are equal in two imports of one file."""


def count_shared_interactions(found: Sequence[Archive]) -> dict[Path, int]:
    """By the path of an imported history: how many of its first interactions another one of `found` has too.

    The other is the history it was made from, even if that has continued since, or else the first one that
    was made from the same. A history that was rotated or changed after its import is not recognized.
    """
    import_hashes = {archive.path: digest for archive in found if (digest := _read_import_hash(archive))}
    if not import_hashes:
        return {}
    lengths: dict[str, int] = {}
    for archive in found:
        for digest, count in _find_beginnings(archive, frozenset(import_hashes.values())):
            lengths.setdefault(digest, count)
    first_imports: dict[str, Archive] = {}
    counts: dict[Path, int] = {}
    for archive in found:
        digest = import_hashes.get(archive.path)
        if digest in lengths:
            counts[archive.path] = lengths[digest]
        elif digest is not None and first_imports.setdefault(digest, archive) is not archive:
            counts[archive.path] = _count_common(first_imports[digest], archive)
    return counts


def _read_import_hash(archive: Archive) -> str | None:
    """The hash of the file that a job was imported from."""
    if archive.path.name != HISTORY:
        return None
    try:
        with history.open_history(archive.path) as file:
            first_line = file.readline(300)
            if b'"segment":' not in first_line:
                return None
            if b'"segment":1,' in first_line and not _IMPORTED.search(file.readline(_PIECE)):
                return None
        create = next(iter(archive.read_entries()), {})
    except _UNREADABLE:
        return None
    command = create.get("command")
    digest = (
        command.get("imported") if create.get("kind") == Kind.CREATE and isinstance(command, dict) else None
    )
    return digest if isinstance(digest, str) else None


def _find_beginnings(archive: Archive, wanted: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Yield each hash of `wanted` that the file has, or had when shorter, with its number of interactions."""
    try:
        if foreign_histories.has_foreign_shape(archive.path):
            if (file_hash := recorded_jobs.hash_history_file(archive.path)) in wanted:
                yield file_hash, sum(1 for _ in archive.read_entries())
            return
        yield from _find_beginnings_in_lines(archive.path, wanted)
    except _UNREADABLE:
        return


def _find_beginnings_in_lines(path: Path, wanted: frozenset[str]) -> Iterator[tuple[str, int]]:
    with history.open_history(path) as file:
        header = read_header(file, path)
        file.seek(0)
        running_hash = hashlib.sha256(file.read(header.size))
        count = header.first_sequence - 1
        while line := file.readline(_PIECE):
            running_hash.update(line)
            if not line.endswith(b"\n"):
                continue
            count += 1
            closed_hash = running_hash.copy()
            closed_hash.update(CLOSING)
            if closed_hash.hexdigest() in wanted:
                yield closed_hash.hexdigest(), count


def _count_common(first: Archive, second: Archive) -> int:
    """How many first interactions two imports of one file have in common."""
    count = 0
    try:
        for one, other in zip(first.read_entries(), second.read_entries(), strict=False):
            if _select_compared_fields(one) != _select_compared_fields(other):
                break
            count += 1
    except _UNREADABLE:
        pass
    return count


def _select_compared_fields(entry: JsonObject) -> list[Any]:
    return [entry.get(name) for name in _KEPT]
