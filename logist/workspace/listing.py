"""The files of a workspace as a prompt lists them."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from logist.workspace import beneath, names
from logist.workspace.scan import Rules, scan


@dataclass(frozen=True)
class Listing:
    """Sorted paths, and how many more there are."""

    paths: tuple[str, ...]
    omitted: int


def of(workspace: Path, caches: frozenset[bytes], limit: int) -> Listing:
    """The regular files without caches and without any `.git`, in the order of their bytes."""
    with beneath.root(workspace) as top:
        found = scan(top, Rules(caches | {b".git"}))
    files = sorted(path for path, stamp in found.files.items() if stat.S_ISREG(stamp.mode))
    return Listing(tuple(map(names.shown, files[:limit])), max(0, len(files) - limit))
