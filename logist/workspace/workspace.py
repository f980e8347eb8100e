"""One job's workspace: the directory an agent works in, and the repository of its checkpoints out of reach."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from logist.core.model import Change, Evidence
from logist.core.prompt.prompt import FileText, Relevant
from logist.core.relevance import Task
from logist.core.text.cache_patterns import DEFAULT_CACHES
from logist.errors import Damaged, StorageError, storage_advice
from logist.workspace import context, listing, prepared, source, throwaway
from logist.workspace.checkpoint import (
    baseline,
    changes,
    checkpoint,
    leftovers,
    objects,
    packs,
    patches,
    repository,
    restore,
    snapshot,
    undoing,
)
from logist.workspace.checkpoint.baseline import Baseline
from logist.workspace.checkpoint.scan import CACHE, DIRECTORY_MODE, ScanRules, Unstored, scan
from logist.workspace.checkpoint.snapshot import Snapshot, SnapshotReading
from logist.workspace.files import agent_files, file_copy, file_names, safe_open
from logist.workspace.git import GIT_PATH, Git
from logist.workspace.listing import Listing
from logist.workspace.merge import children as merge_children

OFFENCES = 100
"""Of what an agent changed and may not: the rest is counted, and undone as well."""
NAMED = 100
"""Of what a checkpoint does not hold: an agent can make a million pipes."""

_NO_GIT = "put it back from a backup: it holds the checkpoints, and nothing else does"


@dataclass(frozen=True)
class Checkpoint:
    """A commit, and what it does not hold, each as `path (reason)`; of many, the first and how many more."""

    commit: str
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Undone:
    """What was taken back."""

    changes: list[Change]
    """What was found, sorted by path; at most OFFENCES."""
    more: int
    """How many more there were."""
    remaining: frozenset[str]
    """Paths, of these, that could not be taken back."""
    kept: Checkpoint
    """The workspace after it."""


class Workspace:
    """The caller holds the job's lock for everything that writes: populate, checkpoint, restore."""

    def __init__(
        self,
        root: Path,
        git_dir: Path,
        *,
        caches: Sequence[str] = DEFAULT_CACHES,
        max_checkpoint_bytes: int = 1_000_000_000,
        path: str | None = None,
        outputs: Collection[str] = (),
    ) -> None:
        """`path` is where git is looked for, as in PATH; `outputs` what a setup made: no checkpoint holds it."""
        self.root = root.absolute()
        self.git = Git(git_dir.absolute(), path or GIT_PATH, of_job=True)
        self.caches = frozenset(os.fsencode(name) for name in caches)
        self.max_bytes = max_checkpoint_bytes
        self.prepared = frozenset(map(file_names.from_json, outputs))
        self.source_has_no_commits = False

    def populate(self, source_path: Path | None) -> str:
        """Makes the repository, the workspace and its throw-away `.git`; returns the first checkpoint.

        From a git repository (or a place in one), its commit at HEAD is the first checkpoint; without one, or where
        it has no commit yet (`source_has_no_commits`), the workspace starts empty. The source is only read.
        Nothing is flushed: that is for the maker of the job, once for all of it.
        """
        with self.in_the_making():
            origin = source.resolve(source_path) if source_path is not None else None
            head = source.head_commit(origin, self.git.path) if origin is not None else None
            self.source_has_no_commits = origin is not None and head is None
            repository.make(self.git.git_dir, bare=True, long_names=len(head or "") == 64)
            if origin is not None and head is not None:
                source.fetch_head(self.git, origin)
            return self._begin()

    def populate_from(self, parent: Path, commit: str) -> str:
        """The same from a checkpoint of another job, whose repository is `parent`."""
        with self.in_the_making():
            repository.make(self.git.git_dir, bare=True, long_names=len(commit) == 64)
            merge_children.fetch_commit(
                self.git, parent, commit, objects.BRANCH, "--depth=1", "--update-head-ok"
            )
            return self._begin()

    @contextmanager
    def in_the_making(self) -> Iterator[None]:
        """Inside, nothing is flushed: whoever makes the job flushes all of it before the job gets its name."""
        flushing = self.git
        self.git = replace(flushing, flushing=False)
        try:
            with self._storage():
                yield
        finally:
            self.git = flushing

    def merge(self, ours: str, children: Sequence[merge_children.Theirs]) -> merge_children.MergedChildren:
        """The work of children on top of a checkpoint; the workspace itself stays as it is (see `restore`)."""
        with self._storage():
            _require(self.git.git_dir, _NO_GIT)
            return merge_children.merge(self.git, ours, children)

    def _begin(self) -> str:
        """The workspace as the only checkpoint of a new repository has it; an empty one where there is none yet."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        commit = objects.tip(self.git)
        if commit is None:
            commit = checkpoint.write_empty(self.git, "Empty workspace")
            baseline.save(self.git, Baseline(commit))
        else:
            self._restore(commit)
        source.give_git(self.git, self.root, commit)
        return commit

    def checkpoint(self, message: str) -> Checkpoint:
        """Stores what the workspace holds, durably. If nothing changed, it is the last checkpoint, and no git runs."""
        with self._storage(), self._opened(unlocking=True) as top:
            last = baseline.load(self.git)
            shot = self._look(top, last, last.held())
            if shot.same_as(last) and last.commit is not None:
                commit = last.commit
            else:
                leftovers.remove(self.git.git_dir)
                commit = checkpoint.write(self.git, self._reading(top, last), shot, message)
            current = Baseline(commit, shot.tree, shot.unstored, shot.stamps)
            if current != last:
                baseline.save(self.git, current)
            return Checkpoint(commit, _skipped(shot.unstored))

    def restore(self, commit: str, *, clearing: bool = False) -> None:
        """Makes the workspace equal to a checkpoint, which is then the last one. Raises Damaged if it is not there.

        Its `.git`, caches, and what no checkpoint holds stay, unless they stand in the way; with `clearing`, what
        no checkpoint holds and was not there then goes too. A lost `.git` is made again.
        """
        with self._storage():
            self._restore(commit, clearing=clearing)
            source.give_git(self.git, self.root)

    def _restore(self, commit: str, *, clearing: bool = False) -> None:
        _require(self.git.git_dir, _NO_GIT)
        (unstored,) = objects.unstored(self.git, commit)
        target = objects.tree(self.git, commit)
        leftovers.remove(self.git.git_dir)
        self.root.mkdir(mode=0o700, exist_ok=True)
        with self._opened(unlocking=True) as top:
            last = baseline.load(self.git, Baseline(commit, target, unstored))
            shot = self._look(top, last, last.held() | baseline.directories_of(target))
            if clearing:
                self._remove(top, undoing.came(unstored, shot.unstored, target))
            written = restore.apply(self.git, top, shot, target)
        kept = {path: stamp for path, stamp in shot.stamps.items() if shot.tree[path] == target.get(path)}
        stamps = kept | baseline.settled(written, baseline.now(self.git))
        self._move_tip(last.commit, commit)
        baseline.save(self.git, Baseline(commit, target, unstored, stamps))

    def disarm(self) -> None:
        """Takes out of the workspace's own `.git` what makes git run programs; made again where it is not sound."""
        with self._storage(), self._opened(unlocking=True) as top:
            if not throwaway.disarm(self.git, top):
                source.give_git(self.git, self.root)

    def _move_tip(self, old: str | None, new: str) -> None:
        """What was checked in after the checkpoint stays reachable."""
        if old == new:
            return
        if old is not None:
            self.git.run("update-ref", f"{objects.KEPT}{old}", old)
        self.git.run("update-ref", objects.BRANCH, new)
        checkpoint.make_durable(self.git)

    def changes(self, before: str, after: str | None, limit: int = 1000) -> tuple[list[Change], int]:
        """What differs between two checkpoints, sorted by path, at most `limit`; and how many more there are.

        None is the workspace as it is now, as if it had been checked in; nothing is written for that.
        """
        with self._storage():
            _require(self.git.git_dir, _NO_GIT)
            if after is not None:
                return changes.between(self.git, before, after, limit)
            with self._opened() as top:
                last = baseline.load(self.git)
                shot = self._look(top, last, last.held(), writing=False)
            return changes.since(self.git, before, shot, limit)

    def edits(self, commit: str, limit: int = 1000, *, read_all: bool = False) -> tuple[list[Change], int]:
        """What differs between a checkpoint and the workspace as it is, but for caches; nothing is written.

        A file whose size, times, inode and mode are as at the last checkpoint is taken for unchanged; with
        `read_all`, every file is read. Raises Damaged, StorageError where the checkpoint is not all there.
        """
        with self._storage():
            _require(self.git.git_dir, _NO_GIT)
            self._require_contents(commit)
            with self._opened() as top:
                last = baseline.load(self.git)
                last = replace(last, stamps={}) if read_all else last
                shot = self._look(top, last, last.held(), writing=False)
            return changes.since(self.git, commit, shot, limit, lambda change: not change.cache)

    def _require_contents(self, commit: str) -> None:
        """Raises Damaged unless the repository names everything that a checkpoint holds."""
        entries = objects.tree(self.git, commit).values()
        missing = packs.lacking(
            self.git.git_dir, {entry.id for entry in entries if entry.mode != objects.GITLINK_MODE}
        )
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            message = f"the checkpoint {commit} lacks the content {min(missing)}{more}"
            raise Damaged(message, where=str(self.git.git_dir), fix=_NO_GIT)

    def checkpoints(self) -> dict[str, objects.RecordedCheckpoint]:
        """Every checkpoint in the repository, by its commit."""
        with self._storage():
            _require(self.git.git_dir, _NO_GIT)
            return objects.checkpoints(self.git)

    def holds_any(self, commit: str, paths: Sequence[str]) -> bool:
        """Whether a checkpoint holds one of these files."""
        with self._storage():
            _require(self.git.git_dir, _NO_GIT)
            stored = {file_names.stored(os.fsencode(path)) for path in paths}
            return not stored.isdisjoint(objects.tree(self.git, commit))

    def patch(
        self,
        before: str,
        after: str,
        max_bytes: int,
        left_out: Callable[[str], bool] = lambda path: False,
    ) -> patches.Patch:
        """What differs between two checkpoints as a patch of at most about `max_bytes`, and whether that is all.

        For a reviewer's prompt: `patch(state.start_checkpoint, state.checkpoint, ...)` is all that the job has
        changed, with the doer's last answer, in `step` as in `preview` (nothing is written). What was there before
        comes before what is new, the shorter first. Binary files, and those above 1 MB, are named only; of the others
        each has a share, in whole lines; what is cut is said in brackets.
        `left_out` says of a path that it is not shown, only named. Valid text, not redacted. Raises Damaged, StorageError.
        """
        with self._storage():
            _require(self.git.git_dir, _NO_GIT)
            return patches.between(self.git, before, after, max_bytes, left_out)

    def undo(
        self, before: str, after: str, forbidden: Collection[str], matters: Callable[[Change], bool]
    ) -> Undone | None:
        """Takes back every change between two checkpoints whose kind is forbidden; the workspace is as `after`.

        Ends with a checkpoint of its own. `matters` says which changes those are; None if there are none. What no
        checkpoint holds can only be removed, not put back. What it does, `restore(after)` undoes.
        """
        with self._storage():
            found, more = changes.between(self.git, before, after, OFFENCES, matters)
            if not found:
                return None
            old, new = objects.tree(self.git, before), objects.tree(self.git, after)
            lost, left = objects.unstored(self.git, before, after)
            with self._opened(unlocking=True) as top:
                if "created" in forbidden:
                    self._remove(top, undoing.came(lost, left, old))
                last = baseline.load(self.git)
                shot = self._look(top, last, last.held() | baseline.directories_of(old))
                restore.apply(self.git, top, shot, undoing.target(old, new, forbidden))
        kept = self.checkpoint("without what the role may not do")
        still, _ = changes.between(self.git, before, kept.commit, OFFENCES, matters)
        return Undone(found, more, frozenset(change.path for change in still), kept)

    def _remove(self, top: int, paths: Iterable[bytes]) -> None:
        with safe_open.root(self.git.git_dir) as beside:
            for raw in paths:
                undoing.remove(top, beside, raw)

    def listing(self, limit: int = 500, left_out: Callable[[str], bool] = lambda path: False) -> Listing:
        """The regular files, without `.git` and caches, sorted; `left_out` says of a path that it is not shown."""
        with self._storage():
            return listing.of(self.root, self.caches, limit, left_out)

    def survey(self, excluded: Sequence[str], first: str | None) -> context.FileSurvey:
        """What a prompt may tell of: no file that is git-ignored, a cache, `excluded`, or elsewhere.

        `first` is the job's first checkpoint (`state.start_checkpoint`): what is in it is not ignored.
        """
        with self._storage():
            return context.look(self.root, self.caches, excluded, context.Tracked(self.git, first))

    def structure(self, survey: context.FileSurvey) -> str:
        """The tree two levels deep, as text."""
        return context.structure(survey)

    def relevant(
        self,
        survey: context.FileSurvey,
        task: Task,
        *,
        limit: int,
        max_file_bytes: int,
        max_total_bytes: int,
        known: Collection[str] = (),
    ) -> list[Relevant]:
        """At most `limit` files that matter for a task, the best first; not those in `known`, which are shown anyway."""
        bounds = context.ContextBounds(limit, max_file_bytes, max_total_bytes)
        with self._storage():
            return context.relevant(self.root, survey, task, bounds, known)

    def withheld(self, paths: Collection[str], first: str | None) -> dict[str, str]:
        """Of paths that an agent named, those whose text no prompt shows, and why: git-ignored, or a place of keys.

        `first` as in `survey`.
        """
        with self._storage():
            return context.withheld(self.root, paths, context.Tracked(self.git, first)) if paths else {}

    def read_file(self, path: str, max_bytes: int) -> FileText:
        """A file for a prompt. Whatever is wrong with it is a note, never an error."""
        return agent_files.read_file(self.root, path, max_bytes)

    def evidence(self, path: str) -> Evidence:
        """Whether a file that an agent named is there. Whatever is wrong with it: it is not."""
        return agent_files.evidence(self.root, path, self.max_bytes)

    def copy_file(self, path: str, target: Path) -> None:
        """Copies a regular file of the workspace to `target`, durably; what is there is replaced.

        The copy is 0600, in directories that are made 0700 where missing. Raises UsageError for a path that is
        no such file (links, second names and what is locked are not).
        """
        with self._storage():
            file_copy.copy_file(self.root, path, target)

    def lock_files(self, patterns: Sequence[str] = ()) -> dict[str, str]:
        """The files that decide what is installed (see core.text.lock_files), each with the sha256 of its content."""
        with self._storage(), self._opened() as top:
            return prepared.lock_files(
                top, ScanRules(self.caches | {b".git"}, prepared=self.prepared), patterns
            )

    def made_since(self, commit: str, first: str | None) -> prepared.SetupProducts:
        """What a setup made since a checkpoint; `first` as in `survey`."""
        with self._storage(), self._opened() as top:
            last = baseline.load(self.git)
            shot = self._look(top, last, last.held(), writing=False)
            tracked = context.Tracked(self.git, first)
            return prepared.made(self.root, shot, objects.tree(self.git, commit), tracked)

    def prepared_digest(self, outputs: Sequence[str]) -> str:
        """By which a later change of these paths is noticed; no content is read."""
        with self._storage(), self._opened() as top:
            return prepared.digest(top, outputs)

    def remove_prepared(self, outputs: Sequence[str], *, caches: bool = False) -> None:
        """Removes these paths, and with `caches` every cache that no checkpoint holds files of."""
        with self._storage(), self._opened(unlocking=True) as top:
            raw = set(map(file_names.from_json, outputs))
            if caches:
                last = baseline.load(self.git)
                now = scan(top, ScanRules(self.caches, last.held(), unlocking=True))
                raw |= {path for path, thing in now.unstored.items() if thing.why == CACHE}
            self._remove(top, sorted(raw))

    def save_prepared(self, outputs: Sequence[str], folder: Path) -> prepared.Saved:
        """Copies these paths into a new directory."""
        with self._storage(), self._opened() as top:
            return prepared.save(top, self.root, outputs, folder)

    def put_prepared(self, saved: prepared.Saved, folder: Path) -> tuple[str, ...]:
        """Copies them back into this workspace, in place of what is there; returns those that have a place here."""
        with self._storage(), self._opened(unlocking=True) as top:
            return prepared.put(self.git, top, self.root, saved, folder)

    @contextmanager
    def _opened(self, *, unlocking: bool = False) -> Iterator[int]:
        """The workspace, opened. Raises Damaged where it, or the repository, is missing."""
        _require(self.git.git_dir, _NO_GIT)
        _require(self.root, f"'logist doctor --fix' makes it again; or: mkdir -m 700 {quote(str(self.root))}")
        with safe_open.root(self.root, unlocking=unlocking) as top:
            yield top

    def _look(self, top: int, last: Baseline, held: frozenset[bytes], *, writing: bool = True) -> Snapshot:
        found = scan(top, ScanRules(self.caches, held, writing, self.prepared))
        return snapshot.take(self.git, self._reading(top, last, writing=writing), found)

    def _reading(self, top: int, last: Baseline, *, writing: bool = True) -> SnapshotReading:
        return SnapshotReading(top, last, self.max_bytes, writing)

    @contextmanager
    def _storage(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename if isinstance(error.filename, str) else None
            message, fix = error.strerror or str(error), storage_advice(error.errno)
            raise StorageError(message, where=place or str(self.root), fix=fix) from error


def _require(directory: Path, fix: str) -> None:
    if not directory.is_dir():
        message = f"the directory {directory.name!r} of the job is missing"
        raise Damaged(message, where=str(directory), fix=fix)


def _skipped(things: dict[bytes, Unstored]) -> tuple[str, ...]:
    named = [f"{_shown(path, things[path])} ({things[path].why})" for path in sorted(things)[:NAMED]]
    more = len(things) - len(named)
    return tuple(named + [f"... and {more} more"] * bool(more))


def _shown(path: bytes, thing: Unstored) -> str:
    return file_names.shown(path + b"/" if thing.mode == DIRECTORY_MODE else path)
