"""The list of a workspace's files for a prompt."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from logist.quick_dataclass import dataclass
from logist.workspace.checkpoint.scan import UNREADABLE, ScanRules, scan_workspace
from logist.workspace.files import file_names, safe_open


@dataclass(frozen=True)
class Listing:
    """Sorted paths, and how many more there are. A locked directory appears as `<path>/ (unreadable)`."""

    paths: tuple[str, ...]
    omitted: int


def list_files(
    workspace: Path,
    caches: frozenset[bytes],
    limit: int,
    left_out: Callable[[str], bool] = lambda path: False,
) -> Listing:
    """Return the regular files without caches and without any `.git`, in the order of their bytes."""
    rules = ScanRules(caches | {b".git"})
    with safe_open.open_root(workspace) as top:
        scanned = scan_workspace(top, rules)
    raw_paths = [path for path, stamp in scanned.files.items() if stat.S_ISREG(stamp.mode)]
    raw_paths += [
        path + b"/ (unreadable)"
        for path, thing in scanned.unstored.items()
        if thing.why == UNREADABLE and not rules.is_cache(path)
    ]
    raw_paths.sort()
    visible = [path for path in map(file_names.to_display, raw_paths) if not left_out(path)]
    return Listing(tuple(visible[:limit]), max(0, len(visible) - limit))
