"""Compares the files that an agent names as evidence with those it changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logist.core.model import Change


def find_unnamed_changes(changes: Iterable[Change], evidence: Sequence[str]) -> list[Change]:
    """Return the changes to files that no evidence names.

    Deleted files and caches need no evidence; naming a directory covers everything in it.
    """
    named = frozenset(evidence)
    return [
        change
        for change in changes
        if change.kind != "deleted" and not change.cache and not _is_named(change.path, named)
    ]


def _is_named(path: str, named: frozenset[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:count]) in named for count in range(1, len(parts) + 1))
