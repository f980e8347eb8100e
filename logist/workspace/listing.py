"""The files of a workspace as a prompt lists them."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from logist.workspace.checkpoint.scan import UNREADABLE, ScanRules, scan
from logist.workspace.files import file_names, safe_open


@dataclass(frozen=True)
class Listing:
    """Sorted paths, and how many more there are. A directory that is locked appears as `<path>/ (unreadable)`."""

    paths: tuple[str, ...]
    omitted: int


def of(
    workspace: Path,
    caches: frozenset[bytes],
    limit: int,
    left_out: Callable[[str], bool] = lambda path: False,
) -> Listing:
    """The regular files without caches and without any `.git`, in the order of their bytes."""
    rules = ScanRules(caches | {b".git"})
    with safe_open.root(workspace) as top:
        found = scan(top, rules)
    listed = [path for path, stamp in found.files.items() if stat.S_ISREG(stamp.mode)]
    listed += [
        path + b"/ (unreadable)"
        for path, thing in found.unstored.items()
        if thing.why == UNREADABLE and not rules.is_cache(path)
    ]
    listed.sort()
    shown = [path for path in map(file_names.shown, listed) if not left_out(path)]
    return Listing(tuple(shown[:limit]), max(0, len(shown) - limit))
