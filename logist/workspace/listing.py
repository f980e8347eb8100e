"""The list of a workspace's files for a prompt."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from heapq import nsmallest
from pathlib import Path

from logist.quick_dataclass import dataclass
from logist.workspace.checkpoint.scan import UNREADABLE, FileTable, ScanRules, WorkspaceScan, scan_workspace
from logist.workspace.files import file_names, safe_open

_KIND = stat.S_IFMT(0o177777)


@dataclass(frozen=True)
class Listing:
    """Sorted paths, and how many more there are. A locked directory appears as `<path>/ (unreadable)`."""

    paths: tuple[str, ...]
    omitted: int


def scan_for_listing(workspace: Path, caches: frozenset[bytes]) -> WorkspaceScan:
    """Scan no more of a workspace than is listed."""
    with safe_open.open_root(workspace) as top:
        return scan_workspace(top, ScanRules(caches | {b".git"}))


def list_files(
    scanned: WorkspaceScan,
    caches: frozenset[bytes],
    limit: int,
    left_out: Callable[[str], bool] = lambda path: False,
) -> Listing:
    """Return the regular files without caches and without any `.git`, in the order of their bytes."""
    hidden = caches | {b".git"}
    locked = (path for path, thing in scanned.unstored.items() if thing.why == UNREADABLE)
    raw_paths = [
        *_iter_regular(scanned.table, hidden),
        *(path + b"/ (unreadable)" for path in locked if hidden.isdisjoint(path.split(b"/"))),
    ]
    visible = [path for path in raw_paths if not left_out(file_names.to_display(path))]
    first = tuple(map(file_names.to_display, nsmallest(limit, visible)))
    return Listing(first, len(visible) - len(first))


def _iter_regular(table: FileTable, hidden: frozenset[bytes]) -> Iterator[bytes]:
    """Yield the paths of regular files, but not below directories with these names."""
    modes = table.list_modes()
    start = 0
    for directory, names in table.iter_groups():
        end = start + len(names)
        if hidden.isdisjoint(directory.split(b"/")):
            prefix = directory + b"/" if directory else b""
            for name, mode in zip(names, modes[start:end], strict=True):
                if mode & _KIND == stat.S_IFREG:
                    yield prefix + name
        start = end
