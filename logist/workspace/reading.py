"""Reads the workspace of a job: what it contains, and how it differs from a checkpoint. Writes nothing."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from logist.core.text.cache_patterns import DEFAULT_CACHES
from logist.errors import Damaged, StorageError, storage_advice
from logist.quick_dataclass import dataclass
from logist.workspace.checkpoint import baseline, changes, objects, packs, snapshot
from logist.workspace.checkpoint.baseline import Baseline
from logist.workspace.checkpoint.objects import Tree
from logist.workspace.checkpoint.scan import ScanRules, WorkspaceScan, scan_workspace
from logist.workspace.checkpoint.snapshot import Snapshot, SnapshotReading
from logist.workspace.files import agent_files, file_names, safe_open
from logist.workspace.git import GIT_PATH, Git

if TYPE_CHECKING:
    from logist.core.model import Change, Evidence

NAMED = 100
"""Maximum number of listed files that a checkpoint does not hold: an agent can create a million pipes."""

NO_GIT = "restore it from a backup: it has the only copy of the checkpoints"


@dataclass(frozen=True)
class Content:
    """What is in a workspace."""

    digest: str
    """The same for the same files, modes, links and empty directories, caches left out."""
    edits: tuple[Change, ...] = ()
    """What differs from a checkpoint, by path, without caches; at most NAMED."""
    omitted: int = 0


class WorkspaceReader:
    """The part of a workspace that commands need which only read."""

    def __init__(
        self,
        root: Path,
        git_dir: Path,
        *,
        caches: Sequence[str] = DEFAULT_CACHES,
        max_checkpoint_bytes: int = 1_000_000_000,
        path: str | None = None,
        outputs: Collection[str] = (),
        words: Path | None = None,
    ) -> None:
        """`path` is the PATH in which git is searched; `outputs` are the paths that
        a setup created: checkpoints don't include them. `words` is the folder of the word index; without it, the files
        that are relevant for a task are found by reading all files.
        """
        self.root = root.absolute()
        self.git = Git(git_dir.absolute(), path or GIT_PATH, of_job=True)
        self.caches = frozenset(os.fsencode(name) for name in caches)
        self.max_bytes = max_checkpoint_bytes
        self.words = words
        self.prepared = frozenset(map(file_names.from_json, outputs))

    def examine_content(self, commit: str | None) -> Content:
        """Return what is in the workspace now, and how it differs from a checkpoint; nothing is written."""
        with self._wrap_os_errors(), self._open_root() as top:
            last = baseline.load_baseline(self.git)
            now = self._take_snapshot(top, last, last.list_directories(), writing=False)
            digest = changes.compute_digest(now.tree, now.unstored)
            if commit is None:
                return Content(digest)
            edits, more = changes.list_changes_since(
                self.git, commit, now, NAMED, lambda change: not change.cache
            )
        return Content(digest, tuple(edits), more)

    def write_current(self, git: Git) -> baseline.ReadCheckpoint:
        """Write the workspace as a checkpoint to a scratch repository, which borrows the objects of this one.

        Returns the last checkpoint if the workspace is the same. Nothing of the job is written.
        """
        from logist.workspace.checkpoint import checkpoint  # noqa: PLC0415 - only a comparison of files needs it

        with self._wrap_os_errors(), self._open_root() as top:
            last = baseline.load_baseline(self.git)
            now = self._take_snapshot(top, last, last.list_directories(), writing=False)
            if last.commit is not None and now.is_same_as(last):
                return baseline.ReadCheckpoint(last.commit, now.tree, now.unstored)
            reading = self._make_reading(top, last, writing=False)
            commit = checkpoint.write_small_commit(git, reading, now, "now") or checkpoint.write_checkpoint(
                git, reading, now, "now"
            )
            return baseline.ReadCheckpoint(commit, now.tree, now.unstored)

    def list_edits(
        self, commit: str, limit: int = 1000, *, read_all: bool = False
    ) -> tuple[list[Change], int]:
        """Return what differs between a checkpoint and the current workspace, except caches, as plain records;
        nothing is written.

        A file with the same size, times, inode and mode as at the last checkpoint counts as unchanged; with
        `read_all`, every file is read. Raises Damaged or StorageError if the checkpoint is incomplete.
        """
        with self._wrap_os_errors():
            require_directory(self.git.git_dir, NO_GIT)
            tree = self._read_complete_tree(commit)
            with self._open_root() as top:
                last = baseline.load_baseline(self.git)
                last = last.without_stamps() if read_all else last
                now = self._take_snapshot(top, last, last.list_directories(), writing=False)
            return changes.list_changes_since(
                self.git, commit, now, limit, lambda change: not change.cache, tree=tree, plain=True
            )

    def list_checkpoints(self) -> dict[str, objects.RecordedCheckpoint]:
        """Return every checkpoint in the repository, by its commit."""
        with self._wrap_os_errors():
            require_directory(self.git.git_dir, NO_GIT)
            return objects.list_checkpoints(self.git)

    def _read_complete_tree(self, commit: str) -> Tree:
        """Read the tree of a checkpoint. Raises Damaged unless the repository has all its objects."""
        tree = objects.read_tree(self.git, commit)
        missing = packs.find_lacking(
            self.git.git_dir, {entry.id for entry in tree.values() if entry.mode != objects.GITLINK_MODE}
        )
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            message = f"the checkpoint {commit} is incomplete: missing {min(missing)}{more}"
            raise Damaged(message, where=str(self.git.git_dir), fix=NO_GIT)
        return tree

    def check_evidence(self, path: str) -> Evidence:
        """Check whether a file that an agent named exists. Any problem with it counts as missing."""
        return agent_files.check_evidence(self.root, path, self.max_bytes)

    def hash_evidence(self, path: str) -> dict[str, object]:
        """Return the same as JSON."""
        exists, digest = agent_files.hash_evidence(self.root, path, self.max_bytes)
        return {"path": agent_files.escape_surrogates(path), "exists": exists, "sha256": digest}

    @contextmanager
    def _open_root(self, *, unlocking: bool = False) -> Iterator[int]:
        """Open the workspace. Raises Damaged if it or the repository is missing."""
        require_directory(self.git.git_dir, NO_GIT)
        if not self.root.is_dir():
            require_directory(
                self.root, f"run: logist doctor --fix; or: mkdir -m 700 {quote(str(self.root))}"
            )
        with safe_open.open_root(self.root, unlocking=unlocking) as top:
            yield top

    def _take_snapshot(
        self, top: int, last: Baseline, held: frozenset[bytes], *, writing: bool = True
    ) -> Snapshot:
        scanned = self._scan(top, held, writing=writing)
        return snapshot.take_snapshot(self.git, self._make_reading(top, last, writing=writing), scanned)

    def _scan(self, top: int, held: frozenset[bytes], *, writing: bool = True) -> WorkspaceScan:
        return scan_workspace(top, ScanRules(self.caches, held, writing, self.prepared))

    def _make_reading(self, top: int, last: Baseline, *, writing: bool = True) -> SnapshotReading:
        return SnapshotReading(top, last, self.max_bytes, writing)

    @contextmanager
    def _wrap_os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename if isinstance(error.filename, str) else None
            message, fix = error.strerror or str(error), storage_advice(error.errno)
            raise StorageError(message, where=place or str(self.root), fix=fix) from error


def require_directory(directory: Path, fix: str) -> None:
    if not directory.is_dir():
        message = f"the directory {directory.name!r} of the job is missing"
        raise Damaged(message, where=str(directory), fix=fix)
