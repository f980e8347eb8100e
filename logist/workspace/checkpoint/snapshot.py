"""A workspace as the tree of a checkpoint: names, modes and ids; only
files whose stamps have changed are read.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from logist.digests import Hash, start_hash
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.workspace.checkpoint import baseline
from logist.workspace.checkpoint.baseline import Baseline
from logist.workspace.checkpoint.objects import (
    FILE_MODE,
    GITLINK_MODE,
    LINK_MODE,
    PROGRAM_MODE,
    Tree,
    TreeEntry,
)
from logist.workspace.checkpoint.scan import UNREADABLE, FileStamp, Unstored, WorkspaceScan, unpack_stamp
from logist.workspace.files import file_names, safe_open
from logist.workspace.git import Git


class ContentSource(NamedTuple):
    """Where content can be read: a raw path, and the stamp of the file."""

    raw: bytes
    stamp: FileStamp


@dataclass
class Snapshot:
    """The current workspace; `fresh` maps content ids that the last checkpoint lacks to their sources."""

    tree: Tree = field(default_factory=dict)
    unstored: dict[bytes, Unstored] = field(default_factory=dict)
    stamps: dict[bytes, bytes] = field(default_factory=dict)
    """The reliable stamps, packed, by stored path."""
    fresh: dict[str, ContentSource] = field(default_factory=dict)
    directories: set[bytes] = field(default_factory=set)

    def is_same_as(self, last: Baseline) -> bool:
        return self.tree == last.tree and self.unstored == last.unstored

    def drop_path(self, path: bytes, why: str | None, stamp: FileStamp) -> None:
        """Remove a stored path; with a reason, it is listed as not stored."""
        self.tree.pop(path, None)
        self.stamps.pop(path, None)
        if why is not None:
            self.unstored[file_names.from_stored(path)] = Unstored(
                why, get_git_mode(stamp.mode), f"{stamp.size}-{stamp.mtime_ns}"
            )


@dataclass(frozen=True)
class SnapshotReading:
    """What is needed to read changed files."""

    top: int
    last: Baseline
    max_bytes: int
    writing: bool = False
    """For a checkpoint or a restore: unlock locked files, and save stamps. Otherwise write nothing."""

    def start_hash(self, size: int) -> Hash:
        """Return a new hash of the kind that this repository uses for object names."""
        long_names = self.last.commit is not None and len(self.last.commit) == 64
        return start_hash("sha256" if long_names else "sha1", size)


def take_snapshot(git: Git, reading: SnapshotReading, found: WorkspaceScan) -> Snapshot:
    """Return the snapshot for a scan. New content above `max_bytes` in total
    is left out, the largest first.
    """
    shot = Snapshot(unstored=dict(found.unstored), directories=found.directories)
    changed = _take_unchanged(shot, found, reading.last)
    if changed:
        since = baseline.read_file_system_time(git) if reading.writing else 0
        for raw, stamp in changed.items():
            _take_changed(shot, reading, ContentSource(raw, stamp))
        stored = {file_names.to_stored(raw): stamp for raw, stamp in changed.items()}
        read = {path: stamp for path, stamp in stored.items() if path in shot.tree}
        shot.stamps |= baseline.pack_reliable_stamps(read, since)
        _find_fresh(shot, reading, changed)
        _leave_out_largest(shot, reading.max_bytes)
    _take_empty_directories(shot, reading.last)
    return shot


def _take_unchanged(shot: Snapshot, found: WorkspaceScan, last: Baseline) -> dict[bytes, FileStamp]:
    """Add the files whose stamps are unchanged; return the rest."""
    changed = {}
    known, tree, table = last.stamps, last.tree, found.table
    for raw, path, stamp in zip(table.paths, table.stored_paths, table.list_stamps(), strict=True):
        if known.get(path) == stamp:
            shot.tree[path] = tree[path]
            shot.stamps[path] = stamp
        else:
            changed[raw] = unpack_stamp(stamp)
    return changed


def _take_changed(shot: Snapshot, reading: SnapshotReading, source: ContentSource) -> None:
    path = file_names.to_stored(source.raw)
    if source.stamp.size > reading.max_bytes and path not in reading.last.tree:
        return shot.drop_path(path, "too large", source.stamp)
    try:
        with open_content(reading, source) as (size, pieces):
            name = hash_content(reading, size, pieces)
    except PermissionError:
        return shot.drop_path(path, UNREADABLE, source.stamp)
    except OSError as error:
        if error.errno in safe_open.GONE:
            return None
        raise
    shot.tree[path] = TreeEntry(get_git_mode(source.stamp.mode), name)
    return None


def hash_content(reading: SnapshotReading, size: int, pieces: Iterator[bytes]) -> str:
    """Return the name of the content in git."""
    digest = reading.start_hash(size)
    digest.update(b"blob %d\0" % size)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def get_git_mode(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return LINK_MODE
    return PROGRAM_MODE if mode & stat.S_IXUSR else FILE_MODE


@contextmanager
def open_content(reading: SnapshotReading, source: ContentSource) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Open a file, or read the target of a link; yield size and content.

    Raises OSError of GONE if it is deleted or of another kind.
    """
    parts = source.raw.split(b"/")
    if stat.S_ISLNK(source.stamp.mode):
        with safe_open.open_below(reading.top, parts[:-1], unlocking=reading.writing) as parent:
            target = safe_open.read_link(parent, parts[-1])
        yield len(target), iter([target])
    else:
        with safe_open.open_regular_below(reading.top, parts, unlocking=reading.writing) as descriptor:
            yield source.stamp.size, safe_open.read_exactly(descriptor, source.stamp.size)


def _find_fresh(shot: Snapshot, reading: SnapshotReading, changed: dict[bytes, FileStamp]) -> None:
    known = {entry.id for entry in reading.last.tree.values()}
    for raw, stamp in changed.items():
        entry = shot.tree.get(file_names.to_stored(raw))
        if entry is not None and entry.id not in known:
            shot.fresh[entry.id] = ContentSource(raw, stamp)


def _leave_out_largest(shot: Snapshot, max_bytes: int) -> None:
    largest_first = sorted(shot.fresh, key=lambda name: (-shot.fresh[name].stamp.size, name))
    total = sum(source.stamp.size for source in shot.fresh.values())
    for name in largest_first:
        if total <= max_bytes:
            return
        source = shot.fresh.pop(name)
        total -= source.stamp.size
        for path in [path for path, entry in shot.tree.items() if entry.id == name]:
            shot.drop_path(path, "too large", source.stamp)


def _take_empty_directories(shot: Snapshot, last: Baseline) -> None:
    """Add placeholders for empty directories; where the last checkpoint has a
    submodule, the submodule is kept.
    """
    full = file_names.list_parents(shot.tree)
    for raw in sorted(shot.directories, reverse=True):
        path = file_names.to_stored(raw)
        if path in full:
            continue
        file_names.add_parents(full, path)
        entry = last.tree.get(path)
        if entry is not None and entry.mode == GITLINK_MODE:
            shot.tree[path] = entry
        else:
            shot.tree[path + b"/" + file_names.PLACEHOLDER] = TreeEntry(FILE_MODE, _hash_empty(last))


def _hash_empty(last: Baseline) -> str:
    return hash_content(SnapshotReading(-1, last, 0), 0, iter(()))
